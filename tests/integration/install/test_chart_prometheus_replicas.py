"""A real Prometheus reads several processes: nothing is counted twice, what is away shows."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from devcluster.installation import OperatorProcess
from devcluster.startup import CHART
from tests.integration.install.prometheus_server import Prometheus, prometheus
from tests.kit.bench import Bench
from tests.kit.cluster.expect import expect
from tests.kit.cluster.operator_processes import read_metric
from tests.kit.cluster.sharing_pools import given_sharing_pool
from tests.kit.dashboards import FILES, list_queries, read
from tests.kit.values.manifests import build_pod, build_workload

GIB = 2**30
POOL = "gpushare.io/pool"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
ALERTS = {
    rule["alert"]: rule["expr"]
    for group in yaml.safe_load((CHART / "files/rules.yaml").read_text())["groups"]
    for rule in group["rules"]
    if "alert" in rule
}


@dataclass(frozen=True)
class Story:
    """Two controllers and a webhook that Prometheus reads."""

    bench: Bench
    told: Prometheus
    active: OperatorProcess
    standby: OperatorProcess
    webhook: OperatorProcess

    def read(self, query: str) -> list[float]:
        return [sample.value for sample in self.told.query(query)]

    def expect_told(self, query: str, *values: float) -> None:
        expect(
            self.bench,
            f"{query} brings {list(values)}",
            lambda: self.read(query) == list(values),
            within_seconds=60,
        )


@pytest.fixture
def story(prometheus_programs: Path, installed: Bench) -> Iterator[Story]:
    start = installed.operators.start
    settings = {"GPUSHARE_PER_NODE_METRICS": "true"}
    webhook = start("webhook")
    active = start("controller", env=settings)
    expect(installed, "it is active", lambda: read_metric(active, "gpushare_leader") == 1)
    standby = start("controller", env=settings)
    given_sharing_pool(installed, "Professional", "n1", "n2")
    pod = build_pod("web", gib=4)
    installed.call("POST", DEPLOYMENTS, build_workload("Deployment", "web", replicas=3, pod=pod))
    ports = [process.metrics_port for process in (active, standby, webhook)]
    with prometheus(installed.cluster, *ports, with_api_server=True) as told:
        yield Story(installed, told, active, standby, webhook)
    installed.operators.end_all()
    installed.empty()


def list_sums() -> list[str]:
    """Queries of dashboards that sum GPU memory up, of all pools."""
    return [
        query
        for file in FILES
        for panel, query in list_queries(read(file))
        if panel == "Allocated" and query.startswith("sum(")
    ]


def test_what_two_controllers_tell_is_what_there_is_also_when_the_other_takes_over(
    story: Story,
) -> None:
    sums = [*list_sums(), "gpushare:namespace_memory_allocated_bytes:sum"]
    assert len(sums) == 4
    for query in sums:
        story.expect_told(query, 12 * GIB)
    story.active.kill()
    # Nobody is active, and soon the other is.
    story.expect_told(ALERTS["GPUShareNoActiveController"], 0)
    story.expect_told(ALERTS["GPUShareNoActiveController"])
    for query in sums:
        story.expect_told(query, 12 * GIB)


def test_a_webhook_that_is_away_shows_in_its_metrics_and_in_those_of_the_api_server(
    story: Story,
) -> None:
    story.expect_told("count(gpushare_build_info)", 3)
    for alert in ("GPUShareNoWebhook", "GPUShareWebhookUnreached"):
        story.expect_told(ALERTS[alert])
    story.webhook.kill()
    story.expect_told(ALERTS["GPUShareNoWebhook"], 0)
    created = iter(range(1000))

    def is_told() -> bool:
        story.bench.create_pod(build_pod(f"lost-{next(created)}", gib=1))
        return bool(story.read(ALERTS["GPUShareWebhookUnreached"]))

    expect(story.bench, "the API server tells of it", is_told, within_seconds=60)
    expect(
        story.bench,
        "the controller tells of it",
        lambda: bool(story.read(ALERTS["GPUSharePodsUnrouted"])),
        within_seconds=60,
    )
