"""What a write to a node brought about: the end of a change, labels put back, a fight given up."""

from datetime import datetime, timedelta
from typing import Any

import pytest

from gpushare import names
from gpushare.core.actions import build_apply
from gpushare.core.outcome import ChangeOutcome, WriteOutcome, judge_write
from gpushare.core.records import Drift, NodeRecords, Repair, Rival, Step
from tests.kit.values.node_plans import (
    CGPU,
    OURS,
    a_failure,
    applied,
    deferred,
    failed,
    under_way,
)
from tests.kit.values.objects import LATER, NOW, a_node

LABELS = {**CGPU, **OURS}


def write(before: NodeRecords, after: NodeRecords, *, now: Any = LATER) -> WriteOutcome:
    node = a_node(labels=LABELS, records=before)
    return judge_write(node, build_apply(node, LABELS, after, cordon=False, message=""), now)


@pytest.mark.parametrize(
    ("before", "after", "outcome"),
    [
        (under_way(Step.RESTARTING), applied(), ChangeOutcome.COMPLETED),
        (failed(), applied(), ChangeOutcome.COMPLETED),
        (under_way(Step.RESTARTING, undoes=a_failure()), applied(), ChangeOutcome.ROLLED_BACK),
        (under_way(Step.RESTARTING), failed(), ChangeOutcome.FAILED),
        (under_way(Step.CORDONED), applied(), ChangeOutcome.WITHDRAWN),
        (under_way(Step.CORDONED), deferred(1), ChangeOutcome.WITHDRAWN),
    ],
)
def test_a_change_ends_with_the_write_that_says_so(
    before: NodeRecords, after: NodeRecords, outcome: ChangeOutcome
) -> None:
    assert write(before, after).change is outcome


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (applied(), under_way(Step.CORDONED)),
        (under_way(Step.CORDONED), under_way(Step.LABELLED)),
        (under_way(Step.LABELLED), under_way(Step.RESTARTING)),
        (applied(), applied()),
        (NodeRecords(), applied()),
        (deferred(1), under_way(Step.CORDONED)),
        (deferred(1), applied()),
        (failed(), failed()),
        (failed(), under_way(Step.CORDONED, undoes=a_failure())),
        (under_way(Step.CORDONED, undoes=a_failure()), failed()),
    ],
)
def test_a_write_in_the_middle_of_a_change_or_without_one_ends_none(
    before: NodeRecords, after: NodeRecords
) -> None:
    assert write(before, after).change is None


@pytest.mark.parametrize(("ended", "seconds"), [(LATER, 3600), (NOW - timedelta(hours=1), 0)])
def test_a_change_took_as_long_as_from_its_begin(ended: datetime, seconds: float) -> None:
    """None ends before that, whatever the clock says."""
    assert write(under_way(Step.RESTARTING), applied(), now=ended).change_seconds == seconds


# Labels that others write.


def a_repair(minutes: int) -> Repair:
    at = NOW + timedelta(minutes=minutes)
    return Repair(key=names.LABEL_PLACEMENT, manager="kubectl", theirs="spread", at=at)


RIVAL = Rival(key=names.LABEL_PLACEMENT, manager="kubectl", ours="binpack", since=NOW)


def drifted(*repairs: Repair, rivals: tuple[Rival, ...] = ()) -> NodeRecords:
    return applied().model_copy(update={"drift": Drift(repairs=repairs, rivals=rivals)})


def test_each_label_that_is_put_back_is_a_flip() -> None:
    once = drifted(a_repair(1))
    assert write(applied(), once).flips == 1
    assert write(once, drifted(a_repair(1), a_repair(2))).flips == 1
    assert write(once, once).flips == 0
    # One that is remembered no more is none.
    assert write(drifted(a_repair(1), a_repair(2)), drifted(a_repair(2))).flips == 0


def test_the_first_flip_of_a_manager_and_key_is_told_from_those_that_follow() -> None:
    first, second = a_repair(1), a_repair(2)
    other = a_repair(2).model_copy(update={"manager": "nfd-master"})
    assert write(applied(), drifted(first)).first_flips == (first,)
    assert write(drifted(first), drifted(first, second)).first_flips == ()
    assert write(drifted(first), drifted(first, other)).first_flips == (other,)
    # The one before was longer ago than changes that belong together.
    assert write(drifted(first), drifted(second)).first_flips == (second,)


def test_a_manager_that_is_given_way_to_is_a_conflict_once() -> None:
    fought = drifted(rivals=(RIVAL,))
    assert write(drifted(a_repair(1)), fought).conflicts == 1
    assert write(fought, fought).conflicts == 0
    assert write(fought, applied()).conflicts == 0
