"""What the API server gets back from the webhook."""

import base64
import contextlib
from collections.abc import AsyncIterator, Sequence
from copy import deepcopy
from io import BytesIO
from typing import Any

import jsonpatch
import orjson
import pytest
from aiohttp.test_utils import TestClient, TestServer

from gpushare.api.pool import Schedule
from gpushare.core.admission import PoolView
from gpushare.observe.metrics import Metrics
from gpushare.webhook.server import MAX_BODY_BYTES, PATH, build_app
from tests.kit.reviews import build_gpu_pod, build_review, encode

POOLS = (PoolView("inference", Schedule.SHARE, 100), PoolView("training", Schedule.CGPU, 100))
Client = TestClient[Any, Any]


@contextlib.asynccontextmanager
async def client(
    pools: Sequence[PoolView] | None = POOLS, metrics: Metrics | None = None
) -> AsyncIterator[Client]:
    app = build_app(lambda: pools, metrics or Metrics())
    async with TestClient(TestServer(app)) as client:
        yield client


async def ask(client: Client, review: Any) -> tuple[int, Any]:
    async with client.post(PATH, data=BytesIO(encode(review))) as response:
        body = await response.read()
        return response.status, orjson.loads(body) if response.status == 200 else body.decode()


def apply_answer(pod: dict[str, Any], answer: Any) -> Any:
    patch = base64.b64decode(answer["response"].get("patch", base64.b64encode(b"[]")))
    return jsonpatch.apply_patch(pod, orjson.loads(patch))


async def test_a_gpu_pod_is_sent_to_a_pool_and_keeps_all_it_had() -> None:
    pod = build_gpu_pod(nodeSelector={"zone": "a"}, somethingNewer={"a": [1]})
    async with client() as webhook:
        status, answer = await ask(webhook, build_review(pod))
    expected = deepcopy(pod)
    expected["spec"]["nodeSelector"]["gpushare.io/pool"] = "training"
    assert (status, apply_answer(pod, answer)) == (200, expected)
    assert answer["response"]["uid"] == build_review(pod)["request"]["uid"]


async def test_a_routed_pod_that_comes_again_is_left_as_it_is() -> None:
    pod = build_gpu_pod()
    async with client() as webhook:
        _, first = await ask(webhook, build_review(pod))
        routed = apply_answer(pod, first)
        _, second = await ask(webhook, build_review(routed))
    assert "patch" not in second["response"]


async def test_a_dry_run_gets_the_same_answer() -> None:
    async with client() as webhook:
        real = await ask(webhook, build_review(build_gpu_pod()))
        dry = await ask(webhook, build_review(build_gpu_pod(), dryRun=True))
    assert real == dry


@pytest.mark.parametrize(
    "request_fields",
    [{"operation": "UPDATE"}, {"subResource": "status"}, {"operation": "DELETE", "object": None}],
)
async def test_what_it_was_not_asked_for_is_allowed_untouched(
    request_fields: dict[str, Any],
) -> None:
    async with client() as webhook:
        _, answer = await ask(webhook, build_review(build_gpu_pod(), **request_fields))
    assert answer["response"] == {"uid": answer["response"]["uid"], "allowed": True}


async def test_a_pod_that_no_pool_takes_is_allowed_with_a_warning() -> None:
    async with client(pools=()) as webhook:
        _, answer = await ask(webhook, build_review(build_gpu_pod()))
    response = answer["response"]
    assert response["allowed"]
    assert "patch" not in response
    assert "not sent to a pool" in response["warnings"][0]


async def test_until_the_pools_are_known_it_gives_no_answer() -> None:
    async with client(pools=None) as webhook:
        status, text = await ask(webhook, build_review(build_gpu_pod()))
    assert status == 503
    assert "not known yet" in text


async def test_a_malformed_pod_is_refused_with_the_field_that_is_wrong() -> None:
    async with client() as webhook:
        status, text = await ask(webhook, build_review(build_gpu_pod(containers="none")))
    assert (status, text) == (400, "spec.containers must be a list, not str\n")


async def test_a_pod_of_more_than_a_mebibyte_is_answered() -> None:
    pod = build_gpu_pod()
    pod["metadata"]["annotations"] = {"big": "x" * 1_500_000}
    async with client() as webhook:
        status, _ = await ask(webhook, build_review(pod))
    assert status == 200


async def test_a_body_beyond_all_measure_is_refused() -> None:
    async with (
        client() as webhook,
        webhook.post(PATH, data=BytesIO(b" " * (MAX_BODY_BYTES + 1))) as response,
    ):
        assert response.status == 413


async def test_each_outcome_is_counted() -> None:
    metrics = Metrics()
    async with client(metrics=metrics) as webhook:
        await ask(webhook, build_review(build_gpu_pod()))
        await ask(webhook, build_review(build_gpu_pod(nodeName="gpu-1")))
        await ask(webhook, "nonsense")
    name = "gpushare_admission_requests_total"
    counts = {
        reason: metrics.registry.get_sample_value(name, {"reason": reason})
        for reason in ("Routed", "NotRouted", "MalformedReview")
    }
    assert counts == {"Routed": 1, "NotRouted": 1, "MalformedReview": 1}
    assert metrics.registry.get_sample_value("gpushare_admission_duration_seconds_count") == 3
