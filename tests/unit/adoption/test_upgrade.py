"""From Basic and OpenSource to Professional: what each node becomes, and what it goes through."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from gpushare.cli.snapshots import build_snapshot
from tests.kit.cluster.command_line import run_command
from tests.kit.histories.labelled_cluster import LabelledNode, build_labelled_cluster
from tests.kit.values.manifests import build_pod, build_pool

Json = dict[str, Any]


class Migrated:
    """What the command says of a cluster, as data."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / "cluster.json"

    def __call__(
        self,
        *nodes: LabelledNode,
        options: Iterable[str] = (),
        pods: Iterable[Json] = (),
        pools: Iterable[Json] | None = None,
    ) -> Any:
        cluster = build_labelled_cluster(nodes, pods=pods, pools=pools)
        self._file.write_bytes(build_snapshot(cluster))
        command = ("migrate", "pools", "--snapshot", str(self._file), "-o", "json", *options)
        ended = run_command(*command)
        assert (ended.code, ended.err) == (0, "")
        return json.loads(ended.out)


@pytest.fixture
def migrate(tmp_path: Path) -> Migrated:
    return Migrated(tmp_path)


def build_bound_pod(name: str, node: str, **options: Any) -> Json:
    pod = build_pod(name, nodeName=node, **options)
    pod["metadata"] |= {"uid": name, "namespace": "default"}
    return {**pod, "status": {"phase": "Running"}}


def build_found_pool(name: str, **spec: Any) -> Json:
    pool = build_pool(name, **spec)
    pool["metadata"] |= {"uid": name, "creationTimestamp": "2026-02-01T00:00:00Z"}
    return pool


def list_pools(found: Json) -> dict[str, Json]:
    return {item["metadata"]["name"]: item["spec"] for item in found["pools"]["items"]}


def list_commands(found: Json) -> list[str]:
    return [command for step in found["byHand"] for command in step["commands"]]


@pytest.mark.parametrize(
    ("edition", "mode", "becomes"),
    [
        ("Basic", "cgpu", "cgpu"),
        ("Basic", "share", "cgpu"),
        ("Basic", "default", "default"),
        ("OpenSource", "share", "share"),
        ("OpenSource", "default", "default"),
    ],
)
def test_each_mode_becomes_what_the_vendor_maps_it_to(
    migrate: Migrated, edition: str, mode: str, becomes: str
) -> None:
    found = migrate(LabelledNode("a", edition, mode))
    (spec,) = list_pools(found).values()
    assert (spec["edition"], spec["schedule"]) == ("Professional", becomes)
    (node,) = found["nodes"]
    assert node["from"] == {"edition": edition, "schedule": mode}
    assert node["restartsPlugin"] == (mode != "default")
    assert node["beginsToIsolate"] == ((edition, mode) == ("Basic", "share"))
    assert not node["reboots"]


def test_to_stay_without_isolation_a_node_of_basic_reboots(migrate: Migrated) -> None:
    found = migrate(LabelledNode("a", "Basic", "share"), options=["--unisolated", "share"])
    assert [spec["schedule"] for spec in list_pools(found).values()] == ["share"]
    (node,) = found["nodes"]
    assert (node["reboots"], node["beginsToIsolate"]) == (True, False)
    assert "kubectl annotate nodes a gpushare.io/module=loaded" in list_commands(found)


def test_a_module_stays_loaded_although_its_installer_is_gone(migrate: Migrated) -> None:
    gone = LabelledNode("a", "Basic", "share", has_plugins=False)
    found = migrate(gone, options=["--unisolated", "share"])
    assert [node["reboots"] for node in found["nodes"]] == [True]


def test_open_source_gpushare_loads_no_module_so_nothing_reboots(migrate: Migrated) -> None:
    found = migrate(LabelledNode("a", "OpenSource", "share"))
    assert [node["reboots"] for node in found["nodes"]] == [False]


def test_the_commands_carry_what_was_chosen(migrate: Migrated) -> None:
    key = "example.com/node-pool"
    found = migrate(
        LabelledNode("a", "Basic", "share", labels={key: "gpus"}),
        options=["--unisolated", "share", "--node-pool-label", key],
    )
    own = [command for command in list_commands(found) if command.startswith("gpushare")]
    assert own == [
        f"gpushare migrate pools --unisolated share --node-pool-label {key} -o yaml "
        "> professional.yaml",
        "gpushare migrate workloads -A --unisolated share",
    ]


def test_the_labels_that_go_are_in_the_commands(migrate: Migrated) -> None:
    found = migrate(
        LabelledNode("a", "Basic", "cgpu"),
        LabelledNode("b", "Basic", "cgpu"),
        LabelledNode("c", "OpenSource", "default", node_pool="np2"),
    )
    relabel = [command for command in list_commands(found) if "kubectl label" in command]
    assert relabel == [
        "kubectl label nodes a b ack.node.gpu.schedule=cgpu cgpu- cgpu.disable.isolation- "
        "--overwrite",
        "kubectl label nodes c ack.node.gpu.schedule=default gpushare- --overwrite",
    ]


def test_pods_that_hold_a_shared_card_and_those_that_select_old_labels_are_named(
    migrate: Migrated,
) -> None:
    found = migrate(
        LabelledNode("a", "Basic", "cgpu"),
        pods=[
            build_bound_pod("holder", "a"),
            build_bound_pod("chooser", "a", selects={"cgpu": "true"}),
            build_bound_pod("waiting", "", selects={"cgpu": "true"}),
        ],
    )
    (node,) = found["nodes"]
    assert node["podsToFinish"] == ["default/chooser", "default/holder"]
    assert node["podsThatSelectOldLabels"] == ["default/chooser"]
    assert any("select labels that go: 2" in step["what"] for step in found["byHand"])


def test_a_node_pool_that_is_half_relabelled_is_still_one_pool(migrate: Migrated) -> None:
    found = migrate(LabelledNode("a", "Basic", "cgpu"), LabelledNode("b", schedule="cgpu"))
    (spec,) = list_pools(found).values()
    assert "names" not in spec["nodes"]
    assert [node["name"] for node in found["nodes"]] == ["a"]


def test_nodes_of_the_professional_edition_alone_are_left_to_adopt(migrate: Migrated) -> None:
    found = migrate(LabelledNode("a"))
    assert (list_pools(found), found["nodes"], found["byHand"]) == ({}, [], [])
    assert [remark["code"] for remark in found["remarks"]] == ["AlreadyProfessional"]


def test_a_pool_goes_on_under_its_name_with_all_else_in_it(migrate: Migrated) -> None:
    pool = build_found_pool(
        "training",
        edition="Basic",
        priority=7,
        deletionPolicy="WholeCard",
        workloads={"selection": "OnRequest"},
    )
    found = migrate(
        LabelledNode("a", "Basic", "share", labels={"gpushare.io/pool": "training"}),
        pools=[pool],
        options=["--unisolated", "share"],
    )
    assert list_pools(found) == {"training": {**pool["spec"], "edition": "Professional"}}
    (node,) = found["nodes"]
    assert (node["pool"], node["reboots"]) == ("training", True)
    assert found["remarks"] == []
    delete = [command for command in list_commands(found) if "gpusharepools" in command]
    assert [command.split()[1:4] for command in delete] == [
        ["patch", "gpusharepools", "training"],
        ["delete", "gpusharepools", "training"],
    ]


def test_a_pool_that_is_being_deleted_is_not_followed(migrate: Migrated) -> None:
    pool = build_found_pool("training", edition="Basic")
    pool["metadata"]["deletionTimestamp"] = "2026-02-02T00:00:00Z"
    found = migrate(LabelledNode("a", "Basic", "cgpu"), pools=[pool])
    assert [*list_pools(found)] == ["np1-cgpu"]


def test_the_module_that_a_person_noted_holds_a_relabelled_node_back(tmp_path: Path) -> None:
    """What the printed command is for: the planner asks for a teardown before it says share."""
    cluster = build_labelled_cluster([LabelledNode("a")])
    (node,) = cluster.nodes
    node["metadata"]["annotations"] = {"gpushare.io/module": "loaded"}
    file = tmp_path / "cluster.json"
    file.write_bytes(build_snapshot(cluster))
    ended = run_command("adopt", "--snapshot", str(file), "-o", "json")
    (found,) = json.loads(ended.out)["nodes"]
    assert (ended.code, found["reboots"]) == (10, True)
