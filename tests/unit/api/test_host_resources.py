"""CPU and memory that nodes have and pods request."""

from math import inf
from typing import Any

import pytest

from gpushare.api.k8s.gpu_request import count_host_requests
from gpushare.api.k8s.node import parse_node
from gpushare.api.k8s.pod import parse_pod
from gpushare.api.k8s.pod_shape import Spec, parse_pod_shape
from gpushare.api.k8s.resources.host import HostResources
from tests.kit.values.manifests import build_pod


def container(cpu: Any = None, memory: Any = None, **more: Any) -> dict[str, Any]:
    asked = {"cpu": cpu, "memory": memory}
    return {"name": "c", "resources": {"requests": {k: v for k, v in asked.items() if v}}, **more}


def count(*running: Any, starting: Any = ()) -> HostResources:
    shape = parse_pod_shape({"spec": {"containers": running, "initContainers": starting}})
    return count_host_requests(shape.spec or Spec())


@pytest.mark.parametrize(
    ("allocatable", "host"),
    [
        ({"cpu": "7910m", "memory": "31811816Ki"}, (7910, 31)),
        ({"cpu": "8", "memory": "32Gi"}, (8000, 32)),
        ({"cpu": 8, "memory": 34359738368}, (8000, 32)),
        ({}, (inf, inf)),
        ({"cpu": "many", "memory": None}, (inf, inf)),
    ],
)
def test_a_node_has_what_it_tells_of(allocatable: dict[str, Any], host: tuple[float, ...]) -> None:
    node = {"metadata": {"name": "n", "uid": "u"}, "status": {"allocatable": allocatable}}
    assert parse_node(node).host == host


def test_containers_run_together() -> None:
    assert count(container("500m", "1536Mi"), container("2", "512Mi"), container()) == (2500, 2)


def test_init_containers_count_where_they_need_more_than_what_runs_later() -> None:
    sidecar = container("1", "1Gi", restartPolicy="Always")
    assert count(container("1"), starting=[container("100000", "3Gi")]) == (10**8, 3)
    assert count(container("1"), starting=[sidecar, container("4")]) == (5000, 1)


def test_only_pods_that_wait_for_shared_gpu_are_looked_at() -> None:
    for units, node, host in ((4, None, (2000, 0)), (4, "n1", (0, 0)), (0, None, (0, 0))):
        raw = build_pod("p", gib=units, nodeName=node, nodeSelector={"gpushare.io/pool": "a"})
        raw["metadata"] |= {"uid": "u", "namespace": "default"}
        resources = raw["spec"]["containers"][0].setdefault("resources", {})
        resources.setdefault("requests", {})["cpu"] = "2"
        pod = parse_pod(raw, plugin_namespaces=())
        assert pod is not None
        assert pod.host == host
