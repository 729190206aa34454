"""What the API server's own policy chose for a pod, before a webhook that knows better."""

import base64
from collections.abc import Callable
from copy import deepcopy
from typing import Any

import jsonpatch
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpushare import names
from gpushare.core.admission.pool_view import PoolView
from tests.kit.values.manifests import Json, build_gpu_pod, build_review, encode
from tests.kit.values.pool_views import a_view
from tests.kit.values.webhook_server import build_handler, build_memory

SPOT = {"key": "spot", "operator": "Exists", "effect": "NoSchedule"}
GPU = {"key": "gpu", "operator": "Exists"}
SEEN = {"key": "seen", "operator": "Exists"}
FULL = a_view("first", "share", priority=200, tolerations=(SPOT, GPU), room=None)
ROOMY = a_view("second", "share", tolerations=(GPU,))
POOLS = (FULL, ROOMY)


def choose(pod: Json, pool: PoolView) -> Json:
    """Return the pod as the policy leaves it after its choice of `pool`."""
    pod = record_author(pod)
    spec, metadata = pod["spec"], pod["metadata"]
    missing = {k: v for k, v in pool.binding if k not in spec.get("nodeSelector", {})}
    given = spec.get("tolerations", [])
    added = [dict(each) for each in pool.tolerations if each not in given]
    spec["nodeSelector"] = {**spec.get("nodeSelector", {}), **missing}
    if added:
        spec["tolerations"] = [*given, *added]
    metadata["annotations"] = {
        **metadata.get("annotations", {}),
        names.ANNOTATION_DECISION: write_mark(pool.name, [*missing], (len(given), len(added))),
    }
    return pod


def record_author(pod: Json) -> Json:
    """Return the pod with the API server's record of what was sent."""
    pod = deepcopy(pod)
    annotations: Json = {f"f:{key}": {} for key in pod["metadata"].get("annotations", {})}
    written = {"f:metadata": {"f:annotations": annotations}, "f:spec": {}}
    pod["metadata"]["managedFields"] = [{"manager": "someone", "fieldsV1": written}]
    return pod


def write_mark(pool: str, keys: Any, tolerations: Any) -> str:
    added = {"nodeSelector": keys, "tolerations": tolerations}
    mark = {"v": 1, "reason": "RoutedByPolicy", "pool": pool, "added": added}
    return orjson.dumps(mark).decode()


def admit(pod: Json, *pools: PoolView) -> Json:
    """Return the pod as it is stored after the webhook's answer."""
    handler = build_handler(build_memory(pools))
    answer = orjson.loads(handler.mutate_pod(encode(build_review(pod))).body)["response"]
    assert answer["allowed"]
    if "patch" not in answer:
        return pod
    written: Json = jsonpatch.apply_patch(pod, orjson.loads(base64.b64decode(answer["patch"])))
    return written


@st.composite
def pods(draw: st.DrawFn) -> Json:
    """A pod as the API server has it: what is empty is absent."""
    pod = build_gpu_pod()
    selector = draw(st.dictionaries(st.sampled_from(["zone", "a/b"]), st.just("x"), max_size=2))
    tolerations = draw(st.lists(st.sampled_from([SPOT, GPU, SEEN]), max_size=3))
    annotations = draw(st.dictionaries(st.sampled_from(["a", "b/c"]), st.text(), max_size=2))
    pod["spec"] |= {"nodeSelector": selector} if selector else {}
    pod["spec"] |= {"tolerations": tolerations} if tolerations else {}
    pod["metadata"] |= {"annotations": annotations} if annotations else {}
    return pod


@pytest.mark.hypothesis
@given(pod=pods(), chosen=st.sampled_from([*POOLS, a_view("third", selects_mode=True)]))
def test_a_pod_becomes_what_it_becomes_without_the_policy(pod: Json, chosen: PoolView) -> None:
    pools = {pool.name: pool for pool in (*POOLS, chosen)}.values()
    assert admit(choose(pod, chosen), *pools) == admit(record_author(pod), *pools)


def test_what_another_webhook_added_in_between_stays() -> None:
    pod = choose(build_gpu_pod(), FULL)
    pod["spec"]["tolerations"].append(SEEN)
    pod["spec"]["nodeSelector"]["zone"] = "a"
    written = admit(pod, *POOLS)
    assert written["spec"]["tolerations"] == [SEEN, GPU]
    assert written["spec"]["nodeSelector"] == {"zone": "a", names.LABEL_POOL: "second"}


@pytest.mark.parametrize(
    "mark",
    [
        write_mark("first", ["zone"], (0, 1)),
        write_mark("first", [names.LABEL_POOL], (-1, 99)),
        write_mark("second", [names.LABEL_POOL], (0, 0)),
        write_mark("first", "zone", (0, 1)),
        write_mark("first", ["zone"], (0, 1, 2)),
        write_mark("first", ["zone"], ("0", 1)),
        '{"reason": "RoutedByPolicy"}',
        "RoutedByPolicy",
    ],
)
def test_a_mark_takes_nothing_away_that_the_policy_does_not_add(
    mark: str,
) -> None:
    pod = build_gpu_pod(nodeSelector={"zone": "a", "gpushare.io/team": "b"}, tolerations=[SEEN])
    pod = record_author(pod)
    pod["metadata"]["annotations"] = {names.ANNOTATION_DECISION: mark}
    written = admit(pod, *POOLS)["spec"]
    assert written["nodeSelector"].items() >= pod["spec"]["nodeSelector"].items()
    assert SEEN in written["tolerations"]


def test_a_mark_of_one_pool_takes_no_selection_of_another_away() -> None:
    pod = record_author(build_gpu_pod(nodeSelector={names.LABEL_POOL: "first"}))
    mark = write_mark("second", [names.LABEL_POOL], (0, 0))
    pod["metadata"]["annotations"] = {names.ANNOTATION_DECISION: mark}
    assert admit(pod, *POOLS)["spec"]["nodeSelector"] == {names.LABEL_POOL: "first"}


@pytest.mark.parametrize("sent", [record_author, deepcopy], ids=["recorded", "not recorded"])
def test_a_mark_that_the_author_wrote_takes_no_selection_away_that_others_added(
    sent: Callable[[Json], Json],
) -> None:
    pod = build_gpu_pod()
    mark = write_mark("first", [names.LABEL_POOL], (0, 1))
    pod["metadata"]["annotations"] = {names.ANNOTATION_DECISION: mark}
    pod = sent(pod)
    # As an administrator's own policy does.
    pod["spec"] |= {"nodeSelector": {names.LABEL_POOL: "first"}, "tolerations": [SPOT]}
    written = admit(pod, *POOLS)["spec"]
    assert written["nodeSelector"] == {names.LABEL_POOL: "first"}
    assert written["tolerations"][0] == SPOT


def test_a_label_that_a_mark_names_twice_takes_no_other_away() -> None:
    pod = record_author(build_gpu_pod(nodeSelector={names.LABEL_POOL: "first", "zone": "a"}))
    pod["metadata"]["annotations"] = {
        names.ANNOTATION_DECISION: write_mark("first", [names.LABEL_POOL] * 2, (0, 0)),
        names.ANNOTATION_POOL: "none",
    }
    assert admit(pod, *POOLS)["spec"]["nodeSelector"] == {"zone": "a"}
