"""Which rules of a node's change were reached in histories, and where they led."""

from collections import Counter
from collections.abc import Callable
from typing import Any, TypeVar

import pytest

from gpushare.core.nodechange import reconcile_node, releasing
from gpushare.core.nodechange.member_step import MemberStep
from gpushare.core.nodechange.rule import Phase, Rule
from gpushare.core.nodechange.state_machine import MACHINE, Found, find_labelled_rule, find_rule
from gpushare.core.nodechange.step import Step

RuleOf = tuple[Phase[Any], Rule[Any]]
"""A rule, and the phase whose it is."""
S = TypeVar("S", bound=Step)
Finder = Callable[[S], Found]


class RuleLog:
    """Of all histories of one run."""

    def __init__(self) -> None:
        self.reached: Counter[str] = Counter()
        """By phase and name."""
        self._latest: dict[tuple[str, str], RuleOf] = {}
        """By pool and node, what applied when it was decided last; a pool may only look on."""

    def watch(self, patches: pytest.MonkeyPatch) -> None:
        """Note each rule that applies from now on."""
        patches.setattr(reconcile_node, "find_rule", self._note(find_rule))
        patches.setattr(releasing, "find_labelled_rule", self._note(find_labelled_rule))

    def begin_pass(self) -> None:
        """What was decided before is not asked for any more."""
        self._latest.clear()

    def find_latest(self, pool: str, node: str) -> RuleOf | None:
        """By which rule something was decided for a node; None where it just leaves its pool."""
        return self._latest.get((pool, node)) or self._latest.get(("", node))

    def list_unreached(self) -> list[str]:
        """In the order of the machine."""
        every = (_name((phase, rule)) for phase in MACHINE for rule in phase.rules)
        return [name for name in every if name not in self.reached]

    def _note(self, find: Finder[S]) -> Finder[S]:
        def note(step: S) -> Found:
            found = find(step)
            pool = step.pool.name if isinstance(step, MemberStep) else ""
            self._latest[pool, step.seen.node.name] = found.phase, found.rule
            self.reached[str(found)] += 1
            return found

        return note


def expect_to_lead(of: RuleOf, before: str, after: str) -> None:
    """What was done by a rule leaves its node in the phase where it was, or where that leads."""
    assert after in {before, *of[1].leads_to}, f"{_name(of)} leads from {before} to {after}"


def _name(of: RuleOf) -> str:
    phase, rule = of
    return f"{phase.name}: {rule.name}"
