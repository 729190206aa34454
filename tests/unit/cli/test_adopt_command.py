"""`gpushare adopt` and `migrate pools` as they are typed, on nodes with odd names."""

from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from gpushare.cli.cluster.snapshot_file import build_snapshot
from tests.kit.cluster.command_line import run_command
from tests.kit.histories.labelled_cluster import LabelledNode, build_labelled_cluster

TypeIn = Callable[..., str]


@pytest.fixture
def type_in(tmp_path: Path) -> TypeIn:
    """What a command prints that is typed on the snapshot of a cluster with that node."""

    def type_in(node: LabelledNode, *words: str) -> str:
        file = tmp_path / "cluster.json"
        file.write_bytes(build_snapshot(build_labelled_cluster([node])))
        return run_command(*words, "--snapshot", str(file)).out

    return type_in


def test_a_node_pool_that_no_selector_can_name_is_none(type_in: TypeIn) -> None:
    shown = type_in(LabelledNode("a", node_pool="x y\n"), "adopt", "-o", "yaml")
    assert yaml.safe_load(shown)["spec"]["nodes"] == {"names": ["a"]}


def test_a_command_names_a_node_as_one_word(type_in: TypeIn) -> None:
    shown = type_in(LabelledNode("a; reboot", "OpenSource", "share"), "migrate", "pools")
    assert "kubectl label nodes 'a; reboot' ack.node.gpu.schedule=share" in shown
