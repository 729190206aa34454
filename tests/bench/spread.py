"""``python -m tests.bench.spread RESULT...``: the ranges that several whole runs come to."""

import math
import statistics
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated

import typer

from tests.bench.figure import Figure, Unit
from tests.bench.rangespec import Range, Rangespec, Tolerance, write_rangespec
from tests.bench.result import Result, read_result

RANGESPEC = Path("bench/rangespec.yaml")
FEWEST_RUNS = 3
WIDTHS = 2
"""How many times the width of the spread a figure may be off its median."""
LEAST_SHARE = 0.1
"""A relative tolerance is never less: five runs in a row are more alike than two of two days."""
_DIGITS = 4

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def spread(
    results: Annotated[list[Path], typer.Argument(help="Results of whole runs.", exists=True)],
    out: Annotated[Path, typer.Option(help="Where the ranges are written, as YAML.")] = RANGESPEC,
) -> None:
    """Write the ranges of the figures from the spread of several runs."""
    try:
        runs = [read_result(path) for path in results]
        spec = build_rangespec(runs)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error
    write_rangespec(spec, build_header(runs), out)
    print(f"{out}: {len(spec.figures)} ranges from {len(runs)} runs")


def build_rangespec(runs: Sequence[Result]) -> Rangespec:
    """The ranges of all figures.

    Raises ValueError where the runs are too few, or not of the same figures and sizes.
    """
    if len(runs) < FEWEST_RUNS:
        raise ValueError(f"{len(runs)} runs tell no spread; give the results of {FEWEST_RUNS}")
    first = runs[0]
    if any(run.sizes != first.sizes for run in runs):
        raise ValueError(
            "the runs were made with other numbers of nodes or rounds; make them alike"
        )
    found = [{figure.name: figure for figure in run.figures} for run in runs]
    if odd := {name for each in found for name in each.keys() ^ found[0].keys()}:
        raise ValueError(f"not every run measured {', '.join(sorted(odd))}; make them alike")
    return Rangespec(
        first.sizes, {name: build_range([each[name] for each in found]) for name in found[0]}
    )


def build_range(figures: Sequence[Figure]) -> Range:
    """The range of a figure, from its value in each run."""
    last, values = figures[-1], [figure.value for figure in figures]
    least, median, most = min(values), statistics.median(values), max(values)
    return Range(
        what=last.what,
        floor=last.floor,
        unit=last.unit,
        better=last.better,
        portable=last.unit.portable,
        bound=last.bound,
        expected=_round(median),
        tolerance=choose_tolerance(last.unit, median, most - least),
        spread=(_round(least), _round(median), _round(most)),
        runs=len(figures),
    )


def choose_tolerance(unit: Unit, median: float, width: float) -> Tolerance:
    """Twice the width of the spread: of a count as it is, else as a share of the median.

    Points may be about zero, where a share of them says nothing.
    """
    margin = WIDTHS * width
    if unit is Unit.COUNT or unit is Unit.POINTS or not median:
        return {"absolute": _round(margin)}
    return {"relative": max(LEAST_SHARE, math.ceil(100 * margin / median) / 100)}


def build_header(runs: Sequence[Result]) -> Sequence[str]:
    """How the file came to be."""
    return [
        "What `make bench` should come to; `make bench-check` compares. See docs/benchmarks.md.",
        "",
        f"Written by `make bench-spread` from {len(runs)} whole runs, one after another, on a",
        f"machine with {_list(f'{run.machine.cores} cores' for run in runs)} "
        f"({_list(run.machine.architecture for run in runs)}) and nothing else to do:",
        f"gpushare {_list(run.operator for run in runs)}, "
        f"Kubernetes {_list(run.kubernetes for run in runs)}, "
        f"Python {_list(run.machine.python for run in runs)}; "
        f"{min(run.taken_at for run in runs)} to {max(run.taken_at for run in runs)}.",
        "",
        "`expected` is the median, `spread` the least, the median and the most of the runs.",
        f"`tolerance` is {WIDTHS} times the width of the spread; where it is relative, a share of",
        f"`expected` and {LEAST_SHARE:g} at least.",
    ]


def _list(facts: Iterable[str]) -> str:
    return ", ".join(dict.fromkeys(facts))


def _round(value: float) -> float:
    """To four digits that mean something."""
    return float(f"{value:.{_DIGITS}g}")


if __name__ == "__main__":
    app()
