"""Values with Grafana's units, and the steps of an axis of them."""

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Scale:
    """A unit that a value is told in, and how much of the base unit it is."""

    size: float
    sign: str


_BYTES = tuple(
    Scale(1024**power, f" {sign}") for power, sign in enumerate(("B", "KiB", "MiB", "GiB", "TiB"))
)
_SECONDS = (
    Scale(1e-6, " µs"),
    Scale(1e-3, " ms"),
    Scale(1, " s"),
    Scale(60, " min"),
    Scale(3600, " hours"),
    Scale(86400, " days"),
    Scale(7 * 86400, " weeks"),
)
_SCALES: dict[str, tuple[Scale, ...]] = {
    "none": (Scale(1, ""),),
    "bytes": _BYTES,
    "percentunit": (Scale(0.01, "%"),),
    "percent": (Scale(1, "%"),),
    "s": _SECONDS,
    "ops": (Scale(1, " ops/s"),),
    "reqps": (Scale(1, " req/s"),),
}
_DIGITS = 3
_NICE = (1, 2, 5, 10)
_COUNTS = "none"


def format_value(value: float, unit: str) -> str:
    """As Grafana writes it with three digits; raises ValueError for a unit that is not known."""
    scale = _choose_scale(abs(value), unit)
    return f"{_format_digits(value / scale.size)}{scale.sign}"


def choose_ticks(highest: float, unit: str, *, at_most: int = 5) -> tuple[float, ...]:
    """Round values from 0 to the first that is not below `highest`, of which there are few.

    Things that are counted have no ticks between whole numbers.
    """
    scale = _choose_scale(highest, unit)
    wanted = highest / scale.size / (at_most - 1) if highest > 0 else 1.0
    magnitude = 10.0 ** math.floor(math.log10(wanted))
    step = next(nice * magnitude for nice in _NICE if nice * magnitude >= wanted * (1 - 1e-9))
    if unit == _COUNTS:
        step = max(step, 1.0)
    count = max(1, math.ceil(highest / scale.size / step - 1e-9))
    return tuple(round(index * step, 9) * scale.size for index in range(count + 1))


def choose_labels(ticks: tuple[float, ...], unit: str) -> tuple[str, ...]:
    """A label for each tick, all in the unit of the highest one."""
    scale = _choose_scale(ticks[-1], unit)
    return tuple(f"{_format_digits(tick / scale.size)}{scale.sign}" for tick in ticks)


def _choose_scale(value: float, unit: str) -> Scale:
    scales = _SCALES.get(unit)
    if scales is None:
        raise ValueError(
            f"unit {unit!r} is not known; known are {', '.join(_SCALES)}: add it to "
            "tests/dashboard/units.py."
        )
    fitting = [scale for scale in scales if scale.size <= value]
    return fitting[-1] if fitting else _find_smallest(scales)


def _find_smallest(scales: tuple[Scale, ...]) -> Scale:
    """The base unit, for 0 and for what is less than the least of them."""
    return next((scale for scale in scales if scale.size == 1), scales[0])


def _format_digits(number: float) -> str:
    magnitude = math.floor(math.log10(abs(number))) if number else 0
    text = f"{number:.{max(0, _DIGITS - 1 - magnitude)}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text
