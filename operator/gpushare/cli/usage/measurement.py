"""Reads from Prometheus what pods used, and what they were allocated."""

import asyncio
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import quote

from gpushare.analysis.usage.bill import Holder, TimeSpan
from gpushare.analysis.usage.exporters import EXPORTERS, Exporter
from gpushare.analysis.usage.queries import (
    build_allocated,
    build_offered,
    build_peaks,
    build_selector,
    build_used,
    escape_pattern,
)
from gpushare.analysis.usage.reading import PodKey, Reading, build_readings
from gpushare.cli.exit_codes import CommandError, Exit
from gpushare.cli.usage.prometheus import Prometheus, Series, TooMuchError

_MOST_POINTS = 240
"""Points of one series: a week is 42 min apart."""
_LEAST_STEP_SECONDS = 60
_MOST_PODS = 2_000
"""Pods of one query."""
_MOST_PATTERN = 4_000
"""Bytes of namespaces in one query: many servers take an address of 8 KiB at most."""
_NAMESPACE = re.compile(r"[a-z0-9-]{1,63}", re.ASCII)
_GUESSED_PODS = 50
"""Pods of a namespace that has none now."""


@dataclass(frozen=True, slots=True)
class MeasuredSpan:
    """What is asked of Prometheus."""

    prometheus: Prometheus
    span: TimeSpan
    step_seconds: int
    labels: Mapping[str, str]
    """Labels that the series must have, such as that of one of several clusters."""
    namespace: str
    """Empty: all."""

    async def read_range(self, expression: str) -> list[Series]:
        """Read points of which each stands for the step before it, the last one at the end."""
        count = round(self.span.seconds / self.step_seconds)
        start = self.span.end - (count - 1) * self.step_seconds
        return await self.prometheus.query_range(
            expression, start, self.span.end, self.step_seconds
        )


@dataclass(frozen=True, slots=True)
class Measurement:
    """What Prometheus knows of a span."""

    span: TimeSpan
    step_seconds: int
    exporters: tuple[str, ...]
    """Names of the exporters that reported pods."""
    readings: Mapping[PodKey, tuple[Reading, ...]]
    allocated: Mapping[Holder, float] | None
    """Byte-seconds of shared memory by namespace and pool; None without the operator's metrics."""
    offered: Mapping[str, float]
    """Byte-seconds that each pool offered."""
    offered_seconds: float
    """For how long the operator's metrics are there."""


async def measure(
    prometheus: Prometheus,
    window_seconds: int,
    namespace: str,
    labels: Mapping[str, str],
    pods: Mapping[str, int],
) -> Measurement:
    """Read the last `window_seconds`, of one namespace or of all; `pods` is the number of pods by
    namespace. Raises `CommandError`, and `TooMuchError` for what can't be asked in parts."""
    now = await prometheus.read_time()
    step = window_seconds // min(_MOST_POINTS, window_seconds // _LEAST_STEP_SECONDS)
    asked = MeasuredSpan(prometheus, TimeSpan(now - window_seconds, now), step, labels, namespace)
    found = await asyncio.gather(*(_read_exporter(asked, each, pods) for each in EXPORTERS))
    readings: dict[PodKey, list[Reading]] = {}
    for of_exporter in found:
        for key, reading in of_exporter.items():
            readings.setdefault(key, []).append(reading)
    allocated, offered = await asyncio.gather(
        asked.read_range(build_allocated(labels, namespace)),
        asked.read_range(build_offered(labels)),
    )
    exporters = [each.name for each, seen in zip(EXPORTERS, found, strict=True) if seen]
    return Measurement(
        asked.span,
        step,
        tuple(dict.fromkeys(exporters)),
        {key: tuple(each) for key, each in readings.items()},
        _sum_allocated(allocated, step) if offered else None,
        {of_pool.get("pool", ""): _sum(points, step) for of_pool, points in offered},
        len({moment for _, points in offered for moment, _ in points}) * float(step),
    )


async def _read_exporter(
    asked: MeasuredSpan, exporter: Exporter, pods: Mapping[str, int]
) -> dict[PodKey, Reading]:
    selector = build_selector(exporter, asked.labels, [asked.namespace] if asked.namespace else ())
    span = asked.span
    listed = await asked.prometheus.list_values(exporter.namespace, selector, span.start, span.end)
    # Anyone can write a label, such as one that is longer than any query may be.
    found = {each for each in listed if _NAMESPACE.fullmatch(each)}
    # Some servers list the values of all series, whatever the selector.
    wanted = sorted(found & {asked.namespace} if asked.namespace else found)
    parts = [_read_part(asked, exporter, part) for part in _split(wanted, pods)]
    readings: dict[PodKey, Reading] = {}
    for part in await asyncio.gather(*parts):
        readings.update(part)
    return readings


async def _read_part(
    asked: MeasuredSpan, exporter: Exporter, namespaces: Sequence[str]
) -> dict[PodKey, Reading]:
    """Read some namespaces; one half after the other where all are too much at once."""
    selector = build_selector(exporter, asked.labels, namespaces)
    peaks = build_peaks(exporter, selector, round(asked.span.seconds))
    try:
        series, highest = await asyncio.gather(
            asked.read_range(build_used(exporter, selector)), asked.prometheus.query(peaks)
        )
    except TooMuchError as error:
        if len(namespaces) == 1:
            raise CommandError(
                Exit.FAILURE,
                f"{error} for the namespace {namespaces[0]} alone. Use a shorter --window",
            ) from error
        middle = len(namespaces) // 2
        readings = await _read_part(asked, exporter, namespaces[:middle])
        return readings | await _read_part(asked, exporter, namespaces[middle:])
    return build_readings(exporter, series, highest, asked.step_seconds)


def _split(namespaces: Iterable[str], pods: Mapping[str, int]) -> Iterator[tuple[str, ...]]:
    part: list[str] = []
    count = length = 0
    for namespace in namespaces:
        more, size = pods.get(namespace, _GUESSED_PODS), len(quote(escape_pattern(namespace)))
        if part and (count + more > _MOST_PODS or length + size > _MOST_PATTERN):
            yield tuple(part)
            part, count, length = [], 0, 0
        part.append(namespace)
        count, length = count + more, length + size
    if part:
        yield tuple(part)


def _sum_allocated(series: Iterable[Series], step: int) -> dict[Holder, float]:
    sums: dict[Holder, float] = {}
    for labels, points in series:
        key = labels.get("namespace", ""), labels.get("pool", "")
        sums[key] = sums.get(key, 0.0) + _sum(points, step)
    return sums


def _sum(points: Iterable[tuple[float, float]], step: int) -> float:
    return sum(value for _, value in points) * step
