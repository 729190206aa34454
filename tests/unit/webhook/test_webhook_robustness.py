"""Whatever comes in, the webhook neither fails nor tells its insides, nor what came in."""

import asyncio
import base64
import logging
import os
from collections.abc import Sequence
from io import BytesIO
from typing import Any

import jsonpatch
import orjson
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gpushare.webhook import cache as cache_module
from gpushare.webhook.server import PODS_PATH, WORKLOADS_PATH
from tests.kit.values.manifests import (
    build_affinity,
    build_container,
    build_gpu_pod,
    build_review,
    encode,
    list_places,
    put_at,
)
from tests.kit.values.webhook_server import build_webhook
from tests.unit.webhook.webhook_client import connected, crowded

EXAMPLES = int(os.environ.get("GPUSHARE_REVIEWS", "0"))
"""By `make fuzz`: so many new reviews; else the same few every time."""
SECRET = "hunter2"
"""What a container is told: no answer and no log line may repeat it."""

pytestmark = pytest.mark.timeout(600 + EXAMPLES)

fuzzing = settings(
    max_examples=EXAMPLES or 25, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
paths = st.sampled_from([PODS_PATH, WORKLOADS_PATH])


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache_module, "NAMESPACE_SECONDS", 0.0)


def post_all(path: str, bodies: Sequence[bytes]) -> list[tuple[int, bytes]]:
    async def post() -> list[tuple[int, bytes]]:
        answers = []
        async with connected() as webhook:
            for body in bodies:
                async with webhook.post(path, data=BytesIO(body)) as response:
                    answers.append((response.status, await response.read()))
        return answers

    return asyncio.run(post())


def expect_fair(body: bytes, status: int, answer: bytes) -> None:
    """A refusal in a sentence, or a review whose patch can be applied to what was asked about."""
    assert b"Traceback" not in answer
    assert SECRET.encode() not in answer
    if status != 200:
        # A namespace that was made up is unknown.
        assert status in (400, 413, 503)
        return
    request = orjson.loads(body)["request"]
    review = orjson.loads(answer)
    response = review.pop("response")
    assert review == {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview"}
    assert response["uid"] == request["uid"]
    assert isinstance(response["allowed"], bool)
    assert all(len(warning.encode()) <= 256 for warning in response.get("warnings", []))
    if "patch" in response:
        patch = orjson.loads(base64.b64decode(response["patch"]))
        jsonpatch.apply_patch(request["object"], patch)


junk = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=4)
    | st.sampled_from(["", "0", "-1", "1e9", "3Gi", "~1", "training", "Exists"]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=4,
)


def build_full_review() -> dict[str, Any]:
    """A review in which every field is said that a decision depends on."""
    pod = build_gpu_pod(
        containers=[
            build_container(memory="3", env={"CGPU_DISABLE": "true", "PASSWORD": SECRET}),
            build_container("other", env={"NVIDIA_VISIBLE_DEVICES": "all"}),
        ],
        initContainers=[build_container("init", core="20")],
        nodeSelector={"zone": "a"},
        tolerations=[{"key": "spot", "operator": "Exists"}],
        affinity=build_affinity("zone"),
        schedulingGates=[{"name": "example.com/gate"}],
        schedulerName="default-scheduler",
    )
    pod["metadata"].update(
        labels={"app": "x", "aliyun.com/gpu-count": "1"},
        annotations={
            "gpushare.io/isolation": "none",
            "gpushare.io/pool": "inference",
            "gpushare.io/decision": '{"pool":"inference"}',
            "gpushare.io/inject": "enabled",
        },
        ownerReferences=[{"kind": "ReplicaSet", "name": "x", "controller": True}],
    )
    return build_review(pod)


def build_full_workload_review() -> dict[str, Any]:
    pod = build_full_review()["request"]["object"]
    workload = {
        "metadata": {"labels": {"kueue.x-k8s.io/queue-name": "team"}},
        "spec": {"jobTemplate": {"metadata": {"labels": {}}, "spec": {"template": pod}}},
    }
    resource = {"group": "batch", "version": "v1", "resource": "cronjobs"}
    return build_review(workload, resource=resource)


BUILDERS = {PODS_PATH: build_full_review, WORKLOADS_PATH: build_full_workload_review}


def replace_at(review: Any, place: tuple[Any, ...], value: Any) -> bytes:
    put_at(review, place, value)
    return encode(review)


@pytest.mark.parametrize("path", BUILDERS)
def test_the_full_review_is_answered(path: str) -> None:
    ((status, answer),) = post_all(path, [encode(BUILDERS[path]())])
    assert status == 200
    assert orjson.loads(answer)["response"]["allowed"]


@pytest.mark.parametrize("path", BUILDERS)
@fuzzing
@given(data=st.data())
def test_junk_in_any_place_of_a_review_is_answered_or_refused(
    path: str, data: st.DataObject, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    build = BUILDERS[path]
    places = st.sampled_from(list_places(build()))
    replacements = data.draw(st.lists(st.tuples(places, junk), min_size=1, max_size=12))
    bodies = [replace_at(build(), place, value) for place, value in replacements]
    for body, (status, answer) in zip(bodies, post_all(path, bodies), strict=True):
        expect_fair(body, status, answer)
    assert SECRET not in caplog.text


@pytest.mark.parametrize("path", BUILDERS)
@pytest.mark.parametrize("value", [None, [], {}, "", 7, True, "x" * 300, [None], {"": None}])
def test_every_field_may_be_of_any_kind(path: str, value: Any) -> None:
    build = BUILDERS[path]
    bodies = [replace_at(build(), place, value) for place in list_places(build())]
    for body, (status, answer) in zip(bodies, post_all(path, bodies), strict=True):
        expect_fair(body, status, answer)


@pytest.mark.parametrize(
    "body",
    [
        encode(build_full_review()).replace(b'"3"', b"NaN"),
        encode(build_full_review()).replace(b'"3"', b"1e999"),
        encode(build_full_review()).replace(b'"3"', b"9" * 5000),
        encode(build_full_review()).replace(b'"zone"', b'"\\ud800"'),
        encode(build_full_review()).replace(b'"zone"', b'"\\u0000"'),
        encode(build_full_review()).replace(b'"3"', b"[" * 1020 + b"]" * 1020),
        encode(build_full_review()).replace(b'"dryRun":', b'"uid":"twice","dryRun":'),
        encode(build_full_review()).replace(b'"spec":', b'"spec":[],"spec":'),
        b"\xef\xbb\xbf" + encode(build_full_review()),
        encode(build_full_review()) * 2,
        encode(build_full_review())[:-1],
        b" " * 2**20 + encode(build_full_review()),
    ],
    ids=range(12),
)
def test_json_at_its_edges_is_answered_or_refused(body: bytes) -> None:
    ((status, answer),) = post_all(PODS_PATH, [body])
    assert status in (200, 400)
    assert b"Traceback" not in answer


POST = b"POST /mutate-pods HTTP/1.1\r\nHost: x\r\n"


@pytest.mark.parametrize(
    "request_bytes",
    [
        b"",
        b"\x16\x03\x01",
        b"POST\r\n\r\n",
        b"BREW /mutate-pods HTTP/1.1\r\nHost: x\r\n\r\n",
        b"POST http://[ HTTP/1.1\r\n\r\n",
        POST + b"Content-Length: -1\r\n\r\n",
        POST + b"Content-Length: 99999999999\r\n\r\n",
        POST + b"Content-Length: 9\r\n\r\n{}",
        POST + b"Transfer-Encoding: chunked\r\n\r\nhunter2\r\n",
        POST + b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}hunter2",
        POST + b"Content-Encoding: gzip\r\nContent-Length: 2\r\n\r\n{}",
        POST + b"X: " + b"x" * 10_000 + b"\r\n\r\n",
    ],
    ids=range(12),
)
async def test_what_is_hardly_http_makes_it_neither_fail_nor_talk(
    request_bytes: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "gpushare")
    caplog.set_level(logging.DEBUG, "aiohttp")
    async with crowded(build_webhook()) as (crowd, _):
        reader, writer = await crowd.open()
        writer.write(request_bytes)
        # TLS knows no half-closed connection: the request after it ends what is left.
        writer.write(b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        answer = await reader.read()
    assert b"Traceback" not in answer
    assert SECRET not in caplog.text
    assert "Traceback" not in caplog.text
