"""What is counted of calls, and how long they take."""

from collections.abc import AsyncIterator

import pytest

from gpushare.observe.metrics import Metrics
from gpushare.webhook.server import PODS_PATH, WORKLOADS_PATH
from tests.kit.values.manifests import build_gpu_pod, build_review, encode
from tests.kit.values.webhook_server import build_webhook
from tests.unit.webhook.webhook_client import ask, connected, count


async def test_calls_about_workloads_that_fail_are_none_about_pods() -> None:
    metrics = Metrics()
    async with connected(build_webhook(metrics=metrics)) as webhook:
        await webhook.post(WORKLOADS_PATH, data=b"nonsense")
    told = metrics.registry.get_sample_value
    assert count(metrics, "MalformedReview") is None
    asked = "gpushare_workload_admission_requests_total"
    assert told(asked, {"reason": "MalformedReview"}) == 1


async def test_a_slow_body_is_no_part_of_a_calls_duration(monkeypatch: pytest.MonkeyPatch) -> None:
    metrics = Metrics()
    now = [0.0]

    async def dawdle(body: bytes) -> AsyncIterator[bytes]:
        yield body[:10]
        now[0] += 4.0
        yield body[10:]

    monkeypatch.setattr("gpushare.webhook.server.time.perf_counter", lambda: now[0])
    async with connected(build_webhook(metrics=metrics)) as webhook:
        await webhook.post(PODS_PATH, data=dawdle(encode(build_review(build_gpu_pod()))))
    assert metrics.registry.get_sample_value("gpushare_admission_duration_seconds_sum") == 0.0
    assert metrics.registry.get_sample_value("gpushare_admission_duration_seconds_count") == 1


async def test_what_a_call_waits_for_is_in_its_duration(monkeypatch: pytest.MonkeyPatch) -> None:
    metrics = Metrics()
    server = build_webhook(metrics=metrics)
    now = [0.0]

    async def wait(name: str) -> None:
        now[0] += 0.75

    monkeypatch.setattr("gpushare.webhook.server.time.perf_counter", lambda: now[0])
    monkeypatch.setattr(server, "_wait_for_namespace", wait)
    async with connected(server) as webhook:
        await ask(webhook, build_review(build_gpu_pod(), namespace="unheard-of"))
    assert metrics.registry.get_sample_value("gpushare_admission_duration_seconds_sum") == 0.75
