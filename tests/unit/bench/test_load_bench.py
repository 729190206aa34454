"""What the load bench counts, and what it fails for."""

from collections import Counter
from typing import Any

import pytest

from bench.core.figure import find_misses
from bench.core.stream import LOST, judge_pods
from bench.load import Trial, find_flaws, list_figures
from tests.kit.values.manifests import build_pod

Json = dict[str, Any]


def a_trial(way: str, lost: int = 0, per_second: float = 20.0, **failures: int) -> Trial:
    return Trial(way, 100.0, 2000, per_second, Counter({LOST: lost} if lost else {}, **failures))


def a_seen_pod(phase: str, name: str = "stream-00007", **status: str) -> Json:
    return build_pod(name, nodeName="n1") | {"status": {"phase": phase, **status}}


def test_a_pod_that_runs_and_one_that_failed_are_told_apart() -> None:
    failed = a_seen_pod("Failed", reason=LOST)

    found = judge_pods([a_seen_pod("Running", "stream-00001"), failed, a_seen_pod("Pending", "p")])

    assert found == (["stream-00001"], {"stream-00007": LOST})


@pytest.mark.parametrize("phase", ["Running", "Failed"])
def test_a_pod_that_is_being_removed_is_not_counted_again(phase: str) -> None:
    pod = a_seen_pod(phase)
    pod["metadata"]["deletionTimestamp"] = "2026-01-02T03:04:06Z"

    assert judge_pods([pod]) == ([], {})


def test_the_figures_add_up_the_rounds_of_each_way() -> None:
    trials = [a_trial("operator"), a_trial("hand", lost=2)] * 2

    assert [str(figure) for figure in list_figures(trials)] == [
        "pods_by_operator=4000",
        "lost_by_operator=0",
        "pods_by_hand=4000",
        "lost_by_hand=4",
    ]
    assert list(find_flaws(trials, 20)) == []


def test_a_pod_that_the_operator_lost_is_a_miss() -> None:
    (miss,) = find_misses(list_figures([a_trial("operator", lost=1), a_trial("hand", lost=1)]))

    assert miss.startswith("lost_by_operator=1,")


@pytest.mark.parametrize(
    "trials",
    [
        [a_trial("operator"), a_trial("hand")],
        [a_trial("operator", NodeAffinity=1), a_trial("hand", lost=1)],
        [a_trial("operator", per_second=17.0), a_trial("hand", lost=1)],
    ],
    ids=["nothing lost by hand", "failed for another reason", "too few pods a second"],
)
def test_a_run_that_shows_nothing_has_a_flaw(trials: list[Trial]) -> None:
    (_,) = find_flaws(trials, 20)
