"""What the answers to an eviction mean; the bodies are those of a kube-apiserver 1.37."""

from contextlib import suppress
from typing import Any

import orjson
import pytest
from aiohttp import web

from gpushare.core.snapshot.actions import NamedPod
from gpushare.kube.errors import CALL_FAILURES, ApiError, EvictionRefusedError
from gpushare.kube.resources.pods import evict_pod
from tests.kit.values.fake_api import served_by

POD = NamedPod("ml", "train-1", "uid-1")
VIOLATED = "Cannot evict pod as it would violate the pod's disruption budget."
HEALTHY = "The disruption budget one needs 1 healthy pods and has 1 currently"
TWO_BUDGETS = "This pod has more than one PodDisruptionBudget, which the eviction subresource"
DENIED = 'admission webhook "kept.example.com" denied the request: it is being migrated'
UNANSWERED = 'Internal error occurred: failed calling webhook "kept.example.com": EOF'
BACK_IN_TEN = {"Retry-After": "10"}
FORBIDDEN = 'pods "train-1" is forbidden: cannot create resource "pods/eviction"'


def a_refusal(code: int, message: str, *causes: str, **more: Any) -> web.Response:
    listed = [{"reason": "DisruptionBudget", "message": cause} for cause in causes]
    body = {"kind": "Status", "message": message, "code": code, "details": {"causes": listed}}
    return web.Response(status=code, body=orjson.dumps(body), **more)


async def evict(response: web.Response) -> bool:
    async def answer(request: web.Request) -> web.Response:
        return response

    async with served_by(answer) as api:
        return await evict_pod(api, POD)


async def test_just_this_pod_is_evicted() -> None:
    asked: list[tuple[str, str, Any]] = []

    async def answer(request: web.Request) -> web.Response:
        asked.append((request.method, request.path, orjson.loads(await request.read())))
        return web.json_response({"kind": "Status", "status": "Success"}, status=201)

    async with served_by(answer) as api:
        assert await evict_pod(api, POD)
    ((method, path, body),) = asked
    assert (method, path) == ("POST", "/api/v1/namespaces/ml/pods/train-1/eviction")
    assert (body["apiVersion"], body["kind"]) == ("policy/v1", "Eviction")
    assert body["deleteOptions"] == {"preconditions": {"uid": "uid-1"}}


@pytest.mark.parametrize("code", [404, 409])
async def test_a_pod_that_is_gone_or_was_replaced_is_no_failure(code: int) -> None:
    assert not await evict(a_refusal(code, "no such pod"))


@pytest.mark.parametrize(
    ("response", "sentence"),
    [
        (a_refusal(429, VIOLATED, HEALTHY), HEALTHY),
        (a_refusal(429, VIOLATED, ""), VIOLATED),
        (a_refusal(403, "forbidden", "too many pending evictions"), "too many pending evictions"),
        (a_refusal(500, TWO_BUDGETS), TWO_BUDGETS),
        (a_refusal(403, FORBIDDEN), FORBIDDEN),
        (a_refusal(429, VIOLATED, HEALTHY, headers=BACK_IN_TEN), HEALTHY),
        (a_refusal(429, DENIED), DENIED),
        (a_refusal(429, DENIED, headers=BACK_IN_TEN), DENIED),
        (a_refusal(503, DENIED), DENIED),
        (a_refusal(500, UNANSWERED), UNANSWERED),
        (a_refusal(429, "a proxy keeps it"), "a proxy keeps it"),
    ],
    ids=[
        *("budget used up", "budget without a word", "budget ill", "two budgets", "no right"),
        *("budget not counted yet", "webhook, 429", "webhook that says when", "webhook, 503"),
        *("webhook that does not answer", "429 of nobody that is overloaded"),
    ],
)
async def test_a_pod_that_must_stay_is_named_with_who_keeps_it(
    response: web.Response, sentence: str
) -> None:
    with pytest.raises(EvictionRefusedError, match=r"pod ml/train-1 was refused") as raised:
        await evict(response)
    assert sentence in str(raised.value)
    assert not isinstance(raised.value, CALL_FAILURES)


@pytest.mark.parametrize("code", [401, 429, 503])
async def test_an_api_server_in_trouble_refuses_no_pod(code: int) -> None:
    with pytest.raises(ApiError, match="busy"):
        await evict(a_refusal(code, "busy", headers=BACK_IN_TEN))


@pytest.mark.parametrize(
    ("response", "waits"),
    [
        (a_refusal(429, VIOLATED, HEALTHY, headers=BACK_IN_TEN), False),
        (a_refusal(429, DENIED, headers=BACK_IN_TEN), False),
        # Flow control's answer is plain text.
        (
            web.Response(
                status=429, text="Too many requests, please try again later.", headers=BACK_IN_TEN
            ),
            True,
        ),
    ],
    ids=["budget", "webhook", "flow control"],
)
async def test_only_an_overloaded_api_server_holds_other_writes_back(
    response: web.Response, waits: bool
) -> None:
    async def answer(request: web.Request) -> web.Response:
        return response

    async with served_by(answer) as api:
        with suppress(ApiError, EvictionRefusedError):
            await evict_pod(api, POD)
        assert bool(api._throttle._closed_until) is waits
