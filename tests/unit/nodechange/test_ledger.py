"""What the vendor warns of: pods that its scheduler forgets once their node's label changes."""

import pytest

from gpushare import names
from gpushare.api.pool import Edition, Schedule
from gpushare.core.nodechange.blockers import find_blocking_pods
from gpushare.editions.edition import Outcome
from gpushare.editions.registry import MODES, TRANSITIONS
from gpushare.names import Reason
from tests.kit.values.node_plans import OURS, applied, expect_change, plan_of
from tests.kit.values.objects import a_gpu_pod, a_node, a_plugin_pod, a_pool

CORE_MEM = Schedule.CORE_MEM
WITHDRAWING = [
    (edition, of, to, resource)
    for (edition, of, to), change in TRANSITIONS.items()
    if change.outcome is not Outcome.REQUIRES_MANUAL_ACTION and not change.keeps_workloads
    for mode in [MODES[edition, of]]
    for resource in (mode.resource, *mode.companions, *mode.also_used)
    if resource
]


@pytest.mark.parametrize(("edition", "of", "to", "resource"), WITHDRAWING)
def test_no_label_changes_under_a_pod_that_the_scheduler_counts_in_the_old_mode(
    edition: Edition, of: Schedule, to: Schedule, resource: str
) -> None:
    change = TRANSITIONS[edition, of, to]
    pod = a_gpu_pod(requests={resource: 1})
    blocker = find_blocking_pods(change, MODES[edition, of], MODES[edition, to], [pod])
    assert blocker is not None
    assert blocker.pods == (pod,)


def test_where_pods_stay_the_scheduler_counts_them_as_before() -> None:
    # The Basic edition's switch of isolation, and no other change.
    kept = [pair for pair, change in TRANSITIONS.items() if change.keeps_workloads]
    assert kept
    for edition, of, to in kept:
        assert MODES[edition, of].resource == MODES[edition, to].resource


@pytest.mark.parametrize("other", sorted({*Schedule} - {CORE_MEM, Schedule.DEFAULT}))
def test_a_node_that_shares_comes_to_core_mem_only_by_hand(other: Schedule) -> None:
    change = TRANSITIONS[Edition.PROFESSIONAL, other, CORE_MEM]
    assert change.outcome is Outcome.REQUIRES_MANUAL_ACTION


def test_between_the_two_modes_that_isolate_a_node_is_removed_and_added_again() -> None:
    for pair in ((Schedule.CGPU, CORE_MEM), (CORE_MEM, Schedule.CGPU)):
        steps = TRANSITIONS[Edition.PROFESSIONAL, *pair].steps
        assert [step.split()[0] for step in steps] == ["drain", "remove", "add"]


PROFESSIONAL = Edition.PROFESSIONAL
ALL = frozenset(
    daemonset
    for mode in MODES.values()
    if mode.edition is PROFESSIONAL
    for daemonset in (mode.plugin, *mode.components)
    if daemonset
)
BESIDE_MODULE = [
    (of, to)
    for (edition, of, to), change in TRANSITIONS.items()
    if edition is PROFESSIONAL and Schedule.CGPU not in (of, to)
    if change.outcome is Outcome.APPLY
    if TRANSITIONS[edition, Schedule.CGPU, to].outcome is Outcome.REQUIRES_MANUAL_ACTION
]
"""Changes that are made by label, to a mode to which none from cgpu is."""
assert BESIDE_MODULE


@pytest.mark.parametrize(("of", "to"), BESIDE_MODULE)
def test_a_module_that_is_still_loaded_makes_it_the_change_from_the_mode_that_loaded_it(
    of: Schedule, to: Schedule
) -> None:
    labels = {names.LABEL_SCHEDULE: str(of), **OURS}
    node = a_node(labels=labels, records=applied(of))
    loaded = a_node(labels=labels, records=applied(of, module=True))
    assert expect_change(plan_of(node, a_pool(schedule=to), daemonsets=ALL)).to == to
    plan = plan_of(loaded, a_pool(schedule=to), daemonsets=ALL)
    assert (plan.action, plan.reason) == (None, Reason.REQUIRES_MANUAL_ACTION)
    assert TRANSITIONS[PROFESSIONAL, Schedule.CGPU, to].instructions in plan.message


@pytest.mark.parametrize("to", [Schedule.CGPU, Schedule.TOPOLOGY])
def test_it_stops_no_change_that_the_vendor_lists_from_that_mode(to: Schedule) -> None:
    labels = {names.LABEL_SCHEDULE: "default", **OURS}
    node = a_node(labels=labels, records=applied(Schedule.DEFAULT, module=True))
    assert expect_change(plan_of(node, a_pool(schedule=to))).to == to


def test_it_stops_no_return_to_the_mode_that_a_label_of_another_manager_left() -> None:
    labels = {names.LABEL_SCHEDULE: "default", **OURS}
    node = a_node(labels=labels, records=applied(CORE_MEM, module=True))
    whole = a_plugin_pod("whole-1", daemonset="ack-nvidia-device-plugin")
    plan = plan_of(node, a_pool(schedule=CORE_MEM), whole)
    assert plan.reason is not Reason.REQUIRES_MANUAL_ACTION


def test_it_stops_no_return_to_the_mode_that_the_last_change_left_or_failed_to_reach() -> None:
    records = applied(Schedule.DEFAULT, module=True, from_mode=CORE_MEM)
    node = a_node(labels={names.LABEL_SCHEDULE: "default", **OURS}, records=records)
    plan = plan_of(node, a_pool(schedule=CORE_MEM), daemonsets=ALL)
    assert expect_change(plan).to == CORE_MEM
