"""What a person sees while the control plane is being built."""

import io
import re
from functools import reduce

import pytest

from devcluster.progress import BuildProgress, ProgressLine


@pytest.mark.parametrize(
    ("line", "modules", "packages"),
    [
        ("go: downloading k8s.io/api v0.37.0", 1, 0),
        ("k8s.io/api/core/v1", 0, 1),
        ("fmt", 0, 1),
        ("# k8s.io/api/core/v1", 0, 0),
        ("types.go:12:3: undefined: Pod", 0, 0),
        ("go: module lookup disabled", 0, 0),
        ("", 0, 0),
    ],
)
def test_a_line_of_go_counts_as(line: str, modules: int, packages: int) -> None:
    counted = BuildProgress().after(line)
    assert (counted.modules, counted.packages) == (modules, packages)


@pytest.mark.parametrize(
    ("progress", "sentence"),
    [
        (BuildProgress(modules=57), "fetching sources: 57 modules downloaded [1m05s]"),
        (
            BuildProgress(packages=500, work=100, total=BuildProgress(packages=2000, work=800)),
            "compiling: 500 of 2000 packages (12%), about 5 min left [1m05s]",
        ),
        (
            BuildProgress(packages=8, work=2, total=BuildProgress(packages=8, work=2)),
            "linking: all 8 packages are compiled, less than a minute left [1m05s]",
        ),
        (
            BuildProgress(total=BuildProgress()),
            "linking: all 0 packages are compiled, less than a minute left [1m05s]",
        ),
    ],
    ids=["fetching", "compiling", "linking", "all cached"],
)
def test_progress_reads(progress: BuildProgress, sentence: str) -> None:
    assert progress.sentence(65.4, 40.0) == sentence


def count_minutes(packages: list[str], done: int, seconds: float) -> int:
    """What is said to be left of these packages, with the first of them compiled by then."""
    total = reduce(BuildProgress.after, packages, BuildProgress())
    progress = reduce(BuildProgress.after, packages[:done], BuildProgress(total=total))
    found = re.search(r"about (\d+) min left", progress.sentence(seconds, seconds))
    return int(found[1]) if found else 0


STANDARD = [f"internal/p{number}" for number in range(2000)]
KUBERNETES = [f"k8s.io/kubernetes/p{number}" for number in range(2000)]


def test_the_time_that_is_left_follows_the_machine() -> None:
    begun = count_minutes(KUBERNETES, 0, 0.0)
    slow, slower = (count_minutes(KUBERNETES, 1000, seconds) for seconds in (600.0, 1200.0))
    assert begun < slow < slower
    assert 9 <= slow <= 12
    assert 18 <= slower <= 22


def test_the_large_packages_that_come_last_are_not_taken_for_small_ones() -> None:
    assert count_minutes([*STANDARD, *KUBERNETES], 2000, 120.0) > 2


def test_the_fetching_of_sources_does_not_count_as_slowness() -> None:
    times = iter([0.0, 600.0, 615.0])
    log = io.StringIO()
    line = ProgressLine(log, clock=lambda: next(times))
    line.show(BuildProgress())
    line.show(BuildProgress(packages=99, work=99, total=BuildProgress(packages=100, work=100)))
    assert "less than a minute left" in log.getvalue()


def test_a_log_gets_a_line_each_fifteen_seconds() -> None:
    times = iter([0.0, *map(float, range(1, 46))])
    log = io.StringIO()
    line = ProgressLine(log, clock=lambda: next(times))
    for _ in range(45):
        line.show(BuildProgress(packages=1, work=1, total=BuildProgress(packages=2, work=2)))
    line.end()
    assert [text[-7:] for text in log.getvalue().splitlines()] == ["[0m15s]", "[0m30s]", "[0m45s]"]


def test_a_terminal_gets_one_line_that_is_written_over() -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    times = iter([0.0, 1.0, 2.0])
    terminal = Terminal()
    line = ProgressLine(terminal, clock=lambda: next(times))
    line.show(BuildProgress())
    line.show(BuildProgress())
    assert "\n" not in terminal.getvalue()
    assert terminal.getvalue().count("\r") == 2
