"""What holds of all phases and rules."""

from typing import get_type_hints

import pytest

from gpushare.core.nodechange.machine import MACHINE, Phase
from gpushare.core.records.change_record import ChangePhase
from gpushare.core.snapshot.actions import StepResult


@pytest.mark.parametrize("phase", MACHINE, ids=lambda phase: phase.name)
def test_the_last_rule_of_a_phase_always_applies(phase: Phase[object]) -> None:
    assert get_type_hints(phase.rules[-1].decide)["return"] is StepResult


def test_each_phase_that_a_record_says_has_rules_of_its_own() -> None:
    # An aborted change is no change: the node is Stable until it is tried again.
    assert {*ChangePhase} - {ChangePhase.DEFERRED} <= {phase.name for phase in MACHINE}


def test_each_rule_has_a_name_of_its_own_in_its_phase_and_says_when_it_applies() -> None:
    for phase in MACHINE:
        assert len({rule.name for rule in phase.rules}) == len(phase.rules)
        assert all(rule.summary.endswith(".") for rule in phase.rules)
