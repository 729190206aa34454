"""On which nodes a pod fits, what is in its way on others, and the least that would let it in."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from gpushare import names
from gpushare.analysis.explain.node_fit import (
    NodeFit,
    Place,
    find_smallest_change,
    judge_place,
)
from gpushare.api.k8s.node import Node
from gpushare.api.k8s.pod import Pod
from gpushare.api.k8s.pod_request import parse_pod_request
from gpushare.api.k8s.taint import Taint, parse_taints, parse_tolerations, tolerates
from gpushare.api.nvidia_plugin import NvidiaConfig
from gpushare.api.pool import Edition
from gpushare.core.admission.pool_view import PoolView
from gpushare.core.snapshot.actions import NodePlan, NodeState
from gpushare.names import Reason
from tests.kit.values.manifests import build_affinity, build_pod
from tests.kit.values.node_plans import a_node_plan
from tests.kit.values.objects import MEMORY, a_gpu_pod, a_node
from tests.kit.values.pool_views import a_view

CORE = names.RESOURCE_GPU_CORE
TAINT = Taint("team", value="vision")
LABELS = {"gpushare.io/pool": "training"}


def a_sharing_node(name: str = "gpu-1", *, cards: int = 2, total: int = 32, **more: Any) -> Node:
    defaults: dict[str, Any] = {"allocatable": {MEMORY: total}, "gpu_count": cards}
    return a_node(name, LABELS, **{**defaults, **more})


def holding(*units: int) -> list[Pod]:
    """A pod on each card that holds so much of it."""
    return [
        a_gpu_pod(f"holder-{card}", requests={MEMORY: held}, cards={card: held})
        for card, held in enumerate(units)
    ]


def fit(
    raw: Mapping[str, Any],
    *pods: Pod,
    node: Node | None = None,
    schedule: str = "cgpu",
    edition: str = "Professional",
    plan: NodePlan | None = None,
    **place: Any,
) -> NodeFit:
    found = Place(
        **{"node": node or a_sharing_node(), "pods": pods, **place},
        pool=a_view(schedule=schedule, edition=edition),
        plan=plan,
    )
    tolerations = parse_tolerations(raw["spec"].get("tolerations", ()))
    return judge_place(parse_pod_request(raw), tolerations, found)


def asks(gib: int | None, **more: Any) -> dict[str, Any]:
    return build_pod("p", gib=gib, **more)


def labelled(gib: int, key: str, value: str) -> dict[str, Any]:
    pod = asks(gib)
    pod["metadata"]["labels"] = {key: value}
    return pod


def spread(gib: int, cards: int) -> dict[str, Any]:
    return labelled(gib, names.LABEL_CARD_COUNT, str(cards))


POD = asks(3)
OWN_CARD = labelled(4, names.LABEL_CARD_PLACEMENT, names.REQUIRE_WHOLE_DEVICE)
LIMITS = {"resources": {"limits": {MEMORY: "4"}}}
SIDECAR = asks(8, initContainers=[{"name": "s", "restartPolicy": "Always", **LIMITS}])
ONLY_INIT = asks(None, initContainers=[{"name": "i", **LIMITS}])
TWO_CONTAINERS = asks(2)
TWO_CONTAINERS["spec"]["containers"].append({"name": "b", **LIMITS})
TWENTY = [a_gpu_pod(f"holder-{n}", requests={MEMORY: 1}, cards={0: 1}) for n in range(20)]

CORDONED = a_sharing_node(unschedulable=True)
TAINTED_NODE = a_sharing_node(taints=(TAINT,))
HALF = a_sharing_node(allocatable={MEMORY: 16}, capacity={MEMORY: 32})
ONE_CARD = a_sharing_node(cards=1, total=16)
CGPU_LABELS = {**LABELS, names.LABEL_SCHEDULE: "cgpu"}
CGPU_NODE = a_node("gpu-1", CGPU_LABELS, allocatable={MEMORY: 32}, gpu_count=1)
CORE_NODE = a_sharing_node(allocatable={MEMORY: 32, CORE: 200})
UPDATING = a_node_plan(
    "gpu-1", NodeState.UPDATING, Reason.PLUGIN_RESTARTING, "not Ready", under_way=True
)
FAILED = a_node_plan(
    "gpu-1", NodeState.FAILED, Reason.DEADLINE_EXCEEDED, "no driver", under_way=True
)
STALE = a_node_plan("gpu-1", NodeState.READY, Reason.EXTENDER_STALE, "restart it: card 2")

FITS = {
    "a card is free": fit(asks(16), *holding(8)),
    "each card has its part": fit(spread(16, 2), *holding(8)),
    "the edition knows no spreading": fit(spread(12, 4), edition="OpenSource", schedule="share"),
    "one of two cards is empty": fit(OWN_CARD, *holding(1)),
    "the healthy card has all of its memory": fit(asks(16), node=HALF, unhealthy_cards=(1,)),
    "nineteen pods are on a card": fit(asks(1), *TWENTY[1:], node=CGPU_NODE),
    "a sidecar needs no card": fit(SIDECAR, node=ONE_CARD, edition="OpenSource"),
    "Professional counts init containers": fit(ONLY_INIT),
    "Professional starts two containers": fit(TWO_CONTAINERS),
    "two containers are on one card": fit(TWO_CONTAINERS, node=ONE_CARD, edition="Basic"),
    "it tolerates cordons": fit(asks(3, tolerations=[{"operator": "Exists"}]), node=CORDONED),
    "it tolerates the taint": fit(
        asks(3, tolerations=[{"key": "team", "value": "vision"}]), node=TAINTED_NODE
    ),
}


@pytest.mark.parametrize("found", FITS.values(), ids=FITS)
def test_a_pod_fits_where(found: NodeFit) -> None:
    assert found.rejections == ()


USES_CORE = a_gpu_pod(requests={CORE: 180})
OWN_CORDON = a_sharing_node(unschedulable=True, owns_cordon=True)
CHANGING = a_sharing_node(unschedulable=True, allocatable={})
OTHER_POOL = asks(3, selects={"gpushare.io/pool": "other", "zone": "a"})

IN_THE_WAY = {
    Reason.NO_FREE_BLOCK: [
        # Free memory of two cards does not add up.
        (fit(asks(9), *holding(8, 8)), "8, 8 GiB free -> wait until pods free 1 GiB more, or ask"),
        # A pod that spreads needs its part on each card.
        (fit(spread(18, 2), *holding(8)), "9 GiB free on each of 2 cards"),
        # No card is empty for a pod that wants one of its own.
        (fit(OWN_CARD, *holding(1, 1)), "-> wait until pods free 1 GiB more."),
        (
            fit(asks(9), *holding(8), node=HALF, unhealthy_cards=(1,)),
            "(ConfigMap kube-system/unhealthy-gpu-gpu-1) -> repair GPU 1",
        ),
        (fit(asks(1), *TWENTY, node=CGPU_NODE), "-> wait until a pod on GPU 0 ends."),
        # The Professional edition counts a sidecar on its card.
        (fit(SIDECAR, *holding(6), node=ONE_CARD), "-> wait until pods free "),
    ],
    Reason.LARGER_THAN_ANY_CARD: [
        (fit(asks(17)), "-> ask for at most 16 GiB on a card."),
        # What is too large is to ask for what is free now, or waits where nothing is.
        (fit(asks(17), *holding(8, 9)), "-> ask for at most 8 GiB on a card."),
        (fit(asks(17), *holding(16, 16)), "at most 16 GiB on a card, and wait until pods free 16"),
    ],
    Reason.TOO_FEW_CARDS: [
        (fit(spread(12, 4)), "aliyun.com/gpu-count to 2."),
        # On fewer cards its part is larger than a card, or than what is free.
        (fit(spread(40, 3)), "gpu-count to 2, and ask for at most 16 GiB on a card."),
        (fit(spread(30, 3), *holding(2, 2)), "or ask for 14 GiB on each of 2 cards."),
    ],
    Reason.NO_CONTAINER_ASKS: [(fit(ONLY_INIT, node=ONE_CARD, edition="Basic"), "one container")],
    Reason.SEVERAL_CONTAINERS_ASK: [(fit(TWO_CONTAINERS, edition="Basic"), "one container")],
    Reason.NOT_ENOUGH_FREE: [
        # Sidecars, percentages and pods without a card of their own are counted on the node.
        (fit(SIDECAR, *holding(6), node=ONE_CARD, edition="OpenSource"), "wait until pods free 2 "),
        (
            fit(asks(4, core=30), USES_CORE, node=CORE_NODE, schedule="core_mem"),
            f"20 of the node's 200 are free -> wait until pods free 10 {CORE} more, or ask for 20.",
        ),
        (fit(asks(4), a_gpu_pod(requests={MEMORY: 30})), "wait until pods free 2 "),
    ],
    Reason.RESOURCE_NOT_OFFERED: [
        (fit(asks(4, core=30)), "-> ask for what mode cgpu offers (aliyun.com/gpu-mem)."),
        (fit(asks(4), node=a_sharing_node(allocatable={})), "(gpushare explain node gpu-1)"),
    ],
    Reason.NODE_NOT_SELECTED: [
        (fit(OTHER_POOL), "gpushare.io/pool=other, zone=a"),
        (fit(asks(3, affinity=build_affinity("zone"))), "-> change the pod's node affinity"),
    ],
    Reason.NODE_CORDONED: [
        (fit(POD, node=OWN_CORDON), "by the operator -> run kubectl uncordon gpu-1."),
        (fit(POD, node=CORDONED), "by a user"),
    ],
    Reason.NODE_NOT_READY: [(fit(POD, node=a_sharing_node(ready=False)), "")],
    # A change is named in place of its cordon and its zero.
    Reason.PLUGIN_RESTARTING: [
        (fit(POD, node=CHANGING, plan=UPDATING), "-> wait for the isolation")
    ],
    Reason.DEADLINE_EXCEEDED: [(fit(POD, plan=FAILED), "no driver -> fix the failed")],
    Reason.TAINT_NOT_TOLERATED: [(fit(POD, node=TAINTED_NODE), "team=vision:NoSchedule -> ")],
}


def test_what_a_node_only_warns_of_is_told_and_keeps_no_pod_off_it() -> None:
    found = fit(POD, plan=STALE, edition="OpenSource")
    assert found.fits
    assert found.warning == "ExtenderStale: restart it: card 2"


@pytest.mark.parametrize(
    ("reason", "found", "told"),
    [(reason, *case) for reason, cases in IN_THE_WAY.items() for case in cases],
)
def test_what_is_in_the_way_is_told_with_what_would_take_it_away(
    reason: Reason, found: NodeFit, told: str
) -> None:
    (rejection,) = found.rejections
    assert rejection.reason is reason
    assert told in f"{rejection.message} -> {rejection.remedy}."


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
    assert tolerates(parse_tolerations([toleration]), TAINT) is holds


def test_a_preference_keeps_nobody_away() -> None:
    taints = [{"key": "a", "effect": "PreferNoSchedule"}, {"key": "b", "effect": "NoExecute"}]
    assert parse_taints({"spec": {"taints": taints}}) == (Taint("b", "NoExecute"),)
    assert parse_taints({"spec": None}) == ()


def lacking(name: str, units: int) -> NodeFit:
    """A node of one card that lacks so much for the pod."""
    return fit(
        build_pod("p", gib=16), *holding(units), node=a_sharing_node(name, cards=1, total=16)
    )


DOWN = fit(POD, node=a_sharing_node("gpu-0", ready=False))
TAINTED = fit(POD, node=TAINTED_NODE)
CHANGES = {
    "without nodes there is none": ([], "None"),
    "where it fits there is none": ([lacking("gpu-1", 8), fit(POD)], "None"),
    "of full nodes the one that lacks least": (
        [lacking(f"gpu-{units}", units) for units in (8, 3, 5)],
        "On node gpu-3: wait until pods free 3 GiB more",
    ),
    "what passes before what a pod can do": (
        [DOWN, TAINTED, lacking("gpu-2", 8)],
        "On node gpu-2: ",
    ),
    "what a pod can do before repairs": ([DOWN, TAINTED], "On node gpu-1: "),
    "repairs where nothing else helps": ([DOWN], "On node gpu-0: "),
    "all that is in the way of one node": (
        [fit(POD, node=replace(CORDONED, taints=(TAINT,)))],
        "On node gpu-1: run kubectl uncordon gpu-1, and tolerate team=vision:NoSchedule",
    ),
}


@pytest.mark.parametrize(("fits", "change"), CHANGES.values(), ids=CHANGES)
def test_the_smallest_change_is_the_one_with_the_least_ado(
    fits: list[NodeFit], change: str
) -> None:
    assert str(find_smallest_change(fits)).startswith(change)


def test_a_pod_is_told_to_ask_for_the_resource_that_a_configuration_offers() -> None:
    raw = build_pod("a", gib=None)
    raw["spec"]["containers"][0]["resources"] = {"limits": {"nvidia.com/gpu": "1"}}
    pool = PoolView("training", NvidiaConfig("a"), edition=Edition.NVIDIA)
    node = a_node(labels=LABELS, allocatable={"nvidia.com/gpu.shared": 8})
    (told,) = judge_place(parse_pod_request(raw), (), Place(node, (), pool)).rejections
    assert told.reason is Reason.RESOURCE_NOT_OFFERED
    assert "(nvidia.com/gpu.shared)" in told.remedy
