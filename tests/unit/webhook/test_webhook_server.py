"""What the API server gets back from the webhook, and what is counted of calls."""

import asyncio
import base64
import logging
from collections.abc import AsyncIterator
from copy import deepcopy
from dataclasses import replace
from io import BytesIO
from typing import Any

import jsonpatch
import orjson
import pytest

from gpushare.core.admission.decision import MAX_WARNING
from gpushare.core.admission.pool_view import PoolView
from gpushare.core.capacity.room import Room
from gpushare.names import ANNOTATION_DECISION, ANNOTATION_ISOLATION, Reason
from gpushare.observe.metrics import Metrics
from gpushare.webhook import cache as memory_module
from gpushare.webhook import calls
from gpushare.webhook import handler as handler
from gpushare.webhook.cache import PoolCache
from gpushare.webhook.decision_log import DecisionLog
from gpushare.webhook.server import MAX_BODY_BYTES, PODS_PATH, WORKLOADS_PATH, AdmissionServer
from tests.kit.values.manifests import Json, build_container, build_gpu_pod, build_review, encode
from tests.kit.values.webhook_server import INFERENCE, TRAINING, build_memory, build_webhook, until
from tests.unit.webhook.webhook_client import ask, connected, count

REQUIRED = {ANNOTATION_ISOLATION: "required"}


async def ask_about(review: Any, server: AdmissionServer | None = None) -> Json:
    async with connected(server) as webhook:
        status, answer = await ask(webhook, review)
    assert status == 200, answer
    response: Json = answer["response"]
    return response


def read_patch(response: Json) -> list[Json]:
    patch: list[Json] = orjson.loads(base64.b64decode(response.get("patch", "W10=")))
    return patch


async def test_a_gpu_pod_is_sent_to_a_pool_and_keeps_all_it_had() -> None:
    pod = build_gpu_pod(nodeSelector={"zone": "a"}, somethingNewer={"a": [1]})
    response = await ask_about(build_review(pod))
    assert response["uid"] == build_review(pod)["request"]["uid"]
    expected = deepcopy(pod)
    expected["spec"]["nodeSelector"]["gpushare.io/pool"] = "training"
    routed = jsonpatch.apply_patch(pod, read_patch(response))
    decision = orjson.loads(routed["metadata"].pop("annotations")[ANNOTATION_DECISION])
    assert (routed, decision["pool"]) == (expected, "training")


@pytest.mark.parametrize(
    "request_fields",
    [
        {"operation": "UPDATE"},
        {"operation": "TELEPORT"},
        {"subResource": "status"},
        {"operation": "DELETE", "object": None},
        {"resource": {"group": "", "version": "v2", "resource": "pods"}},
    ],
)
async def test_what_it_was_not_asked_for_is_allowed_untouched_and_no_decision(
    request_fields: dict[str, Any],
) -> None:
    metrics = Metrics()
    review = build_review(build_gpu_pod(), **request_fields)
    response = await ask_about(review, build_webhook(metrics=metrics))
    assert response == {"uid": response["uid"], "allowed": True}
    assert [count(metrics, reason) for reason in Reason] == [None] * len(Reason)


@pytest.mark.parametrize("reason", ["NotSynced", "StaleCache"])
async def test_while_it_knows_the_pools_not_yet_or_no_more_it_gives_no_answer(reason: str) -> None:
    now = [0.0]
    metrics = Metrics()
    cache = build_memory(clock=lambda: now[0])
    if reason == "NotSynced":
        cache = PoolCache(60.0, lambda: now[0])
    now[0] += 100
    async with connected(build_webhook(cache, metrics=metrics)) as client:
        status, _ = await ask(client, build_review(build_gpu_pod()))
    assert (status, count(metrics, reason)) == (503, 1)


async def test_about_a_namespace_that_it_does_not_know_it_gives_no_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(memory_module, "NAMESPACE_SECONDS", 0.01)
    async with connected() as webhook:
        status, text = await ask(webhook, build_review(build_gpu_pod(), namespace="nowhere"))
    assert status == 503
    assert "nowhere" in text


@pytest.mark.parametrize("chunked", [False, True])
async def test_a_body_beyond_all_measure_is_refused(chunked: bool) -> None:
    async def pieces() -> AsyncIterator[bytes]:
        for _ in range(MAX_BODY_BYTES // 2**20 + 1):
            yield b" " * 2**20

    data: Any = pieces() if chunked else BytesIO(b" " * (MAX_BODY_BYTES + 1))
    async with connected() as webhook, webhook.post(PODS_PATH, data=data) as response:
        assert response.status == 413


async def test_a_body_that_does_not_come_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calls, "BODY_SECONDS", 0.05)
    never = asyncio.Event()

    async def pieces() -> AsyncIterator[bytes]:
        yield b"{"
        await never.wait()

    async with connected() as webhook, webhook.post(PODS_PATH, data=pieces()) as response:
        assert response.status == 408


async def test_other_paths_and_methods_are_told_so() -> None:
    async with connected() as webhook:
        async with webhook.get("/anything") as response:
            assert response.status == 404
        async with webhook.get(PODS_PATH) as response:
            assert (response.status, response.headers["Allow"]) == (405, "POST")
        async with webhook.get("/healthz") as response:
            assert (response.status, await response.text()) == (200, "ok\n")


@pytest.mark.parametrize(
    ("dry", "sent_to"), [(False, ["a", "b"]), (True, ["a", "a"])], ids=["given", "dry run"]
)
async def test_what_was_given_away_counts_until_capacity_shows_it_and_a_dry_run_gives_nothing(
    dry: bool, sent_to: list[str]
) -> None:
    room = Room(free_blocks=((8, 1),), total=8, largest_card=8)
    pools = [replace(TRAINING, name=name, room=room, nodes=1) for name in ("a", "b")]
    server = build_webhook(build_memory(pools))
    review = build_review(build_gpu_pod(containers=[build_container(memory="8")]), dryRun=dry)
    assert [await send(server, review) for _ in range(2)] == sent_to


async def send(server: AdmissionServer, review: Json) -> str:
    """The pool that the pod is sent to."""
    response = await ask_about(review, server)
    pod = jsonpatch.apply_patch(review["request"]["object"], read_patch(response))
    pool: str = pod["spec"]["nodeSelector"]["gpushare.io/pool"]
    return pool


@pytest.fixture
def logged(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.INFO, "gpushare")
    return caplog


async def test_nonsense_is_logged_once_a_second_at_most(logged: pytest.LogCaptureFixture) -> None:
    async with connected() as webhook:
        for _ in range(20):
            assert (await ask(webhook, "nonsense"))[0] == 400
    assert len(logged.records) == 1


SECRET = "password"


def fail(*_: object) -> None:
    raise RuntimeError(SECRET)


def expect_told_without_the_pod(logged: pytest.LogCaptureFixture) -> None:
    (record,) = logged.records
    assert "RuntimeError" in record.getMessage()
    assert SECRET not in record.getMessage()
    assert record.exc_info is None


async def test_a_failure_that_nobody_foresaw_tells_where_it_was_and_nothing_of_the_pod(
    logged: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(handler, "plan_patch", fail)
    metrics = Metrics()
    async with connected(build_webhook(metrics=metrics)) as webhook:
        status, text = await ask(webhook, build_review(build_gpu_pod()))
    assert (status, count(metrics, "InternalError")) == (500, 1)
    assert SECRET not in text
    expect_told_without_the_pod(logged)


async def test_an_answer_that_can_not_be_noted_is_given_all_the_same(
    logged: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(DecisionLog, "note", fail)
    metrics = Metrics()
    async with connected(build_webhook(metrics=metrics)) as webhook:
        status, _ = await ask(webhook, build_review(build_gpu_pod()))
        await until(lambda: logged.records)
    # As an internal error only what was not answered counts.
    assert (status, count(metrics, "InternalError")) == (200, None)
    expect_told_without_the_pod(logged)


def build_workload_review(kind: str = "deployments", **request: Any) -> Json:
    pod = build_gpu_pod(**request.pop("spec", {}))
    pod["metadata"] = request.pop("metadata", {})
    spec: Json = {"template": pod}
    workload = {"metadata": {"name": "work"}, "spec": spec}
    return build_review(
        workload, resource={"group": "apps", "version": "v1", "resource": kind}, **request
    )


async def warn(review: Json, server: AdmissionServer | None = None) -> list[str]:
    """The warnings about a workload, which is allowed as it is."""
    async with connected(server) as webhook:
        status, answer = await ask(webhook, review, WORKLOADS_PATH)
    assert status == 200, answer
    response = answer["response"]
    assert (response["allowed"], "patch" in response) == (True, False)
    warnings: list[str] = response.get("warnings", [])
    return warnings


@pytest.mark.parametrize(
    ("review", "pools", "told"),
    [
        (build_workload_review(), (TRAINING,), "pool training"),
        (build_workload_review(operation="UPDATE"), (TRAINING,), "pool training"),
        (
            build_workload_review(metadata={"annotations": REQUIRED}),
            (INFERENCE,),
            "IsolationUnavailable",
        ),
        (build_workload_review(), (), "The cluster has no pool"),
        (build_workload_review("daemonsets"), (TRAINING,), "pod's DaemonSet"),
        (build_workload_review(spec={"containers": [{"name": "main"}]}), (TRAINING,), None),
        (build_workload_review(operation="DELETE", object=None), (TRAINING,), None),
        (build_workload_review(subResource="scale"), (TRAINING,), None),
    ],
    ids=["new", "changed", "refused", "no pool", "DaemonSet", "no GPU", "deleted", "scaled"],
)
async def test_a_workload_is_told_what_becomes_of_its_pods(
    review: Json, pools: tuple[PoolView, ...], told: str | None
) -> None:
    warnings = await warn(review, build_webhook(build_memory(pools)))
    if told is None:
        assert warnings == []
    else:
        assert told in warnings[0]


async def test_what_a_workload_is_told_is_not_cut_by_the_api_server() -> None:
    pools = [replace(INFERENCE, name=f"inference-of-team-{number}") for number in range(40)]
    warnings = await warn(
        build_workload_review(metadata={"annotations": REQUIRED}),
        build_webhook(build_memory(pools)),
    )
    assert all(len(warning.encode()) <= MAX_WARNING for warning in warnings)


async def test_a_workload_gives_nothing_away() -> None:
    room = Room(free_blocks=((3, 1),), total=3, largest_card=3)
    pools = [replace(TRAINING, name=name, room=room, nodes=1) for name in ("a", "b")]
    server = build_webhook(build_memory(pools))
    assert [(await warn(build_workload_review(), server))[0] for _ in range(2)] == [
        "Pods of this workload will be assigned to pool a (cgpu)"
    ] * 2


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
