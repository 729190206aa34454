"""What the label bench counts, takes off, and fails for."""

import pytest

from tests.bench.event import EventCost, Repairs
from tests.bench.figure import find_misses, summarize
from tests.bench.figures import Figures
from tests.bench.fleet import build_gpu_pods, build_node, build_reset
from tests.bench.footprint import Use
from tests.bench.ratio import Round
from tests.bench.rest import Rest, build_figures
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
    return Round(300, floor_seconds=10.0, operator_seconds=operator_seconds, **counts)


def test_the_ratio_is_the_median_of_the_rounds() -> None:
    figures = [*Figures(rounds_all=[a_round(11), a_round(50), a_round(12)]).figures()]

    assert summarize("bench-labels", figures) == "bench-labels ratio_5k=1.20 stray_writes=0"
    assert list(find_misses(figures)) == []


def test_a_figure_beyond_its_bound_is_a_miss() -> None:
    figures = Figures(rounds_all=[a_round(14)], writes_at_rest=1)

    assert list(find_misses(figures.figures())) == [
        "ratio_5k is 1.40, and may be 1.3 at most",
        "writes_at_rest is 1, and may be 0 at most",
    ]


@pytest.mark.parametrize("counter", ["audited", "counted"])
@pytest.mark.parametrize("writes", [299, 301])
def test_each_node_takes_one_write_by_either_counter(counter: str, writes: int) -> None:
    figures = Figures(rounds_all=[a_round(), a_round(**{counter: writes})])

    (miss,) = find_misses(figures.figures())

    assert miss == "stray_writes is 1, and may be 0 at most"


def test_an_event_and_a_repair_are_told_by_their_floors() -> None:
    figures = Figures(
        event_few=EventCost(100, microseconds=600, idle_cores=0.002),
        event_all=EventCost(5000, microseconds=660, idle_cores=0.002),
        repairs=Repairs((0.05, 0.06, 0.09), cpu_milliseconds=6),
        bare_repairs=Repairs((0.01, 0.02, 0.03), cpu_milliseconds=2),
    )

    event, repair, *_ = figures.figures()

    assert event.value == pytest.approx(1.1)
    assert event.floor == "the same at 100 nodes"
    assert repair.value == pytest.approx(3)


def test_what_is_used_at_rest_is_told_by_the_api_server_and_by_bare_processes() -> None:
    used = {
        "controller": Use(0.004, 120),
        "watcher": Use(0.001, 40),
        "webhook": Use(0.002, 70),
        "handler": Use(0, 35),
        "apiserver": Use(0.2, 800),
    }

    found = {each.name: each.value for each in build_figures(Rest(5000, 30, writes=0, **used))}

    assert found == {
        "writes": 0,
        "controller_cores": 0.004,
        "controller_cpu_share": pytest.approx(0.02),
        "controller_mib": 120,
        "controller_memory_ratio": 3,
        "webhook_cores": 0.002,
        "webhook_cpu_share": pytest.approx(0.01),
        "webhook_mib": 70,
        "webhook_memory_ratio": 2,
    }
