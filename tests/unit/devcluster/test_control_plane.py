"""What kwokctl is told, and which ports a cluster takes."""

from pathlib import Path
from typing import Any

import yaml

from devcluster import names
from devcluster.controlplane import (
    STAGES,
    build_kwokctl_configuration,
)
from devcluster.ports import Ports

PORTS = Ports(21000)


def component_flags() -> dict[str, dict[str, str]]:
    patches = build_kwokctl_configuration(PORTS, Path("/f/egress.yaml"))["componentsPatches"]
    return {
        patch["name"]: {item["key"]: item["value"] for item in patch["extraArgs"]}
        for patch in patches
    }


def stage(name: str) -> dict[str, Any]:
    stages = {item["metadata"]["name"]: item for item in yaml.safe_load_all(STAGES.read_text())}
    spec: dict[str, Any] = stages[name]["spec"]
    return spec


def test_every_component_listens_on_this_machine_only() -> None:
    flags = component_flags()
    for component in ("kube-apiserver", "kube-controller-manager", "kube-scheduler"):
        assert flags[component]["bind-address"] == "127.0.0.1"
    assert flags["kwok-controller"]["server-address"] == "127.0.0.1:21005"
    assert flags["etcd"]["listen-client-urls"] == "http://127.0.0.1:21000"
    assert flags["etcd"]["listen-peer-urls"] == "http://127.0.0.1:21001"


def test_kwok_leaves_marked_pods_and_gpu_pods_to_the_simulator() -> None:
    left_out = {
        item["key"]
        for item in stage("pod-ready")["selector"]["matchExpressions"]
        if item["operator"] == "DoesNotExist"
    }
    resources = (names.GPU_MEM, names.GPU_CORE, names.TOPOLOGY_CARD, names.WHOLE_CARD)
    assert left_out >= {
        f'.metadata.annotations["{names.PLAYED}"]',
        *(f'.spec.containers.[].resources.limits["{resource}"]' for resource in resources),
    }
