"""`gpushare usage` beside a real Prometheus with two recorded hours of each exporter."""

import asyncio
import json
import re
import socket
import time
from collections.abc import Iterator
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from devcluster.prometheus_server import Prometheus, recorded_prometheus
from devcluster.recordings import Course, RecordedSeries, build_recording, steady
from gpushare.analysis.placement.cluster import find_members
from gpushare.analysis.usage.card_pods import list_card_pods
from gpushare.api.pruned.cluster import STATE_KINDS
from gpushare.cli.cluster.access import Access
from gpushare.cli.cluster.snapshot import observe_cluster
from gpushare.cli.exit_codes import Exit
from gpushare.cli.ui.use import PrometheusUse, describe_use
from gpushare.cli.usage.prometheus_options import PrometheusOptions
from tests.kit.bench import POOL, Bench, Json
from tests.kit.cluster.command_line import CommandResult, expect_error, run_command
from tests.kit.cluster.expect import expect, expect_running
from tests.kit.cluster.service_gateway import reachable_service
from tests.kit.cluster.sharing_pools import given_sharing_pool
from tests.kit.http_page import served_page
from tests.kit.values.manifests import build_pod, build_workload

GIB, MIB = 2**30, 2**20
HOURS = 7200
HAMI = "hami_vgpu_memory_used_bytes"
OLD_HAMI = "vGPU_device_memory_usage_in_bytes"
ACK_1, ACK_2 = "nvidia_gpu_memory_used_bytes", "DCGM_CUSTOM_PROCESS_MEM_USED"
DCGM = "DCGM_FI_DEV_FB_USED"
OPTIONS = ("--window", "2h", "--min-data", "0m")
"""The pods are minutes old, whatever was recorded of their names."""


def of_hami(pod: str, course: Course, namespace: str = "default") -> RecordedSeries:
    labels = {"exported_namespace": namespace, "exported_pod": pod, "exported_container": "main"}
    own = {"namespace": "kube-system", "pod": "monitor-1", "device_uuid": "GPU-1"}
    return RecordedSeries(HAMI, labels | own, course)


def of_old_hami(pod: str, course: Course) -> RecordedSeries:
    labels = {"podnamespace": "default", "podname": pod, "ctrname": "main", "vdeviceid": "0"}
    return RecordedSeries(OLD_HAMI, labels, course)


def of_ack_1(pod: str, course: Course) -> RecordedSeries:
    labels = {"namespace_name": "default", "pod_name": pod, "container_name": "main"}
    return RecordedSeries(ACK_1, labels | {"node_name": "n1"}, course)


def of_ack_2(pod: str, course: Course, instance: str = "a") -> RecordedSeries:
    labels = {"NamespaceName": "default", "PodName": pod, "ContainerName": "main"}
    return RecordedSeries(ACK_2, labels | {"NodeName": "n1", "instance": instance}, course)


def of_card(pod: str, course: Course) -> RecordedSeries:
    labels = {"gpu": "0", "UUID": "GPU-1", "Hostname": "n1", "exported_pod": pod}
    return RecordedSeries(DCGM, labels | {"exported_namespace": "default"}, course)


def peak_at(part: float, high: float, low: float) -> Course:
    """A course that is high for a minute only."""
    return lambda at: high if part <= at < part + 60 / HOURS else low


SERIES = (
    of_hami("lower", peak_at(0.5, 3.4 * GIB, 1.0 * GIB)),
    of_old_hami("above", steady(6 * GIB)),
    of_ack_1("unused", steady(0)),
    of_ack_2("fits", steady(3.5 * 1024)),
    # The same exporter, read by two replicas of Prometheus.
    of_ack_2("fits", steady(3.5 * 1024), instance="b"),
    of_hami("brief", lambda at: GIB if at > 0.9 else None),
    of_card("shared", steady(9000)),
    # A pod that is gone, of a Deployment that is there.
    of_hami("web-7c9d5b8f6d-x2k4z", lambda at: 2.5 * GIB if at < 0.5 else None),
    of_hami("job-x2k4z", lambda at: 2.0 * GIB if at < 0.5 else None, namespace="gone"),
)
ASKED = {"lower": 8, "above": 4, "unused": 4, "fits": 5, "brief": 8, "shared": 4, "silent": 3}


@dataclass(frozen=True)
class Told:
    """A cluster with pods, and a Prometheus that knows what they used."""

    bench: Bench
    prometheus: Prometheus

    def run(self, *arguments: str, options: tuple[str, ...] = OPTIONS) -> CommandResult:
        source = ("--prometheus", self.prometheus.url)
        return self.run_with(source, *options, *arguments)

    def run_with(self, source: tuple[str, ...], *arguments: str) -> CommandResult:
        return run_command("usage", *source, *arguments, kubeconfig=self.bench.cluster.kubeconfig)

    def ask(self, *arguments: str, **given: Any) -> Json:
        ended = self.run(*arguments, "-o", "json", **given)
        assert ended.code == 0, ended
        found: Json = json.loads(ended.out)
        return found

    def list_advice(self, *arguments: str) -> dict[str, Json]:
        return {each["name"]: each for each in self.ask(*arguments)["workloads"]}


@pytest.fixture(scope="module")
def told(prometheus_programs: Path, installed: Bench) -> Iterator[Told]:
    given_sharing_pool(installed, "Professional", "n1", "n2", "n3", "n4", placement="binpack")
    for name, gib in ASKED.items():
        installed.create_pod(build_pod(name, gib=gib, selects={POOL: "training"}))
    web = build_pod("web", gib=6, selects={POOL: "training"})
    installed.call(
        "POST",
        "/apis/apps/v1/namespaces/default/deployments",
        build_workload("Deployment", "web", pod=web),
    )
    for name in ASKED:
        expect_running(installed, name)
    expect(installed, "the Deployment's pod runs", lambda: len(list_web(installed)) == 1)
    (live,) = list_web(installed)
    series = (*SERIES, of_hami(live["metadata"]["name"], steady(GIB)))
    recording = build_recording(series, end=time.time(), seconds=HOURS)
    # Everywhere: the API server calls no Service at the address of the loopback.
    with recorded_prometheus(installed.cluster, recording, address="0.0.0.0") as prometheus:
        yield Told(installed, prometheus)
    installed.empty()


def list_web(bench: Bench) -> list[Json]:
    pods = bench.pods()
    return [
        pod
        for pod in pods
        if pod["metadata"]["name"].startswith("web-") and pod["spec"].get("nodeName")
    ]


@pytest.mark.parametrize(
    ("name", "code", "ask", "peak"),
    [
        ("lower", "Lower", 5, 3.4),
        ("above", "AboveRequest", 8, 6.0),
        ("unused", "NeverUsed", None, 0.0),
        ("fits", "Fits", None, 3.5),
        ("brief", "Lower", 2, 1.0),
        ("shared", "CardShared", None, None),
        ("silent", "NotMeasured", None, None),
        ("web", "Lower", 4, 2.5),
    ],
)
def test_each_workload_gets_the_advice_that_its_recording_deserves(
    told: Told, name: str, code: str, ask: int | None, peak: float | None
) -> None:
    found = told.list_advice()[name]

    assert (found["advice"]["code"], found["advice"]["ask"]) == (code, ask)
    assert found["usedGib"]["peak"] == peak


def test_a_minutes_peak_moves_neither_the_middle_nor_the_95th_percentile(told: Told) -> None:
    used = told.list_advice()["lower"]["usedGib"]

    assert (used["p50"], used["p95"], used["peak"]) == (1.0, 1.0, 3.4)


def test_advice_is_followed_by_its_command(told: Told) -> None:
    command = told.list_advice()["web"]["advice"]["command"]

    assert "kubectl set resources deployment/web -n default -c main" in command
    assert "--limits=aliyun.com/gpu-mem=4 --requests=aliyun.com/gpu-mem=4" in command


def test_nothing_is_lowered_before_its_pods_are_there_for_long_enough(told: Told) -> None:
    found = told.ask(options=("--window", "2h"))["workloads"]

    codes = {each["name"]: each["advice"]["code"] for each in found}
    assert codes["lower"] == codes["unused"] == "TooLittleData"
    assert codes["above"] == "AboveRequest"


def test_one_workload_shows_its_course(told: Told) -> None:
    ended = told.run("pod/lower", "-n", "default")

    assert ended.code == 0, ended
    assert "ask 5 (now 8)" in ended.out
    assert "#" in ended.out


def test_an_unknown_workload_is_answered_with_the_one_that_looks_like_it(told: Told) -> None:
    ended = told.run("pod/lowr", "-n", "default")

    expect_error(ended, Exit.NOT_FOUND, "pod/lowr", "pod/lower")


def test_gib_hours_of_a_namespace_that_is_gone_are_in_the_bill(told: Told) -> None:
    rows = {row["namespace"]: row for row in told.ask("--by", "namespace")["rows"]}

    assert rows["gone"]["usedGibHours"] == pytest.approx(2.0, rel=0.1)
    assert rows["default"]["unmeasuredGibHours"] > 0


def test_what_no_exporter_reports_is_listed_by_node(told: Told) -> None:
    listed = told.ask("--by", "pool")["notMeasured"]

    assert sum(each["pods"] for each in listed) >= 2


def test_csv_has_a_line_a_row_and_the_price(told: Told) -> None:
    ended = told.run("--by", "namespace", "--price", "0.9/GiB-h", "-o", "csv")

    assert ended.code == 0, ended
    head, *lines = ended.out.splitlines()
    assert head.split(",")[0] == "namespace"
    assert head.split(",")[-1] == "cost"
    assert all(re.search(r",\d+\.\d\d$", line) for line in lines)


def test_a_namespace_is_read_alone(told: Told) -> None:
    assert {each["namespace"] for each in told.ask("-n", "default")["workloads"]} == {"default"}


def test_the_same_is_read_through_the_api_server(told: Told) -> None:
    port = told.prometheus.port
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as outward:
        outward.connect(("192.0.2.1", 9))
        address = outward.getsockname()[0]
    source = ("--prometheus-service", f"default/prometheus:{port}")

    with reachable_service(told.bench.cluster, "prometheus", address, port):
        ended = told.run_with(source, *OPTIONS, "-o", "json")

    assert ended.code == 0, ended
    assert [each["advice"] for each in json.loads(ended.out)["workloads"]] == [
        each["advice"] for each in told.ask()["workloads"]
    ]


def test_the_page_reads_what_the_pods_use_now(told: Told) -> None:
    options = PrometheusOptions(told.prometheus.url, "", None, {})

    async def read() -> Json:
        async with aclosing(PrometheusUse(Access(told.bench.cluster.kubeconfig), options)) as use:
            reading = await use.read()
        access = Access(told.bench.cluster.kubeconfig)
        cluster = await asyncio.to_thread(access.read, *STATE_KINDS)
        seen = observe_cluster(cluster)
        members = find_members(seen.snapshot)
        return describe_use(tuple(list_card_pods(seen, cluster.pods, members, None)), reading, None)

    pods = asyncio.run(read())["pods"]

    assert (pods["default/above"]["usedGib"], pods["default/above"]["beyond"]) == (6.0, True)
    assert pods["default/fits"]["usedGib"] == 3.5
    assert pods["default/shared"]["usedGib"] is None


def test_a_service_that_is_not_there_is_said(told: Told) -> None:
    ended = told.run_with(("--prometheus-service", "default/nobody:9090"))

    expect_error(ended, Exit.NOT_FOUND, "default/nobody:9090")


def test_no_prometheus_at_the_address_is_said(told: Told) -> None:
    ended = told.run_with(("--prometheus", "http://127.0.0.1:9"))

    expect_error(ended, Exit.NO_CLUSTER, "http://127.0.0.1:9")


def test_a_page_that_is_not_prometheus_is_said(told: Told) -> None:
    with served_page("<html>sign in</html>", "text/html") as port:
        ended = told.run_with(("--prometheus", f"http://127.0.0.1:{port}"))

    expect_error(ended, Exit.FAILURE, str(port))


def test_a_window_without_series_names_those_that_were_expected(told: Told) -> None:
    ended = told.run("--prometheus-label", "cluster=elsewhere")

    expect_error(ended, Exit.NOT_FOUND, HAMI, "cluster=elsewhere")


def test_too_many_samples_for_one_query_are_asked_for_in_parts(
    told: Told, prometheus_programs: Path
) -> None:
    series = [
        of_hami(f"p-{pod}", steady(GIB), namespace=f"team-{team}")
        for team in range(8)
        for pod in range(20)
    ]
    recording = build_recording(series, end=time.time(), seconds=HOURS)
    limit = "--query.max-samples=8000"
    with recorded_prometheus(told.bench.cluster, recording, limit) as small:
        ended = told.run_with(
            ("--prometheus", small.url), *OPTIONS, "--by", "namespace", "-o", "json"
        )

    assert ended.code == 0, ended
    used = {row["namespace"]: row["usedGibHours"] for row in json.loads(ended.out)["rows"]}
    assert [used[f"team-{team}"] for team in range(8)] == [pytest.approx(40, rel=0.05)] * 8
