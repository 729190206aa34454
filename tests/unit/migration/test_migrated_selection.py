"""Selections of nodes by older editions' labels, in the Professional edition's."""

from typing import Any

import pytest

from gpushare.analysis.migration.finding import Migrated, MigrationCode
from gpushare.analysis.migration.pods import Target, migrate_pod
from gpushare.api.pool import Schedule
from tests.unit.migration.whole_card_pods import (
    MODE,
    Json,
    a_card_node,
    build_gpu_container,
    build_whole_pod,
    need,
    prefer,
    require,
    see_cards,
)

SHARING = build_gpu_container(None, resources={"limits": {"aliyun.com/gpu-mem": 3}})


def migrate(pod: Json, **target: Any) -> Migrated:
    return migrate_pod(pod, Target(see_cards(), **target))


def expect_unclear(pod: Json) -> None:
    """It stays, and is named."""
    migrated = migrate(pod)
    assert migrated.raw == pod
    assert [each.code for each in migrated.findings] == [MigrationCode.SELECTION_UNCLEAR]


def rewrite(selector: Json, **target: Any) -> Json:
    """The node selector of a pod that shares already, of which nothing is to be said."""
    migrated = migrate(build_whole_pod(SHARING, nodeSelector=selector), **target)
    assert migrated.findings == ()
    found: Json = migrated.raw["spec"]["nodeSelector"]
    return found


@pytest.mark.parametrize(
    ("old", "mode"),
    [
        ({"gpushare": "true"}, "share"),
        ({"gpushare": "false"}, "default"),
        ({"cgpu": "true"}, "cgpu"),
        ({"cgpu": "false"}, "default"),
        ({"cgpu": "true", "cgpu.disable.isolation": "false"}, "cgpu"),
        ({"cgpu.disable.isolation": "false"}, "cgpu"),
        ({"cgpu": "true", MODE: "cgpu"}, "cgpu"),
    ],
)
def test_a_node_selector_selects_what_its_nodes_become(old: Json, mode: str) -> None:
    assert rewrite(old) == {MODE: mode}
    assert list(rewrite({"disk": "ssd", **old, "zone": "b"})) == ["disk", MODE, "zone"]


@pytest.mark.parametrize(
    ("nodes", "selector", "codes"),
    [
        ([{"cgpu": "true"}], {"cgpu": "true"}, [MigrationCode.NODES_NOT_MIGRATED]),
        ([{"cgpu": "true"}, {MODE: "share"}], {"cgpu": "true"}, [MigrationCode.NODES_NOT_MIGRATED]),
        ([{"cgpu": "true"}, {MODE: "cgpu"}], {"cgpu": "true"}, []),
        ([{"gpushare": "true"}], {"cgpu": "true"}, []),
        ([{"cgpu": "true"}], {"disk": "ssd"}, []),
    ],
    ids=["Basic alone", "another mode", "one is migrated", "it matched none", "no mode"],
)
@pytest.mark.parametrize("as_affinity", [False, True])
def test_a_selection_that_only_nodes_not_migrated_match_is_told(
    nodes: list[Json], selector: Json, codes: list[MigrationCode], as_affinity: bool
) -> None:
    cards = see_cards(*(a_card_node(f"n{i}", labels=each) for i, each in enumerate(nodes)))
    terms = [need(key, "In", value) for key, value in selector.items()]
    spec = {"affinity": require(terms)} if as_affinity else {"nodeSelector": selector}
    pods = [build_whole_pod(container, **spec) for container in (SHARING, build_gpu_container(1))]
    for pod in pods:
        found = migrate_pod(pod, Target(cards, share_gib=4)).findings
        assert [each.code for each in found] == codes
        assert migrate_pod(pod, Target(cards, 4, keeps_selectors=True)).findings == ()


@pytest.mark.parametrize("selector", [{}, {"disk": "ssd"}, {MODE: "mps"}, {MODE: "default"}])
def test_other_labels_stay(selector: Json) -> None:
    assert rewrite(selector) == selector


@pytest.mark.parametrize(
    "old", [{"cgpu.disable.isolation": "true"}, {"cgpu": "true", "cgpu.disable.isolation": "true"}]
)
def test_nodes_without_isolation_become_what_is_said(old: Json) -> None:
    assert rewrite(old, unisolated=Schedule.SHARE) == {MODE: "share"}
    migrated = migrate(build_whole_pod(SHARING, nodeSelector=old))
    assert migrated.raw["spec"]["nodeSelector"] == {MODE: "cgpu"}
    assert [each.code for each in migrated.findings] == [MigrationCode.ISOLATION_BEGINS]
    preferring = build_whole_pod(SHARING, affinity=prefer(*(need(k, "In", old[k]) for k in old)))
    assert [each.code for each in migrate(preferring).findings] == [MigrationCode.ISOLATION_BEGINS]


@pytest.mark.parametrize(
    "selector",
    [{"cgpu": "yes"}, {"gpushare": "true", "cgpu": "true"}, {"gpushare": "true", MODE: "cgpu"}],
)
@pytest.mark.parametrize("container", [SHARING, build_gpu_container()])
def test_what_has_no_counterpart_stays_and_is_named(selector: Json, container: Json) -> None:
    expect_unclear(build_whole_pod(container, nodeSelector=selector))


@pytest.mark.parametrize("build", [lambda *needs: require([*needs]), prefer])
@pytest.mark.parametrize(
    ("old", "new"),
    [
        ([need("gpushare", "In", "true")], [need(MODE, "In", "share")]),
        ([need("gpushare", "In", "true", "false")], [need(MODE, "In", "share", "default")]),
        (
            [
                need("cgpu", "In", "true"),
                need("disk", "Exists"),
                need("cgpu.disable.isolation", "In", "false"),
            ],
            [need(MODE, "In", "cgpu"), need("disk", "Exists")],
        ),
        ([need("gpushare", "NotIn", "true")], [need(MODE, "NotIn", "share")]),
        ([need("cgpu", "NotIn", "true")], [need(MODE, "NotIn", "cgpu", "share")]),
    ],
)
def test_an_affinity_says_the_same_of_the_new_label(build: Any, old: Any, new: Any) -> None:
    migrated = migrate(build_whole_pod(SHARING, affinity=build(*old)))
    assert migrated.raw["spec"]["affinity"] == build(*new)
    assert migrated.findings == ()


@pytest.mark.parametrize(
    "unclear",
    [
        need("cgpu", "Exists"),
        need("cgpu", "DoesNotExist"),
        need("gpushare", "NotIn", "false"),
        need("cgpu.disable.isolation", "NotIn", "true"),
    ],
)
def test_an_affinity_that_has_no_counterpart_stays(unclear: Json) -> None:
    expect_unclear(build_whole_pod(SHARING, affinity=require([unclear])))


# A pod that asked for whole cards until now.


@pytest.mark.parametrize("old", [{"cgpu": "false"}, {"gpushare": "false"}, {MODE: "default"}])
def test_a_pod_that_is_to_share_does_not_select_whole_cards(old: Json) -> None:
    migrated = migrate(build_whole_pod(nodeSelector=old))
    assert "nodeSelector" not in migrated.raw["spec"]
    kept = migrate(build_whole_pod(nodeSelector={**old, "disk": "ssd"}), share_gib=4)
    assert kept.raw["spec"]["nodeSelector"] == {"disk": "ssd"}


def test_whole_cards_are_taken_out_of_an_affinity_that_allows_others() -> None:
    pod = build_whole_pod(affinity=require([need("gpushare", "In", "true", "false")]))
    assert migrate(pod).raw["spec"]["affinity"] == require([need(MODE, "In", "share")])


@pytest.mark.parametrize("old", [need("gpushare", "In", "false"), need(MODE, "In", "default")])
def test_an_affinity_for_whole_cards_alone_is_left_to_a_person(old: Json) -> None:
    pod = build_whole_pod(affinity=require([old]))
    migrated = migrate(pod)
    assert migrated.raw is pod
    assert [each.code for each in migrated.findings] == [MigrationCode.WHOLE_CARD_AFFINITY]


def test_selections_stay_where_the_cluster_stays_in_its_edition() -> None:
    migrated = migrate(build_whole_pod(nodeSelector={"gpushare": "true"}), keeps_selectors=True)
    assert migrated.raw["spec"]["nodeSelector"] == {"gpushare": "true"}
    assert "nvidia.com/gpu" not in str(migrated.raw)


@pytest.mark.parametrize("container", [SHARING, build_gpu_container()])
def test_a_selection_that_would_contradict_itself_stays(container: Json) -> None:
    affinity = require([need("gpushare", "In", "true")])
    expect_unclear(build_whole_pod(container, nodeSelector={"cgpu": "true"}, affinity=affinity))
