"""What is claimed of a container, and pods that keep the isolation of a former mode."""

from dataclasses import replace
from typing import Any

import pytest

from gpushare.api.k8s.node import Node
from gpushare.api.k8s.pod import Pod, SharingContainer
from gpushare.api.pool import Edition, Pool, Schedule
from gpushare.api.status import ConditionStatus, PoolStatus
from gpushare.core.planner.planner import Planner
from gpushare.core.records.change_record import Change, ChangePhase
from gpushare.core.records.node_records import NodeRecords, parse_records
from gpushare.core.snapshot.actions import EvictPods, NamedPod, NodeState
from gpushare.core.snapshot.admissions import find_admissions
from gpushare.core.snapshot.isolation import (
    MAX_SAMPLES,
    ContainerIsolation,
    find_pods_without_card,
    observe_containers,
    observe_isolation,
    sum_isolation,
)
from gpushare.core.snapshot.node import NodeSnapshot, Timing
from gpushare.core.status.pool_status import build_status
from gpushare.editions.registry import MODES
from gpushare.names import Condition, Reason
from tests.kit.values.node_plans import OURS, applied, expect_idle, follow, plan_of
from tests.kit.values.objects import (
    MEMORY,
    NOW,
    a_gpu_pod,
    a_node,
    a_plugin_pod,
    a_pool,
    a_snapshot,
)
from tests.kit.values.teardown_plans import a_teardown

MAIN = SharingContainer("main")
UNCLEAR = SharingContainer("main", opts_out=None)
PLUGIN = a_plugin_pod()
CGPU, SHARE = (MODES[Edition.BASIC, mode].labels for mode in (Schedule.CGPU, Schedule.SHARE))
KNOWN: dict[str, Any] = {"before": ("uid-of-train-1",), "admitted": {"uid-of-train-1": "cgpu"}}
SHARED: dict[str, Any] = {**KNOWN, "admitted": {"uid-of-train-1": "share"}}


def a_train(*containers: SharingContainer, **more: Any) -> Pod:
    """A pod that shares a card."""
    return a_gpu_pod(containers=containers or (MAIN,), **more)


def a_member(schedule: str, edition: Edition = Edition.BASIC, **record: Any) -> Node:
    """A node at rest in a mode."""
    labels = {**MODES[edition, Schedule(schedule)].labels, **OURS}
    return a_node(labels=labels, records=applied(schedule, edition=edition, **record))


def a_flip(**more: Any) -> Change:
    """From cgpu to share on the Basic edition, while its plugin restarts."""
    values = {
        "from_mode": Schedule.CGPU,
        "to": Schedule.SHARE,
        "since": NOW,
        "labelled_at": NOW,
        **more,
    }
    return Change(pool="training", edition=Edition.BASIC, phase=ChangePhase.RESTARTING, **values)


def claim_of(node: Node, *pods: Pod) -> ContainerIsolation:
    (claim,) = observe_containers(NodeSnapshot(node, (PLUGIN, *pods), parse_records(node)))
    return claim


@pytest.mark.parametrize(
    ("edition", "schedule", "isolated"),
    [
        ("Professional", "share", False),
        ("Professional", "cgpu", True),
        ("Professional", "core_mem", True),
        ("Professional", "mps", None),
        ("Basic", "share", False),
        ("Basic", "cgpu", True),
        ("OpenSource", "share", False),
    ],
)
def test_a_pod_that_came_under_a_mode_has_what_that_gives(
    edition: str, schedule: str, isolated: bool | None
) -> None:
    node = a_member(schedule, Edition(edition))
    plugin = a_plugin_pod(daemonset=MODES[Edition(edition), Schedule(schedule)].plugin)
    (claim,) = observe_containers(NodeSnapshot(node, (plugin, a_train()), parse_records(node)))
    assert (claim.isolated, claim.is_stale) == (isolated, False)


@pytest.mark.parametrize(("schedule", "stale"), [("share", True), ("cgpu", False)])
def test_a_pod_that_was_there_before_keeps_what_it_was_admitted_with(
    schedule: str, stale: bool
) -> None:
    """There and back again: it is what the label says, though it is older than the label."""
    claim = claim_of(a_member(schedule, **KNOWN), a_train())
    assert (claim.admitted, claim.isolated, claim.is_stale) == (Schedule.CGPU, True, stale)


def test_of_a_pod_that_is_still_listed_after_a_reboot_nothing_is_claimed() -> None:
    """Its kubelet could not admit it again, and fails it."""
    node = a_member("share", boot_id="boot-0", **KNOWN)
    claim = claim_of(node, a_train())
    assert (claim.isolated, claim.is_stale) == (None, False)
    assert claim_of(node, a_train(name="later")).isolated is False


def test_on_a_node_that_was_never_verified_nothing_is_claimed() -> None:
    claim = claim_of(a_node(labels={"cgpu": "true"}), a_train())
    assert (claim.mode, claim.isolated, claim.is_stale) == (None, None, False)


@pytest.mark.parametrize(("edition", "isolated"), [("Basic", False), ("Professional", None)])
def test_who_takes_isolation_off_has_none_under_any_mode_but_mps(
    edition: str, isolated: bool | None
) -> None:
    node = a_member("cgpu", Edition(edition), before=("uid-of-train-1",))
    assert claim_of(node, a_train(SharingContainer("main", opts_out=True))).isolated is isolated


def test_of_a_container_whose_environment_comes_from_elsewhere_nothing_is_claimed() -> None:
    assert claim_of(a_member("cgpu"), a_train(UNCLEAR)).isolated is None
    assert claim_of(a_member("share"), a_train(UNCLEAR)).isolated is False


@pytest.mark.parametrize("phase", ["Pending", "Succeeded", "Failed"])
def test_only_what_runs_is_claimed_about(phase: str) -> None:
    node = a_member("cgpu")
    assert not observe_containers(
        NodeSnapshot(node, (PLUGIN, a_train(phase=phase)), parse_records(node))
    )


def test_beside_a_loaded_module_only_who_came_before_it_is_known() -> None:
    """What a plugin that reads share gives then, nobody knows."""
    node = a_member("share", Edition.PROFESSIONAL, module=True)
    assert claim_of(node, a_train()).isolated is None
    claim = claim_of(a_member("share", Edition.PROFESSIONAL, module=True, **SHARED), a_train())
    assert (claim.isolated, claim.is_stale) == (False, False)


def test_where_the_plugin_may_have_read_a_foreign_label_nothing_is_claimed() -> None:
    node = a_member("share", plugins={"older": 0}, reverted="SamePlugin")
    assert claim_of(node, a_train()).isolated is None
    assert claim_of(a_member("share", mode_unknown=True), a_train()).isolated is None


def test_beside_a_plugin_of_another_mode_that_somebody_labelled_nothing_is_claimed() -> None:
    labels = MODES[Edition.PROFESSIONAL, Schedule.CORE_MEM].labels
    node = a_member("share", Edition.PROFESSIONAL)
    node = replace(node, labels={**node.labels, **labels})
    plugin = a_plugin_pod("core", daemonset="gpushare-core-device-plugin-ds")
    seen = NodeSnapshot(node, (plugin, a_train()), parse_records(node))
    assert [claim.isolated for claim in observe_containers(seen)] == [None]


def test_while_a_person_is_to_restart_the_plugin_only_who_came_before_the_label_is_known() -> None:
    """Its kubelet may have restarted since."""
    node = a_member("cgpu", restart_pending=True, **SHARED)
    claim = claim_of(node, a_train())
    assert (claim.admitted, claim.isolated, claim.is_stale) == (Schedule.SHARE, False, True)
    assert claim_of(node, a_train(name="later")).isolated is None


@pytest.mark.parametrize(
    ("boot", "admitted", "isolated"),
    [
        ("boot-1", {"uid-of-train-1": "cgpu"}, True),
        ("boot-1", {}, None),
        ("boot-0", {}, False),
        ("boot-0", {"uid-of-train-1": "cgpu"}, None),
    ],
    ids=["bound before the labels", "came meanwhile", "came after a reboot", "from before it"],
)
def test_in_a_change_what_was_bound_before_the_labels_is_known(
    boot: str, admitted: dict[str, str], isolated: bool | None
) -> None:
    modes = {uid: Schedule(mode) for uid, mode in admitted.items()}
    change = a_flip(boot_id=boot, before=tuple(admitted), admitted=modes)
    node = a_node(labels={**SHARE, **OURS}, records=NodeRecords(initial_values={}, change=change))
    assert claim_of(node, a_train()).isolated is isolated


def test_a_change_that_follows_a_failed_one_claims_nothing_after_another_boot() -> None:
    """What failed may have been a teardown."""
    change = a_flip(boot_id="boot-0").model_copy(update={"phase": ChangePhase.CORDONED})
    node = a_node(labels={**CGPU, **OURS}, records=NodeRecords(initial_values={}, change=change))
    assert claim_of(node, a_train()).isolated is None


def test_the_claims_of_a_node_are_added_up() -> None:
    old = a_train(name="old")
    node = a_member("cgpu", before=("uid-of-old",), admitted={"uid-of-old": "share"})
    two = a_train(MAIN, SharingContainer("side", opts_out=True), name="two")
    seen = NodeSnapshot(node, (PLUGIN, old, two, a_train(UNCLEAR, name="odd")), parse_records(node))
    found = observe_isolation(seen)
    assert (found.containers, found.isolated, found.stale) == (4, 1, 1)
    assert (found.opted_out, found.unknown) == (1, 1)
    assert [claim.pod.name for claim in found.samples] == ["old"]


def test_a_pool_shows_so_many_stale_ones_and_counts_all() -> None:
    pods = tuple(a_train(name=f"train-{number}") for number in range(15))
    known = {pod.uid: "share" for pod in pods}
    node = a_member("cgpu", before=tuple(known), admitted=known)
    one = observe_isolation(NodeSnapshot(node, (PLUGIN, *pods), parse_records(node)))
    both = sum_isolation([one, one])
    assert (both.stale, len(both.samples)) == (30, MAX_SAMPLES)


REPORT = a_pool(schedule="share", edition="Basic")
EVICT = a_pool(schedule="share", edition="Basic", rollout={"stale_workloads": "Evict"})
PARTS = (a_plugin_pod(), a_plugin_pod("installer", daemonset="cgpu-installer"))


def a_flipped(name: str = "gpu-1", *stale: str, **more: Any) -> Node:
    """A node that went from cgpu to share while these pods ran."""
    known = dict.fromkeys(stale or ("uid-of-train-1",), "cgpu")
    values = {"before": tuple(known), "admitted": known, **more}
    records = applied("share", edition=Edition.BASIC, **values)
    labels = {**MODES[Edition.BASIC, Schedule.SHARE].labels, **OURS}
    return a_node(name, labels, records=records, allocatable={MEMORY: 15}, gpu_count=1)


@pytest.mark.parametrize(
    ("pool", "pod"),
    [(REPORT, a_train()), (EVICT, a_train(is_evictable=False))],
    ids=["by default", "it would come back at once"],
)
def test_pods_with_the_isolation_of_a_former_mode_are_only_reported(pool: Pool, pod: Pod) -> None:
    plan = plan_of(a_flipped(), pool, *PARTS, pod, may_evict=True)
    assert (plan.state, plan.action) == (NodeState.READY, None)


def test_pods_with_the_isolation_of_a_former_mode_are_evicted_where_the_pool_says_so() -> None:
    plan = plan_of(a_flipped(), EVICT, *PARTS, a_train(), a_train(name="new"), may_evict=True)
    assert (plan.state, plan.reason) == (NodeState.UPDATING, Reason.STALE_ISOLATION)
    assert plan.action == EvictPods("gpu-1", (NamedPod("default", "train-1", "uid-of-train-1"),))


@pytest.mark.parametrize(
    ("given", "state", "reason"),
    [
        ({}, NodeState.BLOCKED, Reason.EVICTION_DISABLED),
        ({"may_evict": True, "slot_free": False}, NodeState.WAITING, Reason.WAITING_FOR_BUDGET),
    ],
    ids=["not allowed", "not its turn"],
)
def test_nobody_is_evicted_where_that_is_not_allowed_or_not_the_nodes_turn(
    given: dict[str, Any], state: NodeState, reason: Reason
) -> None:
    plan = expect_idle(plan_of(a_flipped(), EVICT, *PARTS, a_train(), **given), state, reason)
    assert given or "eviction.enabled" in plan.message


def test_until_they_are_gone_the_node_is_in_its_turn_and_they_are_not_asked_again() -> None:
    plan = plan_of(a_flipped(), EVICT, *PARTS, a_train(deleting=True), may_evict=True)
    expect_idle(plan, NodeState.UPDATING, Reason.STALE_ISOLATION)
    assert plan.uses_budget


def test_pods_of_which_nothing_is_known_stay() -> None:
    node = a_flipped(admitted=None)
    assert plan_of(node, EVICT, *PARTS, a_train(), may_evict=True).state is NodeState.READY


def _tell(node: Node) -> tuple[PoolStatus, ConditionStatus]:
    """The pool's status with this node in it, and what that says of isolation."""
    planner = Planner(Timing())
    planner.update(a_snapshot(pools=(REPORT,), nodes=(node,), pods=(*PARTS, a_train())), None, NOW)
    status = build_status(REPORT, planner.plans_by_pool["training"], NOW)
    (condition,) = (c for c in status.conditions if c.type == Condition.ISOLATION_CONSISTENT)
    return status, condition


def test_the_condition_names_the_first_and_says_what_helps() -> None:
    status, condition = _tell(a_flipped())
    assert (condition.status, condition.reason) == ("False", Reason.STALE_ISOLATION)
    for part in (
        "default/train-1",
        "train-1 is isolated",
        "node gpu-1",
        "under cgpu",
        "staleWorkloads",
    ):
        assert part in condition.message
    assert status.isolation is not None
    assert (status.isolation.containers, status.isolation.stale) == (1, 1)
    (sample,) = status.isolation.samples
    assert (sample.node, sample.pod, sample.admitted) == ("gpu-1", "default/train-1", "cgpu")


def test_containers_of_which_nobody_knows_make_the_condition_unknown() -> None:
    _, condition = _tell(a_flipped(admitted=None))
    assert (condition.status, condition.reason) == ("Unknown", Reason.ISOLATION_UNKNOWN)
    assert "kubectl gpushare explain node gpu-1" in condition.message


@pytest.mark.parametrize("is_going", [False, True])
def test_one_node_after_the_other(is_going: bool) -> None:
    nodes = tuple(a_flipped(f"gpu-{n}", f"uid-of-train-{n}") for n in (1, 2))
    first = a_train(name="train-1", node="gpu-1", deleting=is_going)
    parts = tuple(replace(part, node=node.name) for node in nodes for part in PARTS)
    pods = (*parts, first, a_train(name="train-2", node="gpu-2"))
    planner = Planner(Timing(), may_evict=True)
    planner.update(a_snapshot(pools=(EVICT,), nodes=nodes, pods=pods), None, NOW)
    plans = planner.plans_by_pool["training"].plans
    assert plans["gpu-1"].reason is Reason.STALE_ISOLATION
    assert plans["gpu-2"].reason is Reason.WAITING_FOR_BUDGET


@pytest.mark.parametrize("theirs", [CGPU, None], ids=["another value", "ours, by somebody else"])
def test_where_the_node_booted_under_a_foreign_label_nothing_is_claimed(
    theirs: dict[str, str] | None,
) -> None:
    """Also once that was put back: the pods were admitted before."""
    records = NodeRecords(initial_values={}, change=a_flip(boot_id="boot-1"))
    node = replace(a_node(labels={**SHARE, **OURS}, records=records), boot_id="boot-2")
    assert claim_of(node, a_train()).isolated is False
    drifted = replace(
        node,
        labels={**node.labels, **(theirs or {})},
        owned=node.owned - SHARE.keys(),
        managers=dict.fromkeys(SHARE, "kubectl-label"),
    )
    assert claim_of(drifted, a_train()).isolated is None
    pool = a_pool(edition="Basic", schedule="share")
    repaired = follow(drifted, plan_of(drifted, pool, PLUGIN, a_train()))
    repaired = replace(repaired, labels={**SHARE, **OURS})
    assert claim_of(repaired, a_train()).isolated is None


@pytest.mark.parametrize(
    ("phase", "isolated"), [(ChangePhase.REBOOTED, None), (ChangePhase.RESTARTING, False)]
)
def test_after_a_teardowns_reboot_nothing_is_claimed_before_the_module_was_looked_for(
    phase: ChangePhase, isolated: bool | None
) -> None:
    labels = {**MODES[Edition.PROFESSIONAL, Schedule.SHARE].labels, **OURS}
    change = a_teardown(phase, boot_id="boot-0").change
    node = a_node(labels=labels, records=NodeRecords(initial_values={}, change=change))
    assert claim_of(node, a_train()).isolated is isolated


def test_a_pod_that_holds_what_its_nodes_mode_does_not_offer_met_another_mode() -> None:
    node = a_node(labels=OURS, records=applied("default"))
    seen = NodeSnapshot(node, (a_gpu_pod(),), parse_records(node))
    assert find_admissions(seen) == {"uid-of-train-1": None}


@pytest.mark.parametrize(("cards", "isolated"), [(2, 0), (1, 1), (0, 1)])
def test_a_container_without_a_card_counts_and_is_not_isolated(cards: int, isolated: int) -> None:
    """With one card the plugin gives that to a container whose pod it does not find."""
    node = replace(a_member("cgpu", **KNOWN), gpu_count=cards)
    seen = NodeSnapshot(node, (PLUGIN, a_train(has_card=None)), parse_records(node))
    found = observe_isolation(seen)
    assert (found.containers, found.isolated, found.unknown) == (1, isolated, 1 - isolated)
    refused = observe_isolation(replace(seen, pods=(PLUGIN, a_train(has_card=False))))
    assert (refused.containers, refused.isolated, refused.unknown) == (1, 0, 1)
    pending = replace(seen, pods=(PLUGIN, a_train(has_card=None, phase="Pending")))
    assert find_pods_without_card(pending) == []
