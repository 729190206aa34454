"""The operator: killed whenever a history asks for it and started again at once, or kept away."""

import random
import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field

from devcluster.installation import OperatorProcess
from tests.kit.bench import Bench
from tests.kit.cluster.operator_processes import read_metric

BRIEF_SECONDS = 10.0
"""The operator answers for what it puts back sooner: no plugin that runs has read it."""
SETTINGS = {
    "GPUSHARE_RECHECK_SECONDS": "0.2",
    "GPUSHARE_RESOURCE_SETTLE_SECONDS": "0.5",
    # One that is slow to renew must not end by itself: it is killed often enough.
    "GPUSHARE_LEASE_DURATION_SECONDS": "60",
}
_LONGEST_LIFE_SECONDS = 1.0
"""So long it may live at most before the next crash, where one is wanted."""
_GATHER_SECONDS = 8.0
"""So long the first who wants the operator away waits for others who do."""


@dataclass
class Wish:
    """What somebody asked for: a crash, or a time without an operator, which they end."""

    asked_at: float = field(default_factory=time.monotonic)
    is_met: bool = False
    is_over: bool = False


@dataclass
class Crashes:
    """One controller, and those who want it killed, or away."""

    bench: Bench
    chance: random.Random
    settings: Mapping[str, str]
    _wishes: deque[Wish] = field(default_factory=deque)
    _absences: list[Wish] = field(default_factory=list)
    _process: OperatorProcess | None = None
    _due: float | None = None
    """When the next one is killed; None while it is not ready."""
    _is_away: bool = False

    def start(self) -> None:
        self._process = self.bench.operators.start("controller", env=self.settings)
        self._let_live()

    def ask(self) -> Wish:
        """Have it killed soon; each wish is a crash of its own."""
        wish = Wish()
        self._wishes.append(wish)
        return wish

    def ask_absence(self) -> Wish:
        """Have it away soon, until the last who asked says that it is over."""
        absence = Wish()
        self._absences.append(absence)
        return absence

    @property
    def is_ready(self) -> bool:
        """Whether an operator looks on."""
        return self._due is not None

    def advance(self) -> None:
        """Kill it where that is due, and notice when its successor is ready."""
        process = self._process
        assert process is not None
        self._absences = [absence for absence in self._absences if not absence.is_over]
        if any(absence.is_met for absence in self._absences):
            return
        if not process.alive and self._is_away:
            self._process, self._is_away = self.bench.operators.restart(process), False
            return
        assert process.alive, f"the operator ended by itself:\n{self.bench.operators.tail()}"
        now = time.monotonic()
        if self._due is None:
            if _looks_on(process):
                self._let_live()
        elif self._absences and now >= self._absences[0].asked_at + _GATHER_SECONDS:
            process.kill()
            self._due, self._is_away = None, True
            for absence in self._absences:
                absence.is_met = True
        elif self._wishes and now >= self._due:
            process.kill()
            self._process, self._due = self.bench.operators.restart(process), None
            self._wishes.popleft().is_met = True

    def _let_live(self) -> None:
        self._due = time.monotonic() + self.chance.uniform(0, _LONGEST_LIFE_SECONDS)


def _looks_on(process: OperatorProcess) -> bool:
    """Whether it has decided once: what was written before that, it can't date."""
    try:
        return read_metric(process, "gpushare_reconcile_total", result="ok") > 0
    except OSError:
        return False
