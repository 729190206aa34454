"""GPU requests for which the API server refuses a pod."""

from typing import Any

import pytest

from gpushare.api.k8s.gpu_request import find_invalid_requests
from gpushare.api.k8s.pod_shape import Spec, parse_pod_shape

MEMORY, WHOLE = "aliyun.com/gpu-mem", "nvidia.com/gpu"


def find_invalid(**resources: Any) -> list[str]:
    container = {"name": "main", "resources": resources}
    shape = parse_pod_shape({"spec": {"containers": [container]}})
    return list(find_invalid_requests(shape.spec or Spec()))


@pytest.mark.parametrize(
    "amount",
    ["0.5", 0.5, "-1", -1, "500m", "1e-1", ".5", "1n", "1.5", "three", "", "1_0", "٣", True, [3]],
)
@pytest.mark.parametrize("resource", [MEMORY, WHOLE])
def test_an_amount_must_be_a_whole_number_that_is_not_negative(amount: Any, resource: str) -> None:
    (told,) = find_invalid(limits={resource: amount})
    assert told.startswith(f"container main: {resource} is {amount}, but must be a whole number")


@pytest.mark.parametrize(
    "amount",
    ["3", 3, "0", "10G", "3Gi", "2000m", "1.0", "2e3", "0.5k", "+4", None, "2.5Ki", "1e40"],
)
def test_amounts_that_the_api_server_takes_are_valid(amount: Any) -> None:
    assert find_invalid(limits={MEMORY: amount}) == []


@pytest.mark.parametrize(
    ("resources", "words"),
    [
        ({"requests": {MEMORY: "3"}}, "requested (3) without a limit"),
        ({"limits": {MEMORY: "4"}, "requests": {MEMORY: "3"}}, "limit 4 and the request 3"),
        ({"limits": {MEMORY: "4"}, "requests": {MEMORY: "0.5"}}, "is 0.5"),
    ],
)
def test_the_request_must_be_the_limit(resources: Any, words: str) -> None:
    (told,) = find_invalid(**resources)
    assert words in told


@pytest.mark.parametrize(
    "resources",
    [
        {"limits": {MEMORY: "4"}},
        {"limits": {MEMORY: "2k"}, "requests": {MEMORY: "2000"}},
        {"limits": {"cpu": "0.5"}, "requests": {"cpu": "0.1", "memory": "1Gi"}},
    ],
    ids=["no request", "the same amount", "resources of Kubernetes itself"],
)
def test_other_requests_are_valid(resources: Any) -> None:
    assert find_invalid(**resources) == []


def test_init_containers_are_looked_at_too() -> None:
    invalid = {"name": "init", "resources": {"limits": {MEMORY: "-1"}}}
    spec = parse_pod_shape({"spec": {"containers": [], "initContainers": [invalid]}}).spec
    assert spec is not None
    assert [told.split(":")[0] for told in find_invalid_requests(spec)] == ["container init"]
