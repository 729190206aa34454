"""Whatever comes in, the webhook neither fails nor tells its insides."""

import asyncio
import base64
from collections.abc import Sequence
from typing import Any

import jsonpatch
import orjson
from aiohttp.test_utils import TestClient, TestServer
from hypothesis import given, settings
from hypothesis import strategies as st

from gpushare.api.pool import Schedule
from gpushare.core.admission import PoolView
from gpushare.observe.metrics import Metrics
from gpushare.webhook.server import PATH, build_app
from tests.kit.reviews import build_affinity, build_container, build_gpu_pod, build_review, encode

POOLS = (PoolView("inference", Schedule.SHARE, 100), PoolView("training", Schedule.CGPU, 100))


async def post_all(bodies: Sequence[bytes]) -> list[tuple[int, bytes]]:
    app = build_app(lambda: POOLS, Metrics())
    async with TestClient(TestServer(app)) as webhook:
        answers = []
        for body in bodies:
            async with webhook.post(PATH, data=body) as response:
                answers.append((response.status, await response.read()))
        return answers


@settings(max_examples=25, deadline=None)
@given(st.lists(st.binary(max_size=64), min_size=1, max_size=8))
def test_no_bytes_whatever_make_it_fail(bodies: list[bytes]) -> None:
    for status, answer in asyncio.run(post_all(bodies)):
        assert status == 400
        assert b"Traceback" not in answer


junk = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=4,
)


def build_full_review() -> dict[str, Any]:
    pod = build_gpu_pod(
        containers=[build_container(memory="3", env={"CGPU_DISABLE": "true"})],
        initContainers=[build_container("init", core="20")],
        nodeSelector={"zone": "a"},
        affinity=build_affinity("zone"),
    )
    pod["metadata"].update(
        annotations={"gpushare.io/isolation": "none"},
        ownerReferences=[{"kind": "ReplicaSet", "name": "x", "controller": True}],
    )
    return build_review(pod)


def list_paths(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every place in a JSON document, as keys and indices."""
    inner: Any = ()
    if isinstance(value, dict):
        inner = value.items()
    elif isinstance(value, list):
        inner = enumerate(value)
    paths = [path] if path else []
    for key, child in inner:
        paths += list_paths(child, (*path, key))
    return paths


@settings(max_examples=25, deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from(list_paths(build_full_review())), junk), min_size=1, max_size=12
    )
)
def test_junk_in_any_place_of_a_review_is_answered_or_refused(
    replacements: list[tuple[tuple[Any, ...], Any]],
) -> None:
    bodies = []
    for path, value in replacements:
        review: Any = build_full_review()
        target = review
        for key in path[:-1]:
            target = target[key]
        target[path[-1]] = value
        bodies.append(encode(review))
    for body, (status, answer) in zip(bodies, asyncio.run(post_all(bodies)), strict=True):
        assert status in (200, 400)
        if status == 200:
            response = orjson.loads(answer)["response"]
            patch = orjson.loads(base64.b64decode(response.get("patch", "W10=")))
            jsonpatch.apply_patch(orjson.loads(body)["request"]["object"], patch)
