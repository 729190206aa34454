"""Foreign changes of our labels: put back, counted, and given way to when they do not end."""

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from gpushare import names
from gpushare.api.node import Node
from gpushare.core.actions import ApplyNode, NodePlan, NodeState
from gpushare.core.drift import PACE, WINDOW, WRITES_PER_PACE, Claim, Verdict, judge_drift
from gpushare.core.leaving import plan_leaving
from gpushare.core.observed import Observed, Pass, Timing
from gpushare.core.records import Change, Drift, NodeRecords, Step, parse_records
from gpushare.core.rollout import plan_after_look
from gpushare.core.turn import OPEN
from gpushare.names import Reason
from tests.kit.members import OURS, SHARE, applied, expect_idle, plan_of
from tests.kit.values import MEMORY, NOW, PRO_INSTALLED, a_node, a_plugin_pod, a_pool

WANTED = {**SHARE, **OURS}
FOUND = dict.fromkeys(WANTED)
PLUGIN = a_plugin_pod()


def _records(drift: Drift | None = None) -> NodeRecords:
    return applied("share").model_copy(update={"found": FOUND, "drift": drift})


class Fight:
    """A node whose mode label somebody keeps changing, minute by minute."""

    def __init__(self, claim: Claim = Claim("training/1")) -> None:  # noqa: B008
        self.claim = claim
        self.now = NOW
        self.drift: Drift | None = None

    def node(self, value: str | None, manager: str = "sync", **more: object) -> Node:
        """The node with `value` under the mode's key, which `manager` owns."""
        labels = {**OURS, **({names.LABEL_SCHEDULE: value} if value is not None else {})}
        managers = {names.LABEL_SCHEDULE: manager} if value is not None else {}
        owned = frozenset({names.LABEL_POOL})
        return a_node(labels=labels, owned=owned, managers=managers, **more)  # type: ignore[arg-type]

    def judge(self, node: Node, *, claim: Claim | None = None) -> Verdict:
        """What to do about it; a write that is due goes out."""
        records = _records(self.drift)
        verdict = judge_drift(node, records, WANTED, claim or self.claim, self.now)
        if verdict.wait is None:
            self.drift = verdict.record
        return verdict

    def flip(self, value: str | None = "default", manager: str = "sync") -> Verdict:
        """Another foreign change, a little later."""
        self.now += timedelta(seconds=20)
        return self.judge(self.node(value, manager))


def test_the_next_foreign_change_keeps_what_a_newer_operator_wrote_of_the_last() -> None:
    fight = Fight()
    fight.flip()
    assert fight.drift is not None
    fight.drift = Drift.model_validate_json(fight.drift.dump().replace("{", '{"mood":1,', 1))
    fight.flip()
    assert '"mood":1' in fight.drift.dump()


def test_a_foreign_value_is_put_back_twice() -> None:
    fight = Fight()
    assert [fight.flip().puts_back for _ in range(2)] == [True, True]


def test_the_third_by_the_same_manager_makes_it_a_rival() -> None:
    fight = Fight()
    fight.flip()
    fight.flip()
    third = fight.flip("cgpu")
    assert third.given_up == {names.LABEL_SCHEDULE}
    assert third.message == (
        "sync keeps changing the label ack.node.gpu.schedule: it writes 'cgpu', "
        "the pool says 'share'"
    )


def test_different_managers_are_no_rivals_of_ours() -> None:
    fight = Fight()
    verdicts = [fight.flip(manager=manager) for manager in ("a", "b", "c")]
    assert all(not verdict.given_up for verdict in verdicts)


def test_one_that_removes_the_key_leaves_no_name_and_is_a_rival_all_the_same() -> None:
    fight = Fight()
    fight.flip(None)
    fight.flip(None)
    third = fight.flip(None)
    assert "left no name" in third.message
    assert "removes it" in third.message


def test_changes_that_are_far_apart_do_not_add_up() -> None:
    fight = Fight()
    for _ in range(5):
        fight.now += WINDOW
        assert not fight.flip().given_up


@pytest.mark.parametrize(("seconds", "is_rival"), [(599, True), (601, False)])
def test_the_third_change_makes_a_rival_only_within_ten_minutes_of_the_first(
    seconds: int, is_rival: bool
) -> None:
    fight = Fight()
    fight.flip()
    first = fight.now
    fight.flip()
    fight.now = first + timedelta(seconds=seconds)
    assert bool(fight.judge(fight.node("default")).given_up) is is_rival


def test_what_was_given_up_stays_so_however_long_it_lasts() -> None:
    fight = Fight()
    for _ in range(3):
        fight.flip()
    fight.now += timedelta(days=1)
    assert fight.judge(fight.node("default")).given_up


def test_giving_way_is_written_down_once() -> None:
    fight = Fight()
    for _ in range(3):
        fight.flip()
    before = fight.drift
    assert fight.flip().record == before


@pytest.mark.parametrize(
    ("node", "claim"),
    [
        pytest.param({}, Claim("training/2"), id="the spec changed"),
        pytest.param({"retry": "now"}, Claim("training/1"), id="a person asks for it"),
        pytest.param({}, Claim("training/1", force=True), id="the pool forces it"),
    ],
)
def test_it_is_tried_again_when(node: dict[str, str], claim: Claim) -> None:
    fight = Fight()
    for _ in range(3):
        fight.flip()
    verdict = fight.judge(fight.node("default", **node), claim=claim)
    assert verdict.puts_back
    assert not verdict.given_up


def test_the_rival_is_forgotten_when_the_value_is_ours_again() -> None:
    fight = Fight()
    for _ in range(3):
        fight.flip()
    fight.judge(fight.node("share"))
    assert fight.drift is not None
    assert fight.drift.rivals == ()


def test_force_puts_it_back_again_and_again_and_names_the_rival() -> None:
    fight = Fight(Claim("training/1", force=True))
    verdicts = [fight.flip() for _ in range(5)]
    assert all(verdict.puts_back for verdict in verdicts)
    assert not any(verdict.given_up for verdict in verdicts)
    assert verdicts[2].fought_over == {names.LABEL_SCHEDULE}


def test_force_keeps_its_pace() -> None:
    fight = Fight(Claim("training/1", force=True))
    writes = 0
    for _ in range(600):
        fight.now += timedelta(seconds=0.1)
        writes += fight.judge(fight.node("default")).wait is None
    assert timedelta(minutes=1) == PACE
    assert writes == WRITES_PER_PACE


def test_the_first_take_over_is_no_drift() -> None:
    node = a_node(labels={names.LABEL_SCHEDULE: "default"})
    assert judge_drift(node, NodeRecords(), WANTED, Claim(), NOW) == Verdict()


def test_the_record_survives_the_way_over_the_node() -> None:
    fight = Fight()
    for _ in range(3):
        fight.flip()
    records = _records(fight.drift)
    assert parse_records(a_node(records=records)) == records


# What becomes of it on a member.


def _member(value: str | None, drift: Drift | None, *, now: datetime, **pool: Any) -> NodePlan:
    node = Fight().node(value, allocatable={MEMORY: 15})
    annotations = _records(drift).annotations()
    owned = node.owned | annotations.keys()
    lost = Node(
        node.name, node.uid, labels=node.labels, annotations=annotations, owned=owned,
        managers=node.managers, boot_id="boot-1", allocatable={MEMORY: 15},
    )  # fmt: skip
    return plan_of(lost, a_pool(schedule="share", **pool), PLUGIN, now=now)


def _fought(force: bool = False) -> tuple[Drift | None, datetime]:
    fight = Fight(Claim("training/1", force=force))
    for _ in range(4 if force else 3):
        fight.flip()
    return fight.drift, fight.now


def test_a_member_gets_its_label_back_with_the_record_in_the_same_write() -> None:
    plan = _member("default", None, now=NOW)
    assert plan.reason is Reason.DRIFT_REPAIRED
    assert isinstance(plan.action, ApplyNode)
    assert plan.action.labels[names.LABEL_SCHEDULE] == "share"
    assert names.ANNOTATION_DRIFT in plan.action.annotations
    assert not plan.action.cordon


def test_a_member_with_a_rival_is_blocked_and_left_alone() -> None:
    drift, now = _fought()
    plan = _member("default", drift, now=now)
    expect_idle(plan, NodeState.BLOCKED, Reason.LABEL_CONFLICT)
    assert [rival.manager for rival in plan.rivals] == ["sync"]


def test_no_change_begins_while_force_fights() -> None:
    drift, now = _fought(force=True)
    plan = _member("share", drift, now=now, conflicts="Force", generation=1)
    assert plan.reason is Reason.LABEL_CONFLICT
    assert not plan.takes_slot


def test_no_plugin_is_restarted_while_a_rival_writes_during_a_change() -> None:
    drift, now = _fought()
    change = Change.model_validate(
        {
            "pool": "training", "edition": "Professional", "from": "default", "to": "share",
            "step": Step.LABELLED, "since": NOW, "labelledAt": NOW, "restart": True,
        }
    )  # fmt: skip
    records = _records(drift).model_copy(update={"change": change})
    annotations = records.annotations()
    base = Fight().node("default")
    node = Node(
        base.name, base.uid, labels=base.labels, annotations=annotations, managers=base.managers,
        owned=base.owned | annotations.keys(), unschedulable=True, owns_cordon=True,
    )  # fmt: skip
    plan = plan_of(node, a_pool(schedule="share"), PLUGIN, now=now)
    expect_idle(plan, NodeState.BLOCKED, Reason.LABEL_CONFLICT)


def test_a_foreign_value_that_takes_the_whole_sequence_counts_when_it_is_replaced() -> None:
    # Not at the cordon: a node that is let go of twice would make one write a fight.
    isolation = names.LABEL_CGPU_DISABLE_ISOLATION
    labels = {names.LABEL_CGPU: "true", isolation: "false", **OURS}
    records = applied("share", edition="Basic").model_copy(update={"found": dict.fromkeys(labels)})
    node = a_node(labels=labels, records=records, managers={isolation: "sync"})
    lost = replace(node, owned=node.owned - {isolation})
    new_plugin = a_plugin_pod("new")

    cordon = plan_of(lost, a_pool(schedule="share", edition="Basic"), new_plugin)

    assert cordon.reason is Reason.DRIFT_REPAIRED
    assert isinstance(cordon.action, ApplyNode)
    assert cordon.action.cordon
    assert names.ANNOTATION_DRIFT not in cordon.action.annotations
    cordoned = replace(lost, annotations=cordon.action.annotations, unschedulable=True)
    seen = Observed(cordoned, (new_plugin,), parse_records(cordoned))
    labelled = plan_after_look(seen, NOW, Timing())
    assert labelled is not None
    drift = parse_records(replace(cordoned, annotations=labelled.annotations)).drift
    assert drift is not None
    assert [(repair.key, repair.manager) for repair in drift.repairs] == [(isolation, "sync")]


def test_a_node_that_leaves_gives_its_drift_record_up_too() -> None:
    drift, now = _fought()
    node = a_node(labels=WANTED, records=_records(drift))
    plan = plan_leaving(
        Observed(node, (), parse_records(node)), None,
        Pass(now, plugin_daemonsets=PRO_INSTALLED), OPEN,
    )  # fmt: skip
    assert plan is not None
    assert plan.reason is Reason.LEAVING


def test_writes_of_the_future_hold_nothing_up_for_long() -> None:
    later = NOW + timedelta(days=9)
    fight = Fight()
    fight.drift = Drift(claim="training/1", writes=(later,) * WRITES_PER_PACE)
    assert fight.judge(fight.node("default")).wait == PACE


def test_what_was_counted_under_another_spec_counts_no_more() -> None:
    fight = Fight()
    fight.flip()
    fight.flip()
    assert fight.judge(fight.node("default"), claim=Claim("training/2")).puts_back
