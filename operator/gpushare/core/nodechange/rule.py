"""Phases and ordered rules: the first that applies wins, and the last of a phase always does."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from gpushare.core.snapshot.actions import StepResult

S = TypeVar("S")


@dataclass(frozen=True, slots=True)
class Rule(Generic[S]):
    """One rule; the first line of `decide`'s docstring says when it applies, and what follows."""

    name: str
    decide: Callable[[S], StepResult | None]
    """None where the rule does not apply."""
    has_deadline: bool = True
    """Whether what it waits for can take too long."""

    @property
    def summary(self) -> str:
        return (self.decide.__doc__ or "").strip().splitlines()[0]


@dataclass(frozen=True, slots=True)
class Phase(Generic[S]):
    """Where a node can be, and its rules in their order."""

    name: str
    summary: str
    rules: tuple[Rule[S], ...]

    def decide(self, step: S) -> tuple[Rule[S], StepResult]:
        """The rule that applies, and what it says."""
        for rule in self.rules:
            if (result := rule.decide(step)) is not None:
                return rule, result
        raise AssertionError(f"no rule of phase {self.name} applies; its last must always do")
