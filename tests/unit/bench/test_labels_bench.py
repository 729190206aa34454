"""What the benches of labels and of memory count, take off, and fail for."""

import pytest

from bench.core.figure import find_misses, tell
from bench.core.fleet import build_node, build_reset
from bench.event import Result
from bench.labels import Round, list_figures
from bench.memory import Memory


def test_a_node_that_was_only_created_is_reset_already() -> None:
    meta = build_node(1)["metadata"] | {"resourceVersion": "7", "managedFields": []}

    assert build_reset(meta) == []


def test_a_reset_takes_off_labels_records_and_ownership_of_the_version_that_was_seen() -> None:
    meta = build_node(1)["metadata"]
    meta["labels"]["gpushare.io/pool"] = "bench"
    meta["annotations"]["gpushare.io/found"] = "{}"
    managers = ("gpushare-bench-creator", "gpushare-operator", "kwok", "gpushare-bench-floor")
    meta |= {"resourceVersion": "7", "managedFields": [{"manager": name} for name in managers]}

    test, *removals = build_reset(meta)

    assert test == {"op": "test", "path": "/metadata/resourceVersion", "value": "7"}
    assert [removal["path"] for removal in removals] == [
        "/metadata/labels/gpushare.io~1pool",
        "/metadata/annotations/gpushare.io~1found",
        "/metadata/managedFields/3",
        "/metadata/managedFields/1",
    ]


def a_round(operator_seconds: float = 12.0, node_writes: int = 300) -> Round:
    return Round(300, 10.0, operator_seconds, 1.5, node_writes, other_writes=4)


@pytest.mark.parametrize("node_writes", [299, 301])
def test_each_node_takes_one_write(node_writes: int) -> None:
    (miss,) = find_misses(list_figures([a_round(), a_round(node_writes=node_writes)]))

    assert miss.startswith("stray_writes=1,")


def test_a_figure_beyond_its_bound_is_told_and_ends_the_run_as_failed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit, match=r"ratio=1\.40"):
        tell("labels", list_figures([a_round(14)]))

    assert "ratio=1.40" in capsys.readouterr().out


def test_the_bound_of_memory_grows_with_the_fleet() -> None:
    sizes = {1000: 150, 5000: 350}

    figures = [Memory(nodes, most, 60, peak=most).figure() for nodes, most in sizes.items()]

    assert [figure.value for figure in figures] == [figure.most for figure in figures]


def test_times_of_an_event_are_those_of_all_rounds_and_the_ratio_is_by_round() -> None:
    result = Result(600, 660, [[0.1, 0.2], [0.1, 0.2]], [[0.2, 0.4], [0.4, 0.8]], 0, 0.002)

    found = {figure.name: figure.value for figure in result.figures()}

    assert found["event_cost_ratio"] == pytest.approx(1.1)
    assert found["scraped_p50_s"] == pytest.approx(0.4)
    assert found["scraped_ratio"] == pytest.approx(3)
