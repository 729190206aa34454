"""What the label bench counts, takes off, and fails for."""

import pytest

from tests.bench.figures import Figures
from tests.bench.fleet import build_gpu_pods, build_node, build_reset
from tests.bench.ratio import Round
from tests.bench.writes import sum_applies


def test_applies_of_nodes_are_summed_over_all_answers() -> None:
    metrics = """
apiserver_request_total{code="200",resource="nodes",subresource="",verb="APPLY"} 12
apiserver_request_total{code="409",resource="nodes",subresource="",verb="APPLY"} 1
apiserver_request_total{code="200",resource="nodes",subresource="",verb="PATCH"} 7
apiserver_request_total{code="200",resource="pods",subresource="",verb="APPLY"} 5
"""
    assert sum_applies(metrics) == 13


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


def test_the_gpu_pods_of_a_node_fit_on_its_card() -> None:
    pods = [pod["spec"]["containers"][0]["resources"]["limits"] for pod in build_gpu_pods("gpu-1")]
    offered = build_node(1)["status"]["allocatable"]["aliyun.com/gpu-mem"]

    assert sum(int(limits["aliyun.com/gpu-mem"]) for limits in pods) <= int(offered)


def a_round(operator_seconds: float = 12.0, **writes: int) -> Round:
    counts = {"audited": 300, "counted": 300, "other": 4, **writes}
    return Round(floor_seconds=10.0, operator_seconds=operator_seconds, **counts)


def test_the_ratio_is_the_median_of_the_rounds() -> None:
    figures = Figures(300, rounds=[a_round(11), a_round(50), a_round(12)])

    assert figures.summary() == "bench-labels ratio=1.20"
    assert list(figures.misses()) == []


def test_a_figure_beyond_its_bound_is_a_miss() -> None:
    figures = Figures(300, rounds=[a_round(14)], writes_at_rest=1)

    assert list(figures.misses()) == [
        "ratio is 1.40, and may be 1.3 at most",
        "writes_at_rest is 1, and may be 0 at most",
    ]


@pytest.mark.parametrize("counter", ["audited", "counted"])
def test_a_second_write_to_a_node_is_a_miss(counter: str) -> None:
    figures = Figures(300, rounds=[a_round(**{counter: 301})])

    (miss,) = figures.misses()

    assert "each node takes one" in miss
