"""Defines rules, and phases that ask their rules in order."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from gpushare.core.snapshot.actions import Verdict

S = TypeVar("S")


@dataclass(frozen=True, slots=True)
class Rule(Generic[S]):
    """A rule of a phase; the first line of `decide`'s docstring says what it does, and when."""

    name: str
    decide: Callable[[S], Verdict | None]
    """Return the verdict about a node; None where the rule does not apply."""
    leads_to: tuple[str, ...] = ()
    """Names of the phases that the node can enter by this rule, besides its present phase, and
    Failed by a deadline; only documentation and tests read them."""
    has_deadline: bool = False
    """Whether the change fails when the rule's step takes too long (`DEADLINE`)."""
    shows_conflicts: bool = False
    """Whether the plan names the managers that keep writing the node's labels; from Labelled on it
    does where the rule reports the conflict."""

    @property
    def summary(self) -> str:
        return (self.decide.__doc__ or "").strip().splitlines()[0]


@dataclass(frozen=True, slots=True)
class Phase(Generic[S]):
    """A phase of a node's change, with its rules in the order in which they are tried."""

    name: str
    summary: str
    rules: tuple[Rule[S], ...]

    def decide(self, step: S) -> tuple[Rule[S], Verdict]:
        """Return the first rule that applies, with its verdict; the last one always applies."""
        found = find_first(self.rules, step)
        assert found is not None, "no rule applies; the last rule of a phase must always apply"
        return found


def find_first(rules: tuple[Rule[S], ...], step: S) -> tuple[Rule[S], Verdict] | None:
    """Return the first of `rules` that applies, with its verdict; None where none does."""
    for rule in rules:
        if (verdict := rule.decide(step)) is not None:
            return rule, verdict
    return None
