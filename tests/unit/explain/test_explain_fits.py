"""On which nodes a pod fits, what is in its way on others, and the least that would let it in."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from gpushare import names
from gpushare.api.node import Node
from gpushare.api.pod import Pod
from gpushare.api.podrequest import parse_pod_request
from gpushare.api.taint import Taint, parse_taints, tolerates
from gpushare.core.actions import NodePlan, NodeState
from gpushare.core.explain.fits import NodeFit, Place, Seeker, find_smallest_change, judge_place
from gpushare.names import Reason
from tests.kit.values.manifests import build_pod, build_whole_card_pod
from tests.kit.values.objects import MEMORY, a_gpu_pod, a_node
from tests.kit.values.pool_views import a_view

CORE = names.RESOURCE_GPU_CORE
TAINT = Taint("team", value="vision")
LABELS = {"gpushare.io/pool": "training"}


def a_sharing_node(name: str = "gpu-1", *, cards: int = 2, total: int = 32, **more: Any) -> Node:
    defaults: dict[str, Any] = {"allocatable": {MEMORY: total}, "gpu_count": cards}
    return a_node(name, LABELS, **{**defaults, **more})


def holding(card: int, units: int, name: str = "holder") -> Pod:
    return a_gpu_pod(name, requests={MEMORY: units}, cards={card: units})


def fit(
    raw: Mapping[str, Any],
    node: Node | None = None,
    *pods: Pod,
    taints: tuple[Taint, ...] = (),
    schedule: str = "cgpu",
    edition: str = "Professional",
    plan: NodePlan | None = None,
    unhealthy: tuple[int, ...] = (),
) -> NodeFit:
    place = Place(
        node=node or a_sharing_node(),
        taints=taints,
        pods=pods,
        pool=a_view(schedule=schedule, edition=edition),
        plan=plan,
        is_changing=plan is not None,
        unhealthy_cards=unhealthy,
    )
    tolerations = raw["spec"].get("tolerations", ())
    return judge_place(Seeker(parse_pod_request(raw), tolerations), place)


def reasons(found: NodeFit) -> list[Reason]:
    return [obstacle.reason for obstacle in found.obstacles]


# Cards.


def test_a_pod_fits_where_a_card_has_room() -> None:
    assert fit(build_pod("p", gib=16), None, holding(0, 8)).fits


def test_free_memory_of_two_cards_does_not_add_up() -> None:
    found = fit(build_pod("p", gib=9), None, holding(0, 8), holding(1, 8, "other"))
    assert reasons(found) == [Reason.NO_FREE_BLOCK]
    assert found.obstacles[0].shortage == 1
    assert "its cards have 8, 8 GiB free" in found.obstacles[0].message
    assert found.obstacles[0].remedy == (
        "wait until pods free 1 GiB more, or ask for 8 GiB on one card"
    )


def test_no_waiting_helps_where_no_card_is_so_large() -> None:
    found = fit(build_pod("p", gib=17))
    assert reasons(found) == [Reason.LARGER_THAN_ANY_CARD]
    assert found.obstacles[0].remedy == "ask for at most 16 GiB on a card"


def spread(gib: int, cards: int) -> dict[str, Any]:
    pod = build_pod("p", gib=gib)
    pod["metadata"]["labels"] = {names.LABEL_CARD_COUNT: str(cards)}
    return pod


def test_a_pod_that_spreads_needs_as_many_cards_with_its_part_each() -> None:
    assert fit(spread(16, 2), None, holding(0, 8)).fits
    found = fit(spread(18, 2), None, holding(0, 8))
    assert reasons(found) == [Reason.NO_FREE_BLOCK]
    assert "9 GiB free on each of 2 cards" in found.obstacles[0].message


def test_a_pod_that_spreads_over_more_cards_than_there_are() -> None:
    assert reasons(fit(spread(12, 4))) == [Reason.TOO_FEW_CARDS]
    # The others know no such label.
    assert fit(spread(12, 4), edition="OpenSource", schedule="share").fits


@pytest.mark.parametrize(
    ("gib", "cards", "free", "remedy"),
    [
        (12, 4, 16, "set the pod's label aliyun.com/gpu-count to 2"),
        (
            40,
            3,
            16,
            "set the pod's label aliyun.com/gpu-count to 2, and ask for at most 16 GiB on a card",
        ),
        (
            30,
            3,
            14,
            "set the pod's label aliyun.com/gpu-count to 2, and wait until pods free 1 GiB more, "
            "or ask for 14 GiB on each of 2 cards",
        ),
    ],
)
def test_fewer_cards_are_told_with_what_each_of_them_then_lacks(
    gib: int, cards: int, free: int, remedy: str
) -> None:
    held = [holding(card, 16 - free, f"holder-{card}") for card in (0, 1)]
    (obstacle,) = fit(spread(gib, cards), None, *(held if free < 16 else [])).obstacles
    assert (obstacle.reason, obstacle.remedy) == (Reason.TOO_FEW_CARDS, remedy)


def test_what_is_too_large_is_to_ask_for_what_is_free_now() -> None:
    (obstacle,) = fit(build_pod("p", gib=17), None, holding(0, 8), holding(1, 9, "x")).obstacles
    assert obstacle.remedy == "ask for at most 8 GiB on a card"
    full = (holding(0, 16), holding(1, 16, "x"))
    (obstacle,) = fit(build_pod("p", gib=17), None, *full).obstacles
    assert obstacle.remedy == (
        "ask for at most 16 GiB on a card, and wait until pods free 16 GiB more"
    )


def test_a_pod_that_wants_a_card_of_its_own_needs_one_that_is_empty() -> None:
    pod = build_pod("p", gib=4)
    pod["metadata"]["labels"] = {names.LABEL_CARD_PLACEMENT: names.REQUIRE_WHOLE_DEVICE}
    assert fit(pod, None, holding(0, 1)).fits
    found = fit(pod, None, holding(0, 1), holding(1, 1, "other"))
    assert reasons(found) == [Reason.NO_FREE_BLOCK]
    assert found.obstacles[0].remedy == "wait until pods free 1 GiB more"


def test_an_unhealthy_card_takes_no_pod_and_the_healthy_one_has_all_of_its_memory() -> None:
    half = a_sharing_node(allocatable={MEMORY: 16}, memory_capacity=32)
    assert fit(build_pod("p", gib=16), half, unhealthy=(1,)).fits
    (obstacle,) = fit(build_pod("p", gib=9), half, holding(0, 8), unhealthy=(1,)).obstacles
    assert obstacle.reason is Reason.NO_FREE_BLOCK
    assert "GPU 1 is unhealthy by ConfigMap kube-system/unhealthy-gpu-gpu-1" in obstacle.message
    assert "repair GPU 1" in obstacle.remedy


def test_a_card_under_cgpu_with_twenty_pods_takes_no_more() -> None:
    node = a_node("gpu-1", {**LABELS, names.LABEL_SCHEDULE: "cgpu"},
                  allocatable={MEMORY: 32}, gpu_count=1)  # fmt: skip
    held = [holding(0, 1, f"holder-{number}") for number in range(20)]
    assert fit(build_pod("p", gib=1), node, *held[1:]).fits
    (obstacle,) = fit(build_pod("p", gib=1), node, *held).obstacles
    assert obstacle.reason is Reason.NO_FREE_BLOCK
    assert "GPU 0 has 20 pods" in obstacle.message
    assert obstacle.remedy == "wait until a pod on GPU 0 ends"


# What the scheduler extender counts otherwise than kube-scheduler.

SIDECAR = {"name": "s", "restartPolicy": "Always", "resources": {"limits": {MEMORY: "4"}}}
INIT = {"name": "i", "resources": {"limits": {MEMORY: "4"}}}


def test_a_sidecar_needs_no_card_and_is_counted_on_the_node() -> None:
    pod, node = build_pod("p", gib=8, initContainers=[SIDECAR]), a_sharing_node(cards=1, total=16)
    assert fit(pod, node, edition="OpenSource").fits
    found = fit(pod, node, holding(0, 6), edition="OpenSource")
    assert reasons(found) == [Reason.NOT_ENOUGH_FREE]
    assert reasons(fit(pod, node, holding(0, 6))) == [Reason.NO_FREE_BLOCK]


def test_where_only_init_containers_ask_no_node_takes_the_pod() -> None:
    pod = build_pod("p", gib=None, initContainers=[INIT])
    for edition in ("Basic", "OpenSource"):
        found = fit(pod, a_sharing_node(cards=1), edition=edition)
        assert reasons(found) == [Reason.NO_CONTAINER_ASKS]
    assert fit(pod).fits


def test_several_containers_that_ask_start_on_no_node_with_several_cards() -> None:
    pod = build_pod("p", gib=2)
    pod["spec"]["containers"].append({**INIT, "name": "b"})
    assert reasons(fit(pod, edition="Basic")) == [Reason.SEVERAL_CONTAINERS_ASK]
    assert fit(pod, a_sharing_node(cards=1), edition="Basic").fits
    assert fit(pod).fits


# Amounts of the whole node.


def test_percentages_of_compute_are_counted_per_node() -> None:
    node = a_sharing_node(allocatable={MEMORY: 32, CORE: 200})
    busy = a_gpu_pod(requests={MEMORY: 4, CORE: 180}, cards={0: 4})
    found = fit(build_pod("p", gib=4, core=30), node, busy, schedule="core_mem")
    assert reasons(found) == [Reason.NOT_ENOUGH_FREE]
    assert f"asks for 30 {CORE}, and of its 200 there are 20 free" in found.obstacles[0].message
    assert found.obstacles[0].remedy == f"wait until pods free 10 {CORE} more, or ask for 20"


def test_pods_without_a_card_of_their_own_use_the_nodes_memory_up() -> None:
    stray = a_gpu_pod(requests={MEMORY: 30})
    assert reasons(fit(build_pod("p", gib=4), None, stray)) == [Reason.NOT_ENOUGH_FREE]


def test_whole_cards_are_counted_too() -> None:
    node = a_node("gpu-1", LABELS, allocatable={names.RESOURCE_WHOLE_GPU: 2})
    used = a_gpu_pod(requests={names.RESOURCE_WHOLE_GPU: 1})
    assert fit(build_whole_card_pod("p"), node, used, schedule="default").fits
    found = fit(build_whole_card_pod("p", cards=2), node, used, schedule="default")
    assert reasons(found) == [Reason.NOT_ENOUGH_FREE]


def test_what_a_mode_does_not_serve_no_plugin_brings() -> None:
    found = fit(build_pod("p", gib=4, core=30))
    assert reasons(found) == [Reason.RESOURCE_NOT_OFFERED]
    assert "the mode cgpu of its pool has none" in found.obstacles[0].message
    assert found.obstacles[0].remedy == "ask for what mode cgpu offers (aliyun.com/gpu-mem)"


def test_a_node_whose_plugin_is_away_offers_nothing() -> None:
    found = fit(build_pod("p", gib=4), a_sharing_node(allocatable={}))
    assert reasons(found) == [Reason.RESOURCE_NOT_OFFERED]
    assert "gpushare explain node gpu-1" in found.obstacles[0].remedy


# The node itself.


def test_a_node_without_the_label_that_is_selected() -> None:
    pod = build_pod("p", selects={"gpushare.io/pool": "other", "zone": "a"})
    found = fit(pod)
    assert reasons(found) == [Reason.NODE_NOT_SELECTED]
    assert "does not carry gpushare.io/pool=other, zone=a" in found.obstacles[0].message


@pytest.mark.parametrize(
    ("key", "operator", "values", "fits"),
    [
        ("gpushare.io/pool", "NotIn", ["other"], True),
        ("gpushare.io/pool", "NotIn", ["training"], False),
        ("zone", "Exists", [], False),
        ("zone", "DoesNotExist", [], True),
    ],
)
def test_affinity_is_read_of_the_node_as_it_is(
    key: str, operator: str, values: list[str], fits: bool
) -> None:
    term = {"matchExpressions": [{"key": key, "operator": operator, "values": values}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    found = fit(build_pod("p", affinity={"nodeAffinity": required}))
    assert reasons(found) == ([] if fits else [Reason.NODE_NOT_SELECTED])


def test_a_cordon_says_whose_it_is() -> None:
    for owns, who in ((True, "the operator"), (False, "somebody")):
        node = a_sharing_node(unschedulable=True, owns_cordon=owns)
        (cordon,) = fit(build_pod("p"), node).obstacles
        assert (cordon.reason, cordon.message) == (Reason.NODE_CORDONED, f"it is cordoned by {who}")
        assert cordon.remedy == "kubectl uncordon gpu-1"


def test_a_pod_that_tolerates_cordons_gets_in() -> None:
    anything = [{"operator": "Exists"}]
    assert fit(build_pod("p", tolerations=anything), a_sharing_node(unschedulable=True)).fits


def test_a_node_that_is_down() -> None:
    assert reasons(fit(build_pod("p"), a_sharing_node(ready=False))) == [Reason.NODE_NOT_READY]


def test_a_change_under_way_is_named_in_place_of_its_cordon_and_its_zero() -> None:
    node = a_sharing_node(unschedulable=True, allocatable={})
    plan = NodePlan("gpu-1", NodeState.UPDATING, Reason.PLUGIN_RESTARTING, "ds is not Ready")
    found = fit(build_pod("p"), node, plan=plan)
    assert reasons(found) == [Reason.PLUGIN_RESTARTING]
    assert found.obstacles[0].remedy == "wait until its isolation change is over"


def test_a_change_that_failed_is_to_be_mended() -> None:
    plan = NodePlan("gpu-1", NodeState.FAILED, Reason.DEADLINE_EXCEEDED, "no driver")
    (obstacle,) = fit(build_pod("p"), plan=plan).obstacles
    assert obstacle.message == "its isolation change failed: no driver"
    assert "explain node gpu-1" in obstacle.remedy


# Taints.


def test_a_taint_keeps_off_who_does_not_tolerate_it() -> None:
    (taint,) = fit(build_pod("p"), taints=(TAINT,)).obstacles
    assert taint.reason is Reason.TAINT_NOT_TOLERATED
    assert "team=vision:NoSchedule" in taint.message
    tolerating = build_pod("p", tolerations=[{"key": "team", "value": "vision"}])
    assert fit(tolerating, taints=(TAINT,)).fits


@pytest.mark.parametrize(
    ("toleration", "holds"),
    [
        ({"key": "team", "value": "vision"}, True),
        ({"key": "team", "operator": "Equal", "value": "vision", "effect": "NoSchedule"}, True),
        ({"key": "team", "value": "speech"}, False),
        ({"key": "team"}, False),
        ({"key": "team", "operator": "Exists"}, True),
        ({"key": "other", "operator": "Exists"}, False),
        ({"operator": "Exists"}, True),
        ({"operator": "Exists", "effect": "NoExecute"}, False),
        ({"key": "team", "operator": "Exists", "effect": ""}, True),
    ],
)
def test_tolerations_match_as_kubernetes_has_it(toleration: dict[str, str], holds: bool) -> None:
    assert tolerates([toleration], TAINT) is holds


def test_a_preference_keeps_nobody_away() -> None:
    taints = [{"key": "a", "effect": "PreferNoSchedule"}, {"key": "b", "effect": "NoExecute"}]
    assert parse_taints({"spec": {"taints": taints}}) == (Taint("b", "NoExecute"),)
    assert parse_taints({"spec": None}) == ()


# The smallest change.


def test_where_it_fits_nothing_has_to_change() -> None:
    full = fit(build_pod("p", gib=16), None, holding(0, 1), holding(1, 1, "other"))
    free = fit(build_pod("p", gib=16), a_sharing_node("gpu-2"))
    assert find_smallest_change([full, free]) is None
    assert find_smallest_change([]) is None


def test_of_full_nodes_the_one_that_lacks_least_is_named() -> None:
    pod = build_pod("p", gib=16)
    fits = [
        fit(pod, a_sharing_node(name, cards=1, total=16), holding(0, units))
        for name, units in (("gpu-1", 8), ("gpu-2", 3), ("gpu-3", 5))
    ]
    change = find_smallest_change(fits)
    assert change is not None
    assert change.startswith("on gpu-2: wait until pods free 3 GiB more")


def test_what_passes_by_itself_goes_before_what_somebody_must_do() -> None:
    pod = build_pod("p", gib=16)
    full = fit(pod, a_sharing_node("gpu-2", cards=1, total=16), holding(0, 8))
    tainted = fit(pod, a_sharing_node("gpu-1"), taints=(TAINT,))
    down = fit(pod, a_sharing_node("gpu-0", ready=False))
    for fits, named in (
        ([down, tainted, full], "gpu-2"),
        ([down, tainted], "gpu-1"),
        ([down], "gpu-0"),
    ):
        change = find_smallest_change(fits)
        assert change is not None
        assert change.startswith(f"on {named}: ")


def test_all_that_is_in_the_way_of_one_node_is_named() -> None:
    change = find_smallest_change(
        [fit(build_pod("p"), replace(a_sharing_node(), unschedulable=True), taints=(TAINT,))]
    )
    assert change is not None
    assert "kubectl uncordon gpu-1, and tolerate team=vision:NoSchedule" in change


def test_a_node_whose_extender_counts_cards_that_are_not_there_is_not_said_to_fit() -> None:
    plan = NodePlan("gpu-1", NodeState.READY, Reason.EXTENDER_STALE, "restart it: card 2")
    place = Place(
        node=a_sharing_node(), taints=(), pods=(), pool=a_view(edition="OpenSource"), plan=plan
    )
    assert reasons(judge_place(Seeker(parse_pod_request(build_pod("p"))), place)) == [
        Reason.EXTENDER_STALE
    ]
