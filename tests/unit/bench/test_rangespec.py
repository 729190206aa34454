"""What a whole run is written as, which ranges several of them make, and what is out of range."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.bench.admission.alone import KOPF
from tests.bench.bars import list_bars
from tests.bench.figure import Better, Figure, Unit
from tests.bench.rangespec import (
    Range,
    Rangespec,
    compare,
    read_rangespec,
    write_rangespec,
)
from tests.bench.result import Machine, Result, Sizes, read_result, write_result
from tests.bench.spread import build_header, build_rangespec
from tests.bench.table import show_table
from tests.bench.whole.__main__ import choose_entries, choose_sizes, name_after

SIZES = Sizes(nodes=5000, middle=1000, rollout=100, rounds=3)


def a_figure(value: float = 1.0, **more: Any) -> Figure:
    values: dict[str, Any] = {"name": "labels.ratio", "what": "labels", "floor": "a bare loop"}
    return Figure(**{**values, "value": value, **more})


def a_result(*figures: Figure, sizes: Sizes = SIZES) -> Result:
    machine = Machine(cores=2, architecture="x86_64", python="3.11.7")
    rounds = {"rollout": 150.5}
    return Result("2026-01-02T03:04:05Z", "0.1.0", "v1.37.0", machine, sizes, rounds, figures)


def a_spec(*values: float, **more: Any) -> Rangespec:
    return build_rangespec([a_result(a_figure(value, **more)) for value in values])


def a_range(*values: float, **more: Any) -> Range:
    (found,) = a_spec(*values, **more).figures.values()
    return found


def failures(
    spec: Rangespec, *figures: Figure, sizes: Sizes = SIZES, same_machine: bool = False
) -> list[str]:
    verdicts = compare(a_result(*figures, sizes=sizes), spec, same_machine=same_machine)
    return [verdict.line for verdict in verdicts if verdict.fails]


def test_a_result_is_read_as_it_was_written(tmp_path: Path) -> None:
    result = a_result(
        a_figure(rounds=({"floor_s": 2.0, "operator_s": 2.5},), bound=1.3),
        a_figure(name="n", unit=Unit.COUNT, floor=None, better=Better.HIGHER),
    )

    write_result(result, tmp_path / "new" / "bench.json")

    assert read_result(tmp_path / "new" / "bench.json") == result


def test_a_file_that_is_no_result_is_told_by_its_name(tmp_path: Path) -> None:
    file = tmp_path / "bench.json"
    file.write_text('{"figures": []}')

    with pytest.raises(ValueError, match=r"bench\.json is no result of a whole run .*make bench"):
        read_result(file)


def test_ranges_are_read_as_they_were_written(tmp_path: Path) -> None:
    file, spec = tmp_path / "rangespec.yaml", a_spec(0.97, 1.0, 1.05, bound=1.3)

    write_rangespec(spec, build_header([a_result()] * 3), file)

    assert read_rangespec(file) == spec
    assert file.read_text().startswith("# What `make bench` should come to")
    assert "# machine with 2 cores (x86_64) and nothing else to do:\n" in file.read_text()


def test_a_file_that_holds_no_ranges_is_told_by_its_name(tmp_path: Path) -> None:
    file = tmp_path / "rangespec.yaml"
    file.write_text("figures: {}\n")

    with pytest.raises(ValueError, match=r"rangespec\.yaml holds no ranges .*make bench-spread"):
        read_rangespec(file)


def test_a_range_is_the_median_of_the_runs_and_twice_the_width_of_their_spread() -> None:
    found = a_range(1.2, 0.8, 1.0, 1.1, 0.9)

    assert found.expected == 1.0
    assert found.spread == (0.8, 1.0, 1.2)
    assert found.runs == 5
    assert found.tolerance == {"relative": pytest.approx(0.8)}
    assert found.limit == pytest.approx(1.8)


def test_a_relative_tolerance_is_a_tenth_at_least() -> None:
    assert a_range(1.0, 1.0, 1.01).tolerance == {"relative": 0.1}


@pytest.mark.parametrize("unit", [Unit.COUNT, Unit.POINTS])
def test_counts_and_points_have_an_absolute_tolerance(unit: Unit) -> None:
    assert a_range(1, 2, 3, unit=unit).tolerance == {"absolute": 4}


def test_what_was_always_nothing_must_be_nothing() -> None:
    spec = a_spec(0, 0, 0, unit=Unit.COUNT)

    assert failures(spec, a_figure(0, unit=Unit.COUNT)) == []
    assert failures(spec, a_figure(1, unit=Unit.COUNT)) == [
        "labels.ratio is 1, and should be 0 at most (3 runs: 0 to 0, median 0)"
    ]


@pytest.mark.parametrize("count", [0, 2])
def test_too_few_runs_make_no_ranges(count: int) -> None:
    with pytest.raises(ValueError, match=f"{count} runs tell no spread"):
        a_spec(*[1.0] * count)


def test_runs_of_other_figures_make_no_ranges() -> None:
    one, other = a_result(a_figure()), a_result(a_figure(name="other"))

    with pytest.raises(ValueError, match=r"not every run measured labels\.ratio, other"):
        build_rangespec([one, one, other])


def test_runs_of_other_sizes_make_no_ranges() -> None:
    small = a_result(a_figure(), sizes=replace(SIZES, nodes=200))

    with pytest.raises(ValueError, match="other numbers of nodes or rounds"):
        build_rangespec([a_result(a_figure()), small, small])


@pytest.mark.parametrize("value", [0.5, 0.9, 1.0, 1.1])
def test_a_figure_inside_its_range_or_better_does_not_fail(value: float) -> None:
    assert failures(a_spec(1, 1, 1), a_figure(value)) == []


def test_a_figure_worse_than_its_range_fails() -> None:
    (failure,) = failures(a_spec(1, 1, 1), a_figure(1.11))

    assert failure == (
        "labels.ratio is 1.11, and should be 1.10 at most (3 runs: 1.00 to 1.00, median 1.00)"
    )


def test_what_is_better_the_higher_fails_where_it_is_lower() -> None:
    spec = a_spec(10, 10, 10, better=Better.HIGHER)

    assert failures(spec, a_figure(12, better=Better.HIGHER)) == []
    (failure,) = failures(spec, a_figure(8.9, better=Better.HIGHER))
    assert failure.startswith("labels.ratio is 8.90, and should be 9.00 at least")


def test_a_figure_that_is_far_better_says_that_its_range_is_old() -> None:
    (verdict,) = compare(a_result(a_figure(0.5)), a_spec(1, 1, 1), same_machine=False)

    assert "better than its range" in verdict.line


def test_a_figure_that_is_missing_on_either_side_fails() -> None:
    assert failures(a_spec(1, 1, 1), a_figure(name="new")) == [
        "labels.ratio: it has a range, but was not measured",
        "new: it was measured, but has no range; make bench-spread",
    ]


def test_a_run_of_other_sizes_is_not_compared() -> None:
    (failure,) = failures(a_spec(1, 1, 1), a_figure(), sizes=replace(SIZES, nodes=200))

    assert "nodes=200" in failure


@pytest.mark.parametrize("unit", [Unit.SECONDS, Unit.CORES, Unit.MIB, Unit.POINTS])
def test_what_depends_on_the_machine_has_its_range_there_alone(unit: Unit) -> None:
    spec = a_spec(1, 1, 1, unit=unit)

    assert failures(spec, a_figure(5, unit=unit)) == []
    assert len(failures(spec, a_figure(5, unit=unit), same_machine=True)) == 1


def test_what_depends_on_the_machine_keeps_its_bound_on_any() -> None:
    spec = a_spec(1, 1, 1, unit=Unit.SECONDS, bound=2)

    assert failures(spec, a_figure(1.9, unit=Unit.SECONDS, bound=2)) == []
    assert failures(spec, a_figure(2.1, unit=Unit.SECONDS, bound=2)) == [
        "labels.ratio is 2.100, and should be 2.000 at most on any machine"
    ]


def test_the_picture_shows_ratios_to_a_floor_that_are_better_the_lower() -> None:
    figures = [
        a_figure(1.1, bound=1.3),
        a_figure(5, name="s", unit=Unit.SECONDS),
        a_figure(9, name="kopf", better=Better.HIGHER),
    ]
    spec = build_rangespec([a_result(*figures)] * 3)

    (bar,) = list_bars(spec)

    assert (bar.what, bar.floor) == ("labels", "a bare loop")
    assert (bar.least, bar.median, bar.most, bar.bound) == (1.1, 1.1, 1.1, 1.3)


def test_the_table_marks_what_misses_its_bound() -> None:
    table = show_table(
        [a_figure(1.4, bound=1.3), a_figure(0.5, name="s", unit=Unit.SECONDS, floor=None)]
    )

    assert [line.split() for line in table.splitlines()[1:]] == [
        ["labels.ratio", "1.40", "!", "<=", "1.3", "labels", "a", "bare", "loop"],
        ["s", "0.500", "s", "labels"],
    ]


def test_no_two_parts_of_a_run_have_a_name_in_common() -> None:
    (figure,) = name_after("rollout", [a_figure(name="ratio")])

    assert figure.name == "rollout.ratio"


def test_the_sizes_follow_the_number_of_nodes() -> None:
    assert choose_sizes(5000, 3) == SIZES
    assert choose_sizes(200, 1) == Sizes(nodes=200, middle=40, rollout=10, rounds=1)


def test_kopfs_own_way_is_measured_once_and_all_else_in_every_round() -> None:
    entered = [
        [KOPF in contestants for contestants in entries.values()] for entries in choose_entries(3)
    ]

    assert entered == [[False, True, False], [False] * 3, [False] * 3]
