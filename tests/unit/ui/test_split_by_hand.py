"""What the page is told of nodes that are divided over pools by hand."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpushare.cli.cluster.access import Access
from gpushare.cli.cluster.snapshot_file import parse_snapshot
from gpushare.cli.exit_codes import CommandError
from gpushare.cli.ui import split as splitting
from gpushare.cli.ui.split import tell_split
from tests.kit.cluster.command_line import run_command

SNAPSHOT = Path(__file__).parents[2] / "browser/cluster.json"
CLUSTER = parse_snapshot(SNAPSHOT.read_bytes(), "cluster.json")
LABEL = "aliyun.accelerator/nvidia_mem=16130MiB"
TODAY = "inference:3,notebooks:3,training:3"
MOVED = "inference:3,notebooks:4,training:2"
OPTIONS = Access(snapshot=SNAPSHOT).list_options()


def _tell(**query: str) -> Any:
    return json.loads(tell_split(CLUSTER, OPTIONS, query))


def _find_manifests(told: Any) -> str:
    text: str = told["command"].partition("<<'EOF'\n")[2]
    return text.removesuffix("EOF\n")


def test_the_choices_are_the_nodes_that_pools_share_with_the_numbers_of_today() -> None:
    (shared,) = _tell()["shared"]
    assert (shared["label"], shared["nodes"]) == (LABEL, 10)
    assert {pool["name"]: pool["nodes"] for pool in shared["pools"]} == {
        "inference": 3,
        "notebooks": 3,
        "training": 3,
    }


def test_where_no_nodes_are_shared_a_sentence_says_why() -> None:
    alone = replace(CLUSTER, pools=(CLUSTER.pools or ())[:1])
    told = json.loads(tell_split(alone, OPTIONS, {}))
    assert told["shared"] == []
    assert "pools" in told["why"]


@pytest.mark.parametrize(
    "sizes",
    [
        {"inference": 3, "notebooks": 4, "training": 2},
        {"inference": 3, "notebooks": 6, "training": 0},
        {"inference": 3, "notebooks": 3, "training": 0},
    ],
)
def test_what_is_told_of_a_split_is_what_simulate_says_of_its_pools(
    sizes: dict[str, int], tmp_path: Path
) -> None:
    told = _tell(nodes=LABEL, sizes=",".join(f"{pool}:{n}" for pool, n in sizes.items()))
    file = tmp_path / "pools.yaml"
    file.write_text(_find_manifests(told))
    printed = run_command(
        "simulate", "-f", str(file), "--snapshot", str(SNAPSHOT), "-o", "json"
    ).out
    said = json.loads(printed)
    same = ("pods", "placed", "placedToday", "pools", "pending", "displaced", "plan")
    assert {key: told[key] for key in same} == {key: said[key] for key in same}
    assert {pool["name"]: pool["split"]["nodes"] for pool in told["pools"]} == sizes


def test_pods_that_must_go_first_are_named_with_where_they_would_run() -> None:
    told = _tell(nodes=LABEL, sizes=MOVED)
    named = {f"{each['namespace']}/{each['name']}" for each in told["mustGo"]}
    assert named == {"speech/tts", "vision/resnet-3"}
    assert told["displaced"]["pods"] == 2
    assert _tell(nodes=LABEL, sizes=TODAY)["mustGo"] == []


def test_the_commands_name_the_cluster_that_the_page_shows() -> None:
    told = _tell(nodes=LABEL, sizes=TODAY)
    for command in (told["command"], told["search"]):
        assert f"simulate --snapshot {SNAPSHOT} " in command
    assert LABEL in told["search"]


def test_a_pool_that_gets_no_node_excludes_those_that_it_had() -> None:
    told = _tell(nodes=LABEL, sizes="inference:3,notebooks:6,training:0")
    pools = {pool["metadata"]["name"]: pool for pool in yaml.safe_load_all(_find_manifests(told))}
    nodes = pools["training"]["spec"]["nodes"]
    assert nodes["selector"] == {"matchLabels": {"alibabacloud.com/nodepool-id": "np-train"}}
    assert nodes["exclude"] == [f"cn-beijing.10.0.1.{number}" for number in (11, 12, 13)]


def test_nodes_that_get_another_mode_are_counted() -> None:
    assert _tell(nodes=LABEL, sizes=TODAY)["changes"] == 2
    assert _tell(nodes=LABEL, sizes="inference:4,notebooks:3,training:3")["changes"] == 3


@pytest.mark.parametrize(
    "query",
    [
        {"nodes": "no=label", "sizes": TODAY},
        {"sizes": TODAY},
        {"nodes": LABEL},
        {"nodes": LABEL, "sizes": "inference:3"},
        {"nodes": LABEL, "sizes": f"{TODAY},more:1"},
        {"nodes": LABEL, "sizes": "inference:-1,notebooks:3,training:3"},
        {"nodes": LABEL, "sizes": "inference:x,notebooks:3,training:3"},
        {"nodes": LABEL, "sizes": "inference:9,notebooks:9,training:9"},
        {"nodes": LABEL, "sizes": f"inference:{'9' * 5000},notebooks:0,training:0"},
    ],
)
def test_a_question_that_is_none_is_answered_by_a_sentence(query: dict[str, str]) -> None:
    with pytest.raises(CommandError):
        _tell(**query)


def test_a_split_that_takes_too_long_to_compute_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(splitting, "MOST_TRIES", 10)
    with pytest.raises(CommandError, match="too long"):
        _tell(nodes=LABEL, sizes=TODAY)
