"""Foreign changes of our labels: put back, counted, and given way to when they do not end."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from gpushare import names
from gpushare.api.k8s.node import Node
from gpushare.api.pool import Schedule
from gpushare.core.cause import Cause
from gpushare.core.nodechange.label_restoration import find_enforced_labels
from gpushare.core.ownership.drift import (
    PACE,
    WRITES_PER_PACE,
    DriftJudgement,
    Enforcement,
    judge_drift,
)
from gpushare.core.records.change_record import ChangePhase, PluginPod
from gpushare.core.records.drift_record import Drift, DriftRevert, LabelConflict
from gpushare.core.records.node_records import NodeRecords, parse_records
from gpushare.core.snapshot.actions import NodeState
from gpushare.core.snapshot.node import NodeSnapshot
from gpushare.core.status.pool_status import MAX_MESSAGE_BYTES
from gpushare.names import Reason
from tests.kit.values.node_plans import (
    CGPU,
    INSTALLER,
    OURS,
    SHARE,
    a_settled,
    an_isolating,
    applied,
    expect_apply,
    expect_idle,
    plan_of,
    recheck,
    seconds_to_next,
    under_way,
    written,
)
from tests.kit.values.objects import (
    MEMORY,
    NOW,
    a_gpu_pod,
    a_node,
    a_plugin_pod,
    a_pool,
    a_snapshot,
)
from tests.unit.planner.planner_output import plan_snapshot

WANTED = {**SHARE, **OURS}
FOUND = dict.fromkeys(WANTED)
PLUGIN = a_plugin_pod()
POOL = a_pool(schedule="share")
FORCE = Enforcement("training/1", force=True)


def _records(drift: Drift | None = None) -> NodeRecords:
    return applied("share").model_copy(update={"initial_values": FOUND, "drift": drift})


def foreign(value: str | None = "default", manager: str = "sync", **more: Any) -> Node:
    """A node with `value` under the mode's key, which `manager` owns."""
    labels = {**OURS, **({names.LABEL_SCHEDULE: value} if value is not None else {})}
    managers = {names.LABEL_SCHEDULE: manager} if value is not None else {}
    values: dict[str, Any] = {"owned": frozenset({names.LABEL_POOL}), **more}
    return a_node(labels=labels, managers=managers, **values)


class Fight:
    """A node whose mode label somebody keeps changing."""

    def __init__(self, claim: Enforcement = Enforcement("training/1"), *, flips: int = 0) -> None:  # noqa: B008
        self.claim = claim
        self.now = NOW
        self.drift: Drift | None = None
        for _ in range(flips):
            self.flip()

    def judge(self, node: Node, *, claim: Enforcement | None = None) -> DriftJudgement:
        """What to do about it; a write that is due goes out."""
        records = _records(self.drift)
        verdict = judge_drift(node, records, WANTED, claim or self.claim, self.now)
        if verdict.wait is None:
            self.drift = verdict.record
        return verdict

    def flip(self, value: str | None = "default", manager: str = "sync") -> DriftJudgement:
        """Another foreign change, a little later."""
        self.now += timedelta(seconds=20)
        return self.judge(foreign(value, manager))


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("cgpu", ("sync keeps", "=cgpu", "needs share")),
        (None, ("unknown field manager", "removing label")),
    ],
    ids=["written", "removed"],
)
def test_the_third_by_the_same_manager_makes_it_a_rival(
    value: str | None, words: tuple[str, ...]
) -> None:
    fight = Fight()
    assert [fight.flip(value).reverts for _ in range(2)] == [True, True]
    third = fight.flip(value)
    assert third.given_up == {names.LABEL_SCHEDULE}
    assert [word for word in words if word not in third.message] == []


def test_the_command_that_ends_conflicts_about_all_labels_is_in_what_a_status_shows() -> None:
    keys = (names.LABEL_SCHEDULE, names.LABEL_PLACEMENT, names.LABEL_POOL)
    conflicts = tuple(
        LabelConflict(
            key=key, manager="cloud-controller", ours="core_mem", theirs="share", since=NOW
        )
        for key in keys
    )
    node = "cn-beijing.192.168.100.100"
    drift = DriftJudgement(node, given_up=frozenset(keys), conflicts=conflicts)
    told = f"10 of 11 nodes are ready. Node {node}: {drift.message}"
    told = told[:MAX_MESSAGE_BYTES]
    assert f"(on ACK: change the node pool), then run `kubectl gpushare retry node/{node}`" in told
    assert told.count("Stop that writer") == 1


def test_different_managers_are_no_rivals_of_ours() -> None:
    fight = Fight()
    verdicts = [fight.flip(manager=manager) for manager in ("a", "b", "c")]
    assert all(not verdict.given_up for verdict in verdicts)


@pytest.mark.parametrize(("seconds", "is_conflict"), [(599, True), (601, False)])
def test_the_third_change_makes_a_rival_only_within_ten_minutes_of_the_first(
    seconds: int, is_conflict: bool
) -> None:
    fight = Fight(flips=2)
    fight.now += timedelta(seconds=seconds - 20)
    assert bool(fight.judge(foreign()).given_up) is is_conflict


def test_what_was_given_up_is_written_down_once_and_stays_so_however_long_it_lasts() -> None:
    fight = Fight(flips=3)
    before = fight.drift
    fight.now += timedelta(days=1)
    verdict = fight.judge(foreign())
    assert verdict.given_up
    assert verdict.record == before


@pytest.mark.parametrize(
    ("node", "claim"),
    [
        pytest.param({}, Enforcement("training/2"), id="the spec changed"),
        pytest.param({"retry": "now"}, Enforcement("training/1"), id="a person asks for it"),
        pytest.param({}, Enforcement("training/1", force=True), id="the pool forces it"),
    ],
)
def test_a_label_left_to_a_rival_is_put_back_again_once_that_is_wanted_anew(
    node: dict[str, str], claim: Enforcement
) -> None:
    verdict = Fight(flips=3).judge(foreign(**node), claim=claim)
    assert verdict.reverts
    assert not verdict.given_up


def test_the_rival_is_forgotten_when_the_value_is_ours_again() -> None:
    fight = Fight(flips=3)
    fight.judge(foreign("share"))
    assert fight.drift is not None
    assert fight.drift.conflicts == ()


def test_force_keeps_its_pace() -> None:
    fight = Fight(FORCE)
    writes = 0
    for _ in range(600):
        fight.now += timedelta(seconds=0.1)
        writes += fight.judge(foreign()).wait is None
    assert timedelta(minutes=1) == PACE
    assert writes == WRITES_PER_PACE


def test_while_force_keeps_its_pace_it_says_the_same_at_every_look() -> None:
    fight = Fight(FORCE)
    while (first := fight.judge(foreign())).wait is None:
        pass
    fight.now += timedelta(seconds=1)
    assert fight.judge(foreign()).conflicts == first.conflicts


def test_the_first_take_over_is_no_drift() -> None:
    node = a_node(labels={names.LABEL_SCHEDULE: "default"})
    verdict = judge_drift(node, NodeRecords(), WANTED, Enforcement(), NOW)
    assert verdict == DriftJudgement(node.name, WANTED)


def _lost(value: str | None, records: NodeRecords, **more: Any) -> Node:
    """A node with these records, whose mode label somebody else has."""
    owned = frozenset({names.LABEL_POOL, *records.annotations()})
    return foreign(value, records=records, owned=owned, allocatable={MEMORY: 15}, **more)


def test_a_member_gets_its_label_back_with_the_record_in_the_same_write() -> None:
    plan = plan_of(_lost("default", _records()), POOL, PLUGIN)
    assert plan.reason is Reason.DRIFT_REVERTED
    apply = expect_apply(plan)
    assert (apply.cordon, apply.labels[names.LABEL_SCHEDULE]) == (False, "share")
    assert names.ANNOTATION_DRIFT in apply.annotations


@pytest.mark.parametrize("changes", [False, True], ids=["at rest", "during a change"])
def test_a_member_with_a_rival_is_blocked_and_left_alone(changes: bool) -> None:
    fight = Fight(flips=3)
    records, out = _records(fight.drift), {}
    if changes:
        way = {"from_mode": Schedule.DEFAULT, "to": Schedule.SHARE, "restart": True}
        change = under_way(ChangePhase.LABELLED, **way).change
        records = records.model_copy(update={"change": change})
        out = {"unschedulable": True, "owns_cordon": True}
    plan = plan_of(_lost("default", records, **out), POOL, PLUGIN, now=fight.now)
    expect_idle(plan, NodeState.BLOCKED, Reason.LABEL_CONFLICT)
    assert [conflict.manager for conflict in plan.facts.conflicts] == ["sync"]


def test_a_foreign_value_that_takes_the_whole_sequence_counts_when_it_is_replaced() -> None:
    # Not at the cordon: a node that is let go of twice would make one write a fight.
    isolation = names.LABEL_CGPU_DISABLE_ISOLATION
    labels = {names.LABEL_CGPU: "true", isolation: "false", **OURS}
    found = {"initial_values": dict.fromkeys(labels)}
    records = applied("share", edition="Basic").model_copy(update=found)
    node = a_node(labels=labels, records=records, managers={isolation: "sync"})
    lost = replace(node, owned=node.owned - {isolation})
    new = a_plugin_pod("new")

    cordon = plan_of(lost, a_pool(schedule="share", edition="Basic"), new)

    assert cordon.reason is Reason.DRIFT_REVERTED
    apply = expect_apply(cordon)
    assert apply.cordon
    assert names.ANNOTATION_DRIFT not in apply.annotations
    cordoned = replace(lost, annotations=apply.annotations, unschedulable=True)
    drift = parse_records(written(cordoned, recheck(cordoned, new))).drift
    assert drift is not None
    assert [(revert.key, revert.manager) for revert in drift.reverts] == [(isolation, "sync")]


def test_writes_of_the_future_hold_nothing_up_for_long() -> None:
    fight = Fight()
    later = NOW + timedelta(days=9)
    fight.drift = Drift(claim="training/1", writes=(later,) * WRITES_PER_PACE)
    assert fight.judge(foreign()).wait == PACE


def test_what_was_counted_under_another_spec_counts_no_more() -> None:
    assert Fight(flips=2).judge(foreign(), claim=Enforcement("training/2")).reverts


def test_a_fight_over_the_pool_label_does_not_stop_a_change() -> None:
    key, plugins = names.LABEL_POOL, (PluginPod(name="p", uid="plugin-1"),)
    conflict = LabelConflict(key=key, manager="sync", ours="training", theirs="x", since=NOW)
    records = under_way(ChangePhase.RESTARTING, restart=True, plugins=plugins)
    drift = Drift(claim="training/1", conflicts=(conflict,))
    labels = {**CGPU, key: "theirs"}
    node = _conflicting(labels, records, key, drift=drift, unschedulable=True)
    later = NOW + timedelta(seconds=20)
    plan = plan_of(node, a_pool(), a_plugin_pod("plugin-2"), INSTALLER, now=later)
    assert key not in expect_apply(plan).labels
    assert not expect_apply(plan).cordon


def _conflicting(
    labels: dict[str, str],
    records: NodeRecords,
    *lost: str,
    drift: Drift | None = None,
    **more: Any,
) -> Node:
    """A node with our records; the keys `lost` are a rival's."""
    found = dict.fromkeys(labels)
    records = records.model_copy(update={"initial_values": found, "drift": drift})
    annotations = records.annotations()
    owned = frozenset({*(labels.keys() - {*lost}), *annotations})
    managers = {key: "sync" for key in lost if key in labels}
    node: dict[str, Any] = {"allocatable": {MEMORY: 15}, **more}
    return a_node(labels=labels, records=records, owned=owned, managers=managers, **node)


def _repairs(key: str, count: int = 3) -> Drift:
    at = [NOW - timedelta(seconds=30 * index) for index in range(count)]
    reverts = tuple(DriftRevert(key=key, manager="sync", theirs="x", at=moment) for moment in at)
    return Drift(claim="training/1", reverts=reverts, writes=tuple(at))


def test_a_rival_on_a_node_that_is_not_verified_yet_is_counted_too() -> None:
    key = names.LABEL_POOL
    drift = _repairs(key, 2)
    node = _conflicting({**CGPU, key: "theirs"}, NodeRecords(), key, drift=drift, allocatable={})
    assert [conflict.key for conflict in plan_of(node, a_pool()).facts.conflicts] == [key]


def test_a_pool_that_turned_to_observing_keeps_its_nodes() -> None:
    pools = (a_pool(reconcile="Observe", priority=200), a_pool("fallback", "default", priority=1))
    node = an_isolating(allocatable={MEMORY: 15})
    plan = plan_snapshot(a_snapshot(pools=pools, nodes=(node,)))
    assert plan.decided["gpu-1"].action is None
    assert plan.members["fallback"][0].reason is Reason.OWNED_BY_OTHER_POOL


def test_a_node_that_is_refused_takes_nobodys_turn() -> None:
    snapshot = a_snapshot(pools=(a_pool(),), nodes=(a_settled("a"), a_settled("b")))
    snapshot = replace(snapshot, refusals={"a": Cause(Reason.WRITE_REFUSED, "denied")})
    decided = plan_snapshot(snapshot).decided
    assert [node for node, plan in decided.items() if plan.uses_budget] == ["b"]


@pytest.mark.parametrize("writes", [3, WRITES_PER_PACE])
def test_while_force_fights_for_the_mode_no_change_begins_and_it_keeps_its_pace(
    writes: int,
) -> None:
    key = names.LABEL_SCHEDULE
    labels = {key: "default", **OURS}
    node = _conflicting(labels, applied("share"), key, drift=_repairs(key, writes))
    plan = plan_of(node, a_pool(conflicts="Force"), PLUGIN, now=NOW + timedelta(seconds=1))
    assert plan.reason is Reason.LABEL_CONFLICT
    if writes < WRITES_PER_PACE:
        assert not expect_apply(plan).cordon
    else:
        assert plan.action is None


def test_a_label_that_a_person_prepares_for_the_pool_is_not_put_back() -> None:
    node = _conflicting({**CGPU, **OURS}, applied("share"), names.LABEL_SCHEDULE)
    seen = NodeSnapshot(node, (PLUGIN,), parse_records(node))
    held = find_enforced_labels(seen, a_pool(), "share")
    assert held[names.LABEL_SCHEDULE] == "cgpu"


def test_a_label_is_given_up_in_one_write_while_the_node_waits_for_a_change() -> None:
    key = names.LABEL_POOL
    node = _conflicting({**SHARE, key: "x"}, applied("share"), key, drift=_repairs(key, 2))
    plan = plan_of(node, a_pool(), PLUGIN, a_gpu_pod("busy"))
    apply = expect_apply(plan)
    assert (plan.reason, key in apply.labels) == (Reason.LABEL_CONFLICT, False)
    after = replace(written(node, apply), managers=node.managers)
    again = plan_of(after, a_pool(), PLUGIN, a_gpu_pod("busy"))
    expect_idle(again, NodeState.BLOCKED, Reason.WORKLOADS_PRESENT)


def test_a_label_given_up_to_a_rival_is_not_put_back_while_the_node_waits_for_a_change() -> None:
    key = names.LABEL_POOL
    given_up = LabelConflict(key=key, manager="sync", ours="training", theirs="x", since=NOW)
    drift = Drift(claim="training/1", conflicts=(given_up,))
    node = _conflicting({**SHARE, key: "x"}, applied("share"), key, drift=drift)
    plan = plan_of(node, a_pool(), PLUGIN, a_gpu_pod("busy"))
    expect_idle(plan, NodeState.BLOCKED, Reason.WORKLOADS_PRESENT)


@pytest.mark.parametrize("ours", [True, False], ids=["its record was removed", "in service"])
def test_a_cordon_of_ours_outlives_a_label_that_is_put_back_before_a_change(ours: bool) -> None:
    key = names.LABEL_SCHEDULE
    cordon: dict[str, Any] = {"unschedulable": ours, "owns_cordon": ours}
    node = _conflicting({key: "default", **OURS}, applied("share"), key, **cordon)
    plan = plan_of(node, a_pool(), PLUGIN)
    assert plan.reason is Reason.DRIFT_REVERTED
    assert (expect_apply(plan).cordon, expect_apply(plan).labels[key]) == (ours, "share")


def test_what_is_said_of_isolation_is_left_to_no_rival() -> None:
    key = names.LABEL_ISOLATION_VERIFIED
    node = _conflicting({**WANTED, key: "true"}, applied("share"), key, drift=_repairs(key))
    wanted = {**WANTED, key: "false"}
    verdict = judge_drift(node, parse_records(node), wanted, Enforcement("training/1"), NOW)
    assert verdict.reverts
    assert not verdict.given_up


PLACEMENT = names.LABEL_PLACEMENT


@pytest.mark.parametrize("value", ["binpack", "spread"], ids=["theirs", "ours"])
def test_while_force_fights_for_placement_it_says_so_all_the_time(value: str) -> None:
    pool = a_pool(schedule="share", placement="spread", conflicts="Force")
    labels, lost = {**SHARE, **OURS, PLACEMENT: value}, (PLACEMENT,) if value == "binpack" else ()
    node = _conflicting(labels, applied("share"), *lost, drift=_repairs(PLACEMENT))
    plan = plan_of(node, pool, a_plugin_pod(), now=NOW + timedelta(seconds=1))
    assert (plan.state, plan.reason) == (NodeState.BLOCKED, Reason.LABEL_CONFLICT)
    assert plan.facts.conflicts
    assert seconds_to_next(plan)


@pytest.mark.parametrize("cordoned", [True, False])
def test_a_node_in_its_change_is_cordoned_again_also_while_labels_must_wait(cordoned: bool) -> None:
    key = names.LABEL_SCHEDULE
    records = under_way(ChangePhase.RESTARTING, restart=True)
    drift = _repairs(key, WRITES_PER_PACE)
    node = _conflicting({key: "default", **OURS}, records, key, drift=drift, unschedulable=cordoned)
    plan = plan_of(node, a_pool(conflicts="Force"), PLUGIN, now=NOW + timedelta(seconds=1))
    assert plan.reason is Reason.LABEL_CONFLICT
    if cordoned:
        assert plan.action is None
    else:
        assert expect_apply(plan).cordon
        assert key not in expect_apply(plan).labels


def test_a_conflict_is_looked_at_again_when_its_first_write_no_longer_counts() -> None:
    wrote = [NOW - timedelta(minutes=minutes) for minutes in (9, 5, 1)]
    reverts = [
        DriftRevert(key=names.LABEL_POOL, manager="", theirs=None, at=moment) for moment in wrote
    ]
    records = _records(Drift(claim="training/1", reverts=tuple(reverts)))
    node = a_node(labels=WANTED, records=records)
    verdict = judge_drift(node, records, WANTED, Enforcement("training/1"), NOW)
    assert {conflict.key for conflict in verdict.conflicts} == {names.LABEL_POOL}
    assert verdict.calm_after == timedelta(minutes=1)
