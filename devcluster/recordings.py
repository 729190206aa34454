"""Builds recordings of exporters in OpenMetrics' format, as promtool reads them."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

STEP_SECONDS = 30
Course: TypeAlias = Callable[[float], float | None]
"""The value at a moment, by the part of the recording that is over (0 to 1); None for no sample."""


@dataclass(frozen=True)
class RecordedSeries:
    """A series and its course."""

    name: str
    labels: Mapping[str, str]
    course: Course


def steady(value: float) -> Course:
    return lambda part: value


def build_recording(
    series: Iterable[RecordedSeries], *, end: float, seconds: int, step: int = STEP_SECONDS
) -> str:
    """Build the text of a recording of so many seconds that ends at `end`."""
    lines = []
    by_name: dict[str, list[RecordedSeries]] = {}
    for each in series:
        by_name.setdefault(each.name, []).append(each)
    for name, alike in by_name.items():
        lines.append(f"# TYPE {name} gauge")
        for each in alike:
            labels = ",".join(f'{key}="{value}"' for key, value in each.labels.items())
            for passed in range(step, seconds + 1, step):
                value = each.course(passed / seconds)
                if value is not None:
                    moment = end - seconds + passed
                    lines.append(f"{name}{{{labels}}} {value} {moment:.0f}")
    return "\n".join([*lines, "# EOF", ""])
