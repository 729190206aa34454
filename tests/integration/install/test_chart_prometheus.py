"""A real Prometheus reads the operator through a story in which everything happens once."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest
import yaml

from devcluster.prometheus_server import Prometheus, prometheus
from devcluster.startup import CHART
from devcluster.waiting import wait_until
from tests.kit.bench import PLACEMENT, POOL, Bench
from tests.kit.cluster.expect import (
    expect,
    expect_condition,
    expect_labels,
    expect_pool_ready,
    expect_running,
    list_running,
)
from tests.kit.cluster.installations import installation_with
from tests.kit.cluster.sharing_pools import given_sharing_pool
from tests.kit.dashboards import FILES, list_known, list_queries, read
from tests.kit.http_page import served_page
from tests.kit.values.manifests import build_pod, build_pool, build_workload

GIB, MIB = 2**30, 2**20
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
NODES = ("n1", "n2", "n3")
EXPORTERS = """\
DCGM_FI_DEV_FB_USED{gpu="0",Hostname="n1",UUID="GPU-1",pod="",namespace=""} 4301
DCGM_FI_DEV_GPU_UTIL{gpu="0",Hostname="n1",UUID="GPU-1",pod="",namespace=""} 87
DCGM_FI_DEV_FB_USED{gpu="0",Hostname="exporter-x",NodeName="n2",UUID="GPU-2"} 3193
DCGM_FI_DEV_GPU_UTIL{gpu="0",Hostname="exporter-x",NodeName="n2",UUID="GPU-2"} 12
DCGM_FI_DEV_FB_FREE{gpu="0",Hostname="n1",UUID="GPU-1",pod="",namespace=""} 11829
DCGM_FI_DEV_FB_FREE{gpu="0",Hostname="exporter-x",NodeName="n2",UUID="GPU-2"} 12937
DCGM_FI_DEV_FB_USED{gpu="0",Hostname="elsewhere",UUID="GPU-9"} 15000
DCGM_FI_DEV_FB_USED{gpu="1",AllocateMode="exclusive",NamespaceName="default",PodName="one-0"} 3400
DCGM_FI_DEV_FB_FREE{gpu="1",AllocateMode="exclusive",NamespaceName="default",PodName="one-0"} 12730
DCGM_FI_DEV_FB_USED{gpu="2",AllocateMode="share",NamespaceName="default",PodName="web-1"} 1
DCGM_FI_DEV_FB_FREE{gpu="2",AllocateMode="share",NamespaceName="default",PodName="web-1"} 16129
DCGM_CUSTOM_PROCESS_MEM_USED{gpu="0",NodeName="n2",NamespaceName="default",PodName="web-1"} 3193
DCGM_CUSTOM_PROCESS_MEM_USED{gpu="0",NodeName="n1",NamespaceName="default",PodName="web-1"} 100
nvidia_gpu_memory_used_bytes{minor_number="0",node_name="n3",namespace_name="other",pod_name="x"} 7
nvidia_gpu_memory_total_bytes{minor_number="0",node_name="n3"} 16
nvidia_gpu_memory_total_bytes{allocate_mode="exclusive",namespace_name="other",pod_name="x"} 16
hami_vgpu_memory_used_bytes{namespace="hami",pod="y",container="c",vdevice_index="0"} 5
vGPU_device_memory_usage_in_bytes{podnamespace="hami",podname="y",ctrname="c",vdeviceid="0"} 5
vGPU_device_memory_usage_in_bytes{podnamespace="old",podname="z",ctrname="c",node="n1"} 5
"""
"""As DCGM's exporter writes of n1 and of a node in no pool, and ACK's of n2 and, in its first
generation, of n3; of a pod with a whole card and one that shares, on another. As HAMi's monitor
writes, without a node, and in its first form with one that was added."""


@pytest.fixture(scope="module")
def told(prometheus_programs: Path, installed: Bench) -> Iterator[Prometheus]:
    """What Prometheus has read while the nodes of a pool changed their mode, and somebody fought
    over a label."""
    switches = ("PER_NODE_METRICS", "ALLOW_EVICTION", "ADMISSION_TABLE")
    settings = {f"GPUSHARE_{switch}": "true" for switch in switches}
    values = {"eviction.enabled": "true", "admissionPolicy.enabled": "true"}
    with (
        installation_with(installed, values),
        served_page(EXPORTERS, "text/plain; version=0.0.4") as port,
        prometheus(
            installed.cluster,
            installed.operators.start("run", env=settings).metrics_port,
            port,
        ) as reading,
    ):
        play(installed)
        # A rate is of what rises after it was first read, and on a busy machine that may be late.
        expect_data(reading, ["gpushare_admission_requests_total"])
        installed.create_pod(build_pod("late", gib=3, selects={POOL: "training"}))
        yield reading
    installed.empty()


def play(bench: Bench) -> None:
    rollout = {"workloads": "Evict"}
    given_sharing_pool(bench, "Professional", *NODES, placement="binpack", rollout=rollout)
    web = build_pod("web", gib=4, selects={POOL: "training"})
    bench.call("POST", DEPLOYMENTS, build_workload("Deployment", "web", replicas=2, pod=web))
    expect(bench, "both pods run", lambda: len(list_running(bench)) == 2)
    for _ in range(2):
        bench.label("n1", {PLACEMENT: "spread"})
        expect_labels(bench, "n1", {PLACEMENT: "binpack"})
    # The third is given way to.
    bench.label("n1", {PLACEMENT: "spread"})
    expect_condition(bench, "Conflicting", "True")
    # The pods are evicted, and come back to nodes that are in the new mode.
    bench.change_pool(schedule="cgpu")
    expect_pool_ready(bench, nodes=len(NODES))
    expect(bench, "both pods run again", lambda: len(list_running(bench)) == 2)
    bench.create_pod(build_pod("lost", selects={POOL: "nowhere"}))
    windows = [{"schedule": "0 0 29 2 *", "duration": "1h"}]
    bench.create_pool(build_pool("leap", node_pool="none", rollout={"windows": windows}))
    play_moves(bench)


def play_moves(bench: Bench) -> None:
    """One idle node moves to where a pod waits; another one is only recommended."""
    times = {"pendingFor": "2s", "idleFor": "2s"}
    for name, most in (("spare", 2), ("short", 0)):
        pool = build_pool(name, node_pool="np2", demand={"mode": "Automatic", **times})
        pool["spec"]["nodes"]["size"] = {"min": 0, "max": most}
        bench.create_pool(pool)
    bench.add_nodes("m1", "m2", node_pool="np2")
    expect_pool_ready(bench, "spare", nodes=2)
    bench.change_pool("short", nodes={"size": {"max": 2}})
    bench.create_pod(build_pod("first", gib=12, selects={POOL: "short"}))
    expect_running(bench, "first")
    bench.change_pool("short", demand={"mode": "Recommend"})
    bench.create_pod(build_pod("second", gib=12, selects={POOL: "short"}))
    expect(
        bench,
        "a move is recommended",
        lambda: bench.pool("short")["status"].get("recommendation"),
    )


def expect_data(told: Prometheus, queries: list[str]) -> None:
    """Until each brings some: what happened last is read within a second, and judged by rules."""

    def find_silent() -> list[str]:
        return [query for query in queries if not told.query(query)]

    assert queries
    wait_until(
        lambda: not find_silent(),
        expectation="every query brings data",
        timeout_seconds=20,
        advice=lambda: "None is brought by:\n" + "\n".join(find_silent()),
    )


def test_every_metric_of_the_page_is_there(told: Prometheus) -> None:
    expect_data(told, sorted(list_known()))


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_every_query_of_a_dashboard_brings_data(told: Prometheus, file: Path) -> None:
    expect_data(told, [query for _, query in list_queries(read(file))])


def test_every_recording_rule_brings_data_and_no_alert_fires(told: Prometheus) -> None:
    files = [
        CHART / "files" / name for name in ("rules.yaml", "rules-webhook.yaml", "rules-usage.yaml")
    ]
    groups = [group for file in files for group in yaml.safe_load(file.read_text())["groups"]]
    rules = [rule for group in groups for rule in group["rules"]]
    # Those of the API server begin with a webhook that is away (test_webhook_outages).
    ours = [rule for rule in rules if "apiserver_" not in rule["expr"]]
    expect_data(told, [rule["record"] for rule in ours if "record" in rule])
    assert told.query('ALERTS{alertstate="firing"}') == []


def find_query(page: str, panel: str, part: str) -> str:
    """The query of a panel in which this stands."""
    (file,) = (file for file in FILES if file.stem == page)
    (query,) = (q for title, q in list_queries(read(file)) if title == panel and part in q)
    return query


def test_an_hour_of_use_is_recorded_by_the_pool_of_its_node_where_an_exporter_names_it(
    told: Prometheus,
) -> None:
    # An hour is a minute here: a minute after the nodes joined their pool, nothing else is left.
    expected = {
        ("default", "training"): 3293 * MIB,
        ("default", ""): 3400 * MIB,
        ("other", "training"): 7,
        ("old", "training"): 5,
        ("hami", ""): 5,
    }

    def find_used() -> dict[tuple[str, str], float]:
        found = told.query("gpushare:namespace_pool_memory_used_bytes:avg1h")
        return {(s.labels["namespace"], s.labels.get("pool", "")): s.value for s in found}

    wait_until(
        lambda: find_used() == expected,
        expectation="what is used is recorded by namespace and pool",
        timeout_seconds=90,
        advice=lambda: f"It is recorded as {find_used()}",
    )


CARDS = ("gpu-node", "Cards")
APPLICATIONS = ("gpu-app", "Allocated by application, used by pod")
OF_CARDS, OF_PODS = ("pool", "node", "card"), ("namespace", "pod")
USED = {("default", "web-1"): 3293 * MIB, ("other", "x"): 7}
WHOLE_CARDS = {("default", "one-0"): 16130 * MIB, ("other", "x"): 16}


def of_nodes(*values: float) -> dict[tuple[str, ...], float]:
    """Of the first card of each node."""
    return {("training", node, "0"): value for node, value in zip(NODES, values, strict=True)}


@pytest.mark.parametrize(
    ("query", "by", "values"),
    [
        (find_query(*CARDS, "memory_used_bytes"), OF_CARDS, of_nodes(4301 * MIB, 3193 * MIB, 7)),
        (find_query(*CARDS, "FB_FREE"), OF_CARDS, of_nodes(16130 * MIB, 16130 * MIB, 16)),
        (find_query(*APPLICATIONS, "PROCESS_MEM_USED"), OF_PODS, USED),
        (find_query(*APPLICATIONS, "FB_FREE"), OF_PODS, WHOLE_CARDS),
        (
            'gpushare_application_memory_allocated_bytes{workload="web"}',
            ("pool", "namespace", "kind", "workload"),
            {("training", "default", "Deployment", "web"): 8 * GIB},
        ),
    ],
    ids=["used of cards", "size of cards", "used by pods", "whole cards of pods", "allocated"],
)
def test_figures_of_ours_and_of_exporters_stand_side_by_side(
    told: Prometheus, query: str, by: Sequence[str], values: Mapping[tuple[str, ...], float]
) -> None:
    def has_them() -> bool:
        found = [(tuple(s.labels[key] for key in by), s.value) for s in told.query(query)]
        return sorted(found) == sorted(values.items())

    # A reading of the metrics that took over a second leaves a gap, until the next one.
    wait_until(
        has_them,
        expectation=f"{query} brings what there is",
        timeout_seconds=20,
        advice=lambda: f"It brings {told.query(query)}",
    )
