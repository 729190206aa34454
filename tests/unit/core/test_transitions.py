"""What a change of mode needs: every pair is decided, with a reason and a source."""

from itertools import permutations

import pytest

from gpushare.api.pool import EDITION_SCHEDULES, Edition, Schedule
from gpushare.core.modes import MODES
from gpushare.core.transitions import TRANSITIONS, Outcome, find_transition
from gpushare.names import Reason

PAIRS = sorted(
    (edition, of, to)
    for edition, schedules in EDITION_SCHEDULES.items()
    for of, to in permutations(schedules, 2)
)
APPLIED = (Outcome.APPLY, Outcome.APPLY_AND_RESTART)
ALLOWED = [pair for pair in PAIRS if TRANSITIONS[pair].outcome in APPLIED]


def test_the_table_holds_every_pair_of_modes_and_no_other() -> None:
    assert len(PAIRS) == 7 * 6 + 3 * 2 + 2
    assert sorted(TRANSITIONS) == PAIRS


@pytest.mark.parametrize(("edition", "of", "to"), PAIRS)
def test_a_pair_has_a_reason_and_a_source(edition: Edition, of: Schedule, to: Schedule) -> None:
    transition = find_transition(edition, of, to)
    assert transition is TRANSITIONS[edition, of, to]
    assert len(transition.message) > 30
    assert len(transition.source) > 10


@pytest.mark.parametrize(("edition", "of", "to"), ALLOWED)
def test_a_plugin_is_restarted_exactly_where_it_serves_both_modes(
    edition: Edition, of: Schedule, to: Schedule
) -> None:
    plugins = {MODES[edition, of].plugin, MODES[edition, to].plugin}
    stays = len(plugins) == 1 and plugins != {""}
    assert (TRANSITIONS[edition, of, to].outcome is Outcome.APPLY_AND_RESTART) is stays


def test_only_basics_isolation_flip_leaves_workloads_what_they_have() -> None:
    keeping = [pair for pair in PAIRS if TRANSITIONS[pair].keeps_workloads]
    assert keeping == [
        (Edition.BASIC, Schedule.CGPU, Schedule.SHARE),
        (Edition.BASIC, Schedule.SHARE, Schedule.CGPU),
    ]


def allowed(edition: Edition, of: str) -> set[str]:
    """Where the table leads from a mode without a person."""
    return {str(to) for has, left, to in ALLOWED if (has, left) == (edition, of)}


@pytest.mark.parametrize(
    ("of", "to"),
    [
        # The vendor's list of 2025; of share it gives default, and the guide gives cgpu.
        ("default", {"share", "cgpu", "core_mem", "mps", "topology", "disabled"}),
        ("share", {"default", "cgpu"}),
        ("cgpu", {"default", "topology"}),
        ("core_mem", {"default", "topology"}),
        ("mps", {"default"}),
        ("topology", {"default"}),
        ("disabled", set()),
    ],
)
def test_on_professional_only_documented_ways_are_taken(of: str, to: set[str]) -> None:
    assert allowed(Edition.PROFESSIONAL, of) == to


@pytest.mark.parametrize("edition", [Edition.BASIC, Edition.OPEN_SOURCE])
def test_the_other_editions_allow_every_change(edition: Edition) -> None:
    schedules = set(EDITION_SCHEDULES[edition])
    assert {of: allowed(edition, of) for of in schedules} == {
        of: schedules - {of} for of in schedules
    }


@pytest.mark.parametrize("of", ["cgpu", "core_mem"])
def test_leaving_isolation_for_share_needs_a_teardown_on_professional(of: str) -> None:
    transition = find_transition(Edition.PROFESSIONAL, of, Schedule.SHARE)
    assert transition.outcome is Outcome.REQUIRES_TEARDOWN
    assert transition.refusal is Reason.REQUIRES_TEARDOWN


@pytest.mark.parametrize("edition", list(Edition))
@pytest.mark.parametrize("value", ["egpu", "mig", "", "Share"])
def test_an_unknown_value_needs_a_person_whatever_is_wanted(edition: Edition, value: str) -> None:
    for to in EDITION_SCHEDULES[edition]:
        transition = find_transition(edition, value, to)
        assert transition.refusal is Reason.REQUIRES_PERSON
        assert repr(value) in transition.message


@pytest.mark.parametrize("of", ["cgpu", "core_mem", "mps", "topology", "disabled"])
def test_a_mode_of_another_edition_is_an_unknown_value(of: str) -> None:
    transition = find_transition(Edition.OPEN_SOURCE, of, Schedule.SHARE)
    assert transition.refusal is Reason.REQUIRES_PERSON
