"""Reads from a Prometheus what pods use, and describes it for the page."""

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from gpushare.analysis.usage.advice import AdviceCode
from gpushare.analysis.usage.card_pods import CardPod
from gpushare.analysis.usage.current_use import PodUse, list_use
from gpushare.analysis.usage.exporters import EXPORTERS, Exporter
from gpushare.analysis.usage.queries import build_selector, build_used
from gpushare.analysis.usage.reading import PodKey, Reading, build_readings
from gpushare.cli.cluster.access import Access
from gpushare.cli.exit_codes import CommandError, Exit
from gpushare.cli.output.tables import tell_time
from gpushare.cli.ui.problem import describe_problem
from gpushare.cli.usage.prometheus import (
    Prometheus,
    Series,
    TooMuchError,
    TooSlowError,
    open_prometheus,
)
from gpushare.cli.usage.prometheus_options import PrometheusOptions
from gpushare.cli.usage.source import build_no_series

Json = dict[str, Any]

PERIOD_SECONDS = 30.0
"""Least seconds from the start of one reading to the start of the next."""
PATIENCE_SECONDS = 20.0
"""A reading that is not there by then is given up."""
_GIB = 2**30
_MIB_DIGITS = 3
"""Digits of a GiB behind the point by which one MiB is seen."""


@dataclass(frozen=True, slots=True)
class UseReading:
    """What Prometheus answered about one moment."""

    moment: datetime
    answers: tuple[tuple[Exporter, tuple[Series, ...]], ...]
    """Of each exporter its series by pod, in the exporter's unit."""
    warnings: tuple[str, ...] = ()
    """What Prometheus warned of, such as that its answers are incomplete."""


class PrometheusUse:
    """Reads what pods use at `moment`; None: now."""

    def __init__(
        self, access: Access, options: PrometheusOptions, moment: datetime | None = None
    ) -> None:
        self._access, self._options, self._moment = access, options, moment
        self._name = f"Prometheus ({options.service or options.url})"
        self._prometheus: Prometheus | None = None
        self._connection = contextlib.AsyncExitStack()

    async def read(self) -> UseReading:
        """Ask once for all exporters. Raises `CommandError`, and what else `find_failure` knows."""
        is_kept = False
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                found = await self._read()
            # Who connects to the API server again may start the kubeconfig's credential plugin.
            # For an address the file with its token is read again: by now it may hold another.
            is_kept = bool(self._options.service)
        except TimeoutError as error:
            raise CommandError(Exit.NO_CLUSTER, f"{self._name} does not answer in time") from error
        except TooMuchError as error:
            raise CommandError(Exit.FAILURE, str(error)) from error
        except TooSlowError as error:
            raise CommandError(Exit.NO_CLUSTER, str(error)) from error
        finally:
            if not is_kept:
                await self.aclose()
        return found

    async def aclose(self) -> None:
        """End the connection; the next reading opens another."""
        self._prometheus = None
        await self._connection.aclose()

    async def _read(self) -> UseReading:
        if self._prometheus is None:
            self._prometheus = await self._connection.enter_async_context(
                open_prometheus(self._access, self._options)
            )
        prometheus, moment = self._prometheus, self._moment or datetime.now(UTC)
        prometheus.warnings.clear()
        asked = (self._ask(prometheus, each, moment) for each in EXPORTERS)
        found = await asyncio.gather(*asked)
        if not any(found):
            when = "now" if self._moment is None else f"at {tell_time(moment)}"
            raise build_no_series(self._name, self._options.labels, when)
        answers = tuple(zip(EXPORTERS, found, strict=True))
        return UseReading(moment, answers, tuple(sorted(prometheus.warnings)))

    async def _ask(
        self, prometheus: Prometheus, exporter: Exporter, moment: datetime
    ) -> tuple[Series, ...]:
        expression = build_used(exporter, build_selector(exporter, self._options.labels))
        at = moment.timestamp()
        if self._moment is None:
            # At the time of its own clock.
            found = await prometheus.query(expression)
            series: list[Series] = [(labels, ((at, value),)) for labels, value in found]
        else:
            series = await prometheus.query_range(expression, at, at, 1)
        return tuple(series)


class UseFeed:
    """The last reading of what pods use, or why there is none.

    What was read of a moment that `is_past` is read once.
    """

    def __init__(self, read: Callable[[], Awaitable[UseReading]], *, is_past: bool = False) -> None:
        self._read, self._is_past = read, is_past
        self.reading: UseReading | None = None
        """None before the first one, and after one that failed: its values may be long past."""
        self.problem: Json | None = None
        self._due = time.monotonic()

    def is_due(self) -> bool:
        """Tell whether to read again."""
        return time.monotonic() >= self._due and not (self._is_past and self.reading)

    async def renew(self) -> None:
        """Read. A failure is kept, not raised."""
        self._due = time.monotonic() + PERIOD_SECONDS
        try:
            self.reading, self.problem = await self._read(), None
        except Exception as error:
            self.reading, self.problem = None, describe_problem(error, self.problem)


def describe_use(pods: Sequence[CardPod], reading: UseReading | None, problem: Json | None) -> Json:
    """Describe what each of `pods` uses, by namespace and name; without a `reading` that is
    unknown. A reading that makes no sense is a problem, and not raised."""
    use = [PodUse(pod, None) for pod in pods]
    if reading is not None:
        try:
            use = list_use(pods, _collect(reading))
        except Exception as error:
            reading, problem = None, describe_problem(error, problem)
    return {
        "readAt": None if reading is None else tell_time(reading.moment),
        "problem": problem,
        "warnings": [] if reading is None else list(reading.warnings),
        "pods": {
            f"{each.pod.namespace}/{each.pod.name}": _describe(each, is_read=reading is not None)
            for each in use
        },
    }


def _describe(use: PodUse, *, is_read: bool) -> Json:
    pod = use.pod
    code = AdviceCode.CARD_SHARED if use.has_series_of_card else AdviceCode.NOT_MEASURED
    is_unknown = is_read and use.used_bytes is None
    return {
        "node": pod.node,
        "cards": pod.cards,
        "askedGib": _tell_gib(pod.asked_bytes) if pod.units else None,
        "usedGib": None if use.used_bytes is None else _tell_gib(use.used_bytes),
        "beyond": use.is_beyond,
        "unknown": str(code) if is_unknown else None,
    }


def _collect(reading: UseReading) -> Mapping[PodKey, Sequence[Reading]]:
    found: dict[PodKey, list[Reading]] = {}
    for exporter, series in reading.answers:
        for key, of_pod in build_readings(exporter, series, (), 1).items():
            found.setdefault(key, []).append(of_pod)
    return found


def _tell_gib(amount: float) -> float:
    return round(amount / _GIB, _MIB_DIGITS)
