"""No pod is refused because of the policy: whatever it is, and whatever the table says."""

import os
from collections.abc import Iterator, Mapping
from random import Random
from secrets import token_hex
from typing import Any

import pytest

from devcluster.apiserver import ApiError
from gpushare import names
from gpushare.core.admission.pool_view import PoolView
from tests.integration.policy.policy_bench import PolicyBench, read_decision
from tests.integration.policy.random_pods import draw_pod
from tests.integration.policy.random_pools import NAMESPACES, draw_odd_spec, draw_pools
from tests.kit.values.manifests import IMAGE, build_container, build_pod, build_preference
from tests.kit.values.pool_views import a_labelled_view

Json = dict[str, Any]
PODS = int(os.environ.get("GPUSHARE_POLICY_PODS", "0"))
SEED = token_hex(4) if PODS else "bad-input"
PODS_PER_TABLE = 50
LIMIT = 256 * 1024
"""Of all annotations, in bytes (`TotalAnnotationSizeLimitB` of Kubernetes)."""

pytestmark = pytest.mark.timeout(300 + PODS // 5)


def _find_faults(policy: PolicyBench, *, is_odd: bool) -> Iterator[str]:
    spaces = list(map(policy.add_namespace, NAMESPACES))
    for number in range((PODS or 300) // PODS_PER_TABLE):
        chance = Random(f"{SEED}-{number}")
        policy.write_table(draw_pools(chance))
        if is_odd:
            policy.write_odd_spec(draw_odd_spec(chance))
        pods = [(chance.choice(spaces), draw_pod(chance)) for _ in range(PODS_PER_TABLE)]
        for (_, pod), answer in zip(pods, policy.create_all(pods), strict=True):
            if isinstance(answer, ApiError) and "policy 'gpushare-pools'" in str(answer):
                yield f"{SEED}-{number}: {pod}\n{answer}"


@pytest.mark.parametrize("is_odd", [False, True], ids=["a table", "an odd table"])
def test_nothing_that_a_pod_may_be_is_an_error_in_the_policy(
    policy: PolicyBench, *, is_odd: bool
) -> None:
    with policy.strict():
        faults = list(_find_faults(policy, is_odd=is_odd))
    assert not faults, f"{len(faults)} times, first\n{faults[0]}"


def _note(size: int, key: str = "note", *, text: str = "x") -> Json:
    """A pod whose annotations have so many bytes, of any number of bytes to a character."""
    return build_pod("p", annotations={key: text * ((size - len(key)) // len(text.encode()))})


def _repeat(container: Json, several: int) -> list[Json]:
    return [container | {"name": f"c{number}"} for number in range(several)]


def _avoid(terms: int, requirements: int, values: int) -> Json:
    listed = [
        {"key": f"key-{number}", "operator": "NotIn", "values": [f"v{n}" for n in range(values)]}
        for number in range(requirements)
    ]
    every = [{"matchExpressions": listed}] * terms
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": every}}
    return build_pod("p", affinity={"nodeAffinity": required})


def _prefer(several: int) -> Json:
    wish = build_preference((1, "zone", "In", "a"))["nodeAffinity"]
    preferred = "preferredDuringSchedulingIgnoredDuringExecution"
    return build_pod("p", affinity={"nodeAffinity": {preferred: wish[preferred] * several}})


def _own(several: int) -> Json:
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "x"}
    pod = build_pod("p")
    pod["metadata"]["ownerReferences"] = [owner | {"uid": f"u{n}"} for n in range(several)]
    return pod


def _ask(**container: Any) -> Json:
    return build_container(memory="1") | {"image": IMAGE} | container


_SILENT = {"image": IMAGE}
_MANY = range(5000)
LARGE: Mapping[str, Json] = {
    "thousands of annotations": build_pod("p", annotations={f"a/{n}": "x" * 40 for n in _MANY}),
    "annotations with space for a decision": _note(LIMIT - 2500),
    "thousands of labels": build_pod("p", labels={f"l/{n}": "x" for n in _MANY}),
    "thousands of variables": build_pod("p", env={f"V{n}": "x" * 200 for n in _MANY}),
    "a variable a thousand times": build_pod(
        "p", containers=[_ask(env=[{"name": "CGPU_DISABLE", "value": "true"}] * 1000)]
    ),
    "a thousand containers that ask": build_pod("p", containers=_repeat(_ask(), 1000)),
    "thousands of init containers": build_pod("p", initContainers=_repeat(_SILENT, 5000)),
    "thousands of tolerations": build_pod(
        "p", tolerations=[{"key": f"k{n}", "operator": "Exists"} for n in _MANY]
    ),
    "fifty requirements": _avoid(10, 5, 1),
    "thousands of preferences": _prefer(5000),
    "thousands of owners": _own(5000),
    "thousands of gates": build_pod("p", schedulingGates=[{"name": f"g/{n}"} for n in _MANY]),
    "1.5 MiB of arguments": build_pod("p", containers=[_ask(args=["x" * 1024 * 1536])]),
    "3 MB of arguments": build_pod("p", containers=[_ask(args=["x" * 3_000_000])]),
}
UNDECIDED: Mapping[str, Json] = {
    "annotations without space for a decision": _note(LIMIT - 2000),
    "annotations at the limit": _note(LIMIT),
    "annotations at the limit, of four bytes a character": _note(LIMIT, text="𝄞"),
    "a decision as long as may be": _note(LIMIT, names.ANNOTATION_DECISION),
    "an isolation as long as may be": _note(LIMIT, names.ANNOTATION_ISOLATION),
    "a pool's name as long as may be": _note(LIMIT, names.ANNOTATION_POOL),
    "thousands of containers, none of which asks": build_pod(
        "p", containers=_repeat(_SILENT, 5000)
    ),
    "fifty requirements of a thousand values, which no node meets": _avoid(10, 5, 1000),
    "a requirement of thousands of values, which no node meets": _avoid(1, 1, 20_000),
    "thousands of requirements": _avoid(5000, 1, 1),
    "thousands of selected labels": build_pod("p", selects={f"k{n}": "v" for n in _MANY}),
}
"""Those that get no pool."""


def _build_pools() -> list[PoolView]:
    nodes = [{f"key-{key}": f"v{kind}" for key in range(5)} for kind in range(8)]
    tolerations = tuple({"key": f"t{n}", "operator": "Exists"} for n in range(20))
    return [
        a_labelled_view(f"pool-{n}", *nodes, schedule="share", tolerations=tolerations, room=None)
        for n in range(20)
    ]


def test_a_large_pod_is_created_as_it_would_be_without_the_policy(policy: PolicyBench) -> None:
    policy.write_table(_build_pools())
    left_alone = policy.add_namespace({names.LABEL_INJECT: "disabled"})
    space = policy.add_namespace({})
    assert _list_undecided(policy, left_alone) == {*LARGE, *UNDECIDED}
    assert _list_undecided(policy, space) == UNDECIDED.keys()


def test_the_policy_can_be_evaluated_for_a_large_pod(policy: PolicyBench) -> None:
    space = policy.add_namespace({})
    with policy.strict():
        policy.write_table(_build_pools())
        assert _list_undecided(policy, space) == UNDECIDED.keys()


def _list_undecided(policy: PolicyBench, space: str) -> set[str]:
    """Create all of the pods, and list those that the policy gives no pool. Raises ApiError where
    one is refused."""
    pods = {**LARGE, **UNDECIDED}
    return {name for name, pod in pods.items() if not read_decision(policy.create(space, pod))}
