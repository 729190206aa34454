"""`gpushare adopt` and `migrate pools` as they are typed: what is printed, and how they end."""

from pathlib import Path

import pytest
import yaml

from gpushare.cli.exits import Exit
from gpushare.cli.snapshots import build_snapshot
from tests.kit.cluster.command_line import CommandResult, run_command
from tests.kit.histories.labelled_cluster import LabelledNode, build_labelled_cluster


class Typed:
    """A command on the snapshot of a cluster."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / "cluster.json"

    def __call__(self, *words: str, nodes: list[LabelledNode]) -> CommandResult:
        self._file.write_bytes(build_snapshot(build_labelled_cluster(nodes)))
        return run_command(*words, "--snapshot", str(self._file))


@pytest.fixture
def type_in(tmp_path: Path) -> Typed:
    return Typed(tmp_path)


@pytest.mark.parametrize("key", ["ack.node.gpu.schedule", "gpushare.io/pool"])
@pytest.mark.parametrize("command", [["adopt"], ["migrate", "pools"]])
def test_no_pool_selects_a_label_that_the_operator_writes(command: list[str], key: str) -> None:
    ended = run_command(*command, "--node-pool-label", key)
    assert (ended.code, ended.out) == (Exit.USAGE, "")
    assert "is a label that the operator writes" in ended.err


HOSTILE = "a\n---\nkind: ConfigMap\u2028x\x85y"


@pytest.mark.parametrize("command", [["adopt"], ["migrate", "pools"]])
def test_a_name_with_a_lines_end_is_no_document_of_its_own(
    type_in: Typed, command: list[str]
) -> None:
    nodes = [LabelledNode(HOSTILE, "OpenSource", "share", node_pool="")]
    shown = type_in(*command, "-o", "yaml", nodes=nodes)
    kinds = [each["kind"] for each in yaml.safe_load_all(shown.out) if each]
    assert kinds in ([], ["GPUSharePool"])


def test_a_node_pool_that_no_selector_can_name_is_none(type_in: Typed) -> None:
    shown = type_in("adopt", "-o", "yaml", nodes=[LabelledNode("a", node_pool="x y\n")])
    assert yaml.safe_load(shown.out)["spec"]["nodes"] == {"names": ["a"]}


def test_a_command_names_a_node_as_one_word(type_in: Typed) -> None:
    nodes = [LabelledNode("a; reboot", "OpenSource", "share")]
    shown = type_in("migrate", "pools", nodes=nodes)
    assert "kubectl label nodes 'a; reboot' ack.node.gpu.schedule=share" in shown.out


@pytest.mark.parametrize("node_pool", ["y", "1e3", "08", "n"])
def test_a_node_pools_name_stays_text_in_the_file(type_in: Typed, node_pool: str) -> None:
    shown = type_in("adopt", "-o", "yaml", nodes=[LabelledNode("a", node_pool=node_pool)])
    assert f"alibabacloud.com/nodepool-id: '{node_pool}'\n" in shown.out
