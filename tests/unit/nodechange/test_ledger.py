"""What the vendor warns of: pods that its scheduler forgets once their node's label changes."""

import pytest

from gpushare.api.pool import Edition, Schedule
from gpushare.core.nodechange.blockers import find_blocking_pods
from gpushare.editions.edition import Outcome
from gpushare.editions.registry import MODES, TRANSITIONS
from tests.kit.values.objects import a_gpu_pod

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
    for (edition, of, to), change in TRANSITIONS.items():
        if change.keeps_workloads:
            assert MODES[edition, of].resource == MODES[edition, to].resource


@pytest.mark.parametrize("other", sorted({*Schedule} - {CORE_MEM, Schedule.DEFAULT}))
def test_a_node_that_shares_comes_to_core_mem_only_by_hand(other: Schedule) -> None:
    change = TRANSITIONS[Edition.PROFESSIONAL, other, CORE_MEM]
    assert change.outcome is Outcome.REQUIRES_MANUAL_ACTION


def test_between_the_two_modes_that_isolate_a_node_is_removed_and_added_again() -> None:
    for pair in ((Schedule.CGPU, CORE_MEM), (CORE_MEM, Schedule.CGPU)):
        steps = TRANSITIONS[Edition.PROFESSIONAL, *pair].steps
        assert [step.split()[0] for step in steps] == ["drain", "remove", "add"]
