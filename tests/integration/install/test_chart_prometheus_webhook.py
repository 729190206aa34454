"""A webhook that is away, as a real Prometheus reads of it: the alerts for that have something."""

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
from tests.kit.cluster.sharing_pools import given_sharing_pool
from tests.kit.values.manifests import build_pod

ALERTS = {
    rule["alert"]: rule["expr"]
    for group in yaml.safe_load((CHART / "files/rules.yaml").read_text())["groups"]
    for rule in group["rules"]
    if "alert" in rule
}


@dataclass(frozen=True)
class Reading:
    """A controller and a webhook, and what Prometheus reads of them and of the API server."""

    bench: Bench
    told: Prometheus
    webhook: OperatorProcess

    def expect_told(self, alert: str, *values: float) -> None:
        """Until the alert's expression has these values; without any it would not fire."""

        def is_told() -> bool:
            return [sample.value for sample in self.told.query(ALERTS[alert])] == list(values)

        expect(self.bench, f"{alert} brings {list(values)}", is_told, within_seconds=60)


@pytest.fixture
def reading(prometheus_programs: Path, installed: Bench) -> Iterator[Reading]:
    processes = [installed.operators.start(role) for role in ("controller", "webhook")]
    given_sharing_pool(installed, "Professional", "n1")
    ports = [process.metrics_port for process in processes]
    with prometheus(installed.cluster, *ports, with_api_server=True) as told:
        yield Reading(installed, told, processes[1])
    installed.operators.end_all()
    installed.empty()


def test_a_webhook_that_is_away_shows_in_its_metrics_and_in_those_of_the_api_server(
    reading: Reading,
) -> None:
    bench, told = reading.bench, reading.told
    expect(bench, "both are read", lambda: len(told.query("gpushare_build_info")) == 2)
    for alert in ("GPUShareNoWebhook", "GPUShareWebhookUnreached"):
        reading.expect_told(alert)
    reading.webhook.kill()
    reading.expect_told("GPUShareNoWebhook", 0)
    created = iter(range(1000))

    def is_told() -> bool:
        bench.create_pod(build_pod(f"lost-{next(created)}", gib=1))
        return bool(told.query(ALERTS["GPUShareWebhookUnreached"]))

    expect(bench, "the API server tells of it", is_told, within_seconds=60)

    def find_unrouted() -> object:
        return told.query(ALERTS["GPUSharePodsUnrouted"])

    expect(bench, "the controller tells of it", find_unrouted, within_seconds=60)
