"""What the benches fail for, and what they take for a finished node and a lost pod."""

import subprocess
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest

from bench import labels, load, rollout
from bench.core.figure import Figure, find_median_range, is_steady, report_figures
from bench.core.stream import LOST, judge_pods
from bench.core.waiting import BenchError
from tests.kit.values.doc_pages import PROJECT
from tests.kit.values.manifests import Json, build_pod


def measure_labels(node_writes: int = 300) -> dict[str, float]:
    return labels.find_values([labels.Round(300, 7.0, 10.0, 12.0, 1.5, node_writes, 4)])


def a_trial(way: str, lost: int = 0, per_second: float = 20.0, **failures: int) -> load.Trial:
    counted = Counter({LOST: lost} if lost else {}, **failures)
    return load.Trial(way, 100.0, 2000, per_second, counted)


def measure_load(lost: int = 0) -> dict[str, float]:
    return load.find_values([a_trial("operator", lost), a_trial("hand", lost=1)])


def test_a_run_within_its_limits_ends_well_also_beyond_a_goal(
    capsys: pytest.CaptureFixture[str],
) -> None:
    report_figures("labels", labels.FIGURES, measure_labels())
    report_figures("load", load.FIGURES, measure_load())
    assert "labels: ratio 1.20" in capsys.readouterr().out


MISSES = {
    "a node without its write": (labels.FIGURES, measure_labels(node_writes=299), "stray_writes 1"),
    "a node with two writes": (labels.FIGURES, measure_labels(node_writes=301), "stray_writes 1"),
    "a pod that the operator lost": (load.FIGURES, measure_load(lost=1), "lost_by_operator 1"),
}


@pytest.mark.parametrize(("figures", "values", "missed"), MISSES.values(), ids=MISSES)
def test_a_figure_beyond_its_limit_ends_the_run_as_failed(
    figures: Sequence[Figure], values: dict[str, float], missed: str
) -> None:
    with pytest.raises(SystemExit, match=missed) as ended:
        report_figures("it", figures, values)
    assert str(ended.value).count("it: ") == 1


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (0.9, "ratio 0.90 times; limit 1.5; goal 1 reached"),
        (1.5, "ratio 1.50 times; limit 1.5; goal 1"),
        (1.6, "ratio 1.60 times; limit 1.5 missed; goal 1"),
    ],
)
def test_a_line_shows_value_limit_and_goal(value: float, shown: str) -> None:
    assert Figure("ratio", "times", limit=1.5, goal=1).describe(value) == shown


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([3, 1, 2], (1, 3)),
        ([5, 1, 4, 2, 3], (1, 5)),
        ([8, 1, 7, 2, 6, 3, 5, 4], (2, 7)),
        (list(range(1, 12)), (3, 9)),
    ],
)
def test_the_more_values_the_fewer_of_them_the_median_may_lie_between(
    values: list[float], expected: tuple[float, float]
) -> None:
    assert find_median_range(values) == expected


@pytest.mark.parametrize(
    ("values", "steady"),
    [
        ([1.0] * 4, False),
        ([1.0, 0.86, 1.14, 1.0, 1.0], True),
        ([1.0, 0.86, 1.16, 1.0, 1.0], False),
        ([1.0, 0.84, 1.0, 1.0, 1.0], False),
        # One of each side may be anything.
        ([0.1, *[1.0] * 6, 9.0], True),
    ],
)
def test_it_is_measured_until_the_median_is_known_to_15_percent(
    values: list[float], steady: bool
) -> None:
    assert is_steady(values) is steady


def test_what_never_becomes_steady_ends_the_run() -> None:
    with pytest.raises(BenchError, match="between 1 and 2"):
        is_steady([1.0, 2.0] * 13)


def test_a_missed_limit_fails_the_check_once_all_is_measured(tmp_path: Path) -> None:
    stub = tmp_path / "python"
    stub.write_text('#!/bin/sh\necho "$2" >>"$0.log"\ntest "$2" != bench.labels\n')
    stub.chmod(0o755)
    command = ["make", "bench-check", "READY=", f"BIN={tmp_path}"]
    done = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True)
    measured = (tmp_path / "python.log").read_text().split()
    assert done.returncode != 0
    assert "labels" in done.stderr
    assert measured[0] == "devcluster"
    assert measured[-1] != "bench.labels"


@pytest.mark.parametrize(
    "trials",
    [
        [a_trial("operator"), a_trial("hand")],
        [a_trial("operator", NodeAffinity=1), a_trial("hand", lost=1)],
        [a_trial("operator", per_second=17.0), a_trial("hand", lost=1)],
    ],
    ids=["nothing lost by hand", "failed for another reason", "too few pods a second"],
)
def test_a_load_that_shows_nothing_has_a_flaw(trials: list[load.Trial]) -> None:
    (_,) = load.find_problems(trials, 20)


def a_seen_pod(name: str, phase: str, **metadata: str) -> Json:
    pod = build_pod(name) | {"status": {"phase": phase, "reason": LOST}}
    pod["metadata"] |= metadata
    return pod


def test_pods_that_run_and_that_failed_are_counted_until_they_are_removed() -> None:
    leaving = {"deletionTimestamp": "2026-01-02T03:04:06Z"}
    pods = [
        a_seen_pod("a", "Running"),
        a_seen_pod("b", "Failed"),
        a_seen_pod("c", "Pending"),
        a_seen_pod("d", "Running", **leaving),
        a_seen_pod("e", "Failed", **leaving),
    ]
    assert judge_pods(pods) == (["a"], {"b": LOST})


@pytest.mark.parametrize(
    ("notes", "done"),
    [
        ({"gpushare.io/applied": '{"schedule":"cgpu"}'}, True),
        ({"gpushare.io/applied": '{"schedule":"share"}'}, False),
        ({"gpushare.io/applied": '{"schedule":"cgpu"}', "gpushare.io/change": "{}"}, False),
        ({}, False),
    ],
)
def test_a_node_is_done_when_its_mode_is_verified_and_no_change_is_left(
    notes: dict[str, str], done: bool
) -> None:
    assert rollout.Changes("cgpu")({"name": "n1", "annotations": notes}) is done
