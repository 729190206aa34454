"""What a person sees while the control plane is being built."""

import io

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
            BuildProgress(packages=1586, total=3172),
            "compiling: 1586 of 3172 packages (50%) [1m05s]",
        ),
        (BuildProgress(packages=8, total=8), "linking: all 8 packages are compiled [1m05s]"),
        (BuildProgress(packages=0, total=0), "linking: all 0 packages are compiled [1m05s]"),
    ],
    ids=["fetching", "compiling", "linking", "all cached"],
)
def test_progress_reads(progress: BuildProgress, sentence: str) -> None:
    assert progress.sentence(65.4) == sentence


def test_a_log_gets_a_line_each_fifteen_seconds() -> None:
    times = iter([0.0, *map(float, range(1, 46))])
    log = io.StringIO()
    line = ProgressLine(log, clock=lambda: next(times))
    for _ in range(45):
        line.show(BuildProgress(packages=1, total=2))
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
