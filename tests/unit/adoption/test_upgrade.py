"""From Basic and OpenSource to Professional: what each node becomes, and what it goes through."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from tests.kit.histories.labelled_cluster import LabelledNode, build_labelled_cluster
from tests.kit.values.found_clusters import Asked, build_found_pool
from tests.kit.values.manifests import Json, build_bound_pod, build_pod

Migrate = Callable[..., Any]


@pytest.fixture
def migrate(tmp_path: Path) -> Migrate:
    """What the command says of a cluster with these nodes, as data."""
    asked = Asked(tmp_path, "migrate", "pools")

    def migrate(
        *nodes: LabelledNode, options: Iterable[str] = (), **objects: Iterable[Json]
    ) -> Any:
        return asked.tell(build_labelled_cluster(nodes, **objects), *options)

    return migrate


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
    migrate: Migrate, edition: str, mode: str, becomes: str
) -> None:
    found = migrate(LabelledNode("a", edition, mode))
    (spec,) = list_pools(found).values()
    assert (spec["edition"], spec["schedule"]) == ("Professional", becomes)
    (node,) = found["nodes"]
    assert node["from"] == {"edition": edition, "schedule": mode}
    assert node["restartsPlugin"] == (mode != "default")
    assert node["beginsToIsolate"] == ((edition, mode) == ("Basic", "share"))
    assert not node["reboots"]


def test_a_module_stays_loaded_although_its_installer_is_gone(migrate: Migrate) -> None:
    gone = LabelledNode("a", "Basic", "share", has_plugins=False)
    found = migrate(gone, options=["--unisolated", "share"])
    assert [node["reboots"] for node in found["nodes"]] == [True]


def test_the_commands_carry_what_was_chosen(migrate: Migrate) -> None:
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


def test_pods_that_hold_a_shared_card_and_those_that_select_old_labels_are_told_apart(
    migrate: Migrate,
) -> None:
    waiting = build_pod("waiting", selects={"cgpu": "true"})
    waiting["metadata"] |= {"uid": "waiting", "namespace": "default"}
    pods = [build_bound_pod("holder", "a", 3), waiting]
    found = migrate(LabelledNode("a", "Basic", "cgpu"), pods=pods)
    (node,) = found["nodes"]
    assert (node["podsToFinish"], node["podsThatSelectOldLabels"]) == (["default/holder"], [])
    assert any("select removed labels (1 now)" in step["what"] for step in found["byHand"])


def test_a_node_pool_that_is_half_relabelled_is_still_one_pool(migrate: Migrate) -> None:
    found = migrate(LabelledNode("a", "Basic", "cgpu"), LabelledNode("b", schedule="cgpu"))
    (spec,) = list_pools(found).values()
    assert "names" not in spec["nodes"]
    assert [node["name"] for node in found["nodes"]] == ["a"]


def test_nodes_of_the_professional_edition_alone_are_left_to_adopt(migrate: Migrate) -> None:
    found = migrate(LabelledNode("a"))
    assert (list_pools(found), found["nodes"], found["byHand"]) == ({}, [], [])
    assert [note["code"] for note in found["notes"]] == ["AlreadyProfessional"]


def test_a_pool_goes_on_under_its_name_with_all_else_in_it(migrate: Migrate) -> None:
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
    assert found["notes"] == []
    delete = [command for command in list_commands(found) if "gpusharepools" in command]
    assert [command.split()[1:4] for command in delete] == [
        ["patch", "gpusharepools", "training"],
        ["delete", "gpusharepools", "training"],
    ]


def test_a_pool_that_is_being_deleted_is_not_followed(migrate: Migrate) -> None:
    pool = build_found_pool("training", edition="Basic")
    pool["metadata"]["deletionTimestamp"] = "2026-02-02T00:00:00Z"
    found = migrate(LabelledNode("a", "Basic", "cgpu"), pools=[pool])
    assert [*list_pools(found)] == ["np1-cgpu"]
