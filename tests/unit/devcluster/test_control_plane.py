"""What kwokctl is told, and which ports a cluster takes."""

import random
from pathlib import Path
from typing import Any

import pytest
import yaml

from devcluster import names
from devcluster.controlplane import (
    AUDIT_POLICY,
    STAGES,
    build_egress_configuration,
    build_kwokctl_command,
    build_kwokctl_configuration,
)
from devcluster.errors import ClusterError
from devcluster.nodes import build_gpu_node, build_process_node
from devcluster.ports import Ports, choose_ports

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


def test_the_audit_log_tells_the_controllers_apart() -> None:
    flags = component_flags()["kube-controller-manager"]
    assert flags["use-service-account-credentials"] == "true"


def test_nodes_neither_have_a_lease_nor_die_for_want_of_one() -> None:
    flags = component_flags()
    assert flags["kwok-controller"]["node-lease-duration-seconds"] == "0"
    assert flags["kube-controller-manager"]["node-monitor-grace-period"] == "8760h"


def test_kwok_leaves_the_nodes_alone_whose_pods_are_processes() -> None:
    flags = component_flags()["kwok-controller"]
    assert flags["manage-all-nodes"] == "false"
    assert flags["manage-nodes-with-annotation-selector"] == "kwok.x-k8s.io/node=fake"
    assert "kwok.x-k8s.io/node" in build_gpu_node("n1")["metadata"]["annotations"]
    assert "kwok.x-k8s.io/node" not in build_process_node("s1")["metadata"]["annotations"]


def test_what_the_api_server_has_for_services_goes_through_the_clusters_own_socket() -> None:
    flags = component_flags()["kube-apiserver"]
    assert flags["egress-selector-config-file"] == "/f/egress.yaml"
    (cluster,) = build_egress_configuration(PORTS.services)["egressSelections"]
    assert cluster["name"] == "cluster"
    assert cluster["connection"]["transport"]["uds"]["udsName"] == PORTS.services
    assert PORTS.services != Ports(21020).services


def test_kwokctl_is_left_no_file_to_find_and_no_port_to_choose() -> None:
    command = build_kwokctl_command(
        "devcluster-demo",
        binaries=Path("/b"),
        ports=PORTS,
        kubeconfig=Path("/f/kubeconfig"),
        configuration=Path("/f/kwokctl.yaml"),
        scheduler_configuration=Path("/f/scheduler.yaml"),
    )
    assert command[:3] == ["/b/kwokctl", "create", "cluster"]
    assert {
        "--kubeconfig=/f/kubeconfig",
        "--etcd-binary=/b/etcd",
        "--kwok-controller-binary=/b/kwok",
        "--kube-apiserver-port=21002",
        "--kube-scheduler-config=/f/scheduler.yaml",
        f"--kube-audit-policy={AUDIT_POLICY}",
        f"--config={STAGES}",
        "--disable-qps-limits",
    } <= set(command)


def test_the_audit_policy_keeps_every_write() -> None:
    rules = yaml.safe_load(AUDIT_POLICY.read_text())["rules"]
    assert rules == [{"level": "None", "nonResourceURLs": ["*"]}, {"level": "Metadata"}]


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


def test_kwok_leaves_a_node_not_ready_that_the_simulator_holds_so() -> None:
    [expression] = stage("node-initialize")["selector"]["matchExpressions"]
    assert expression["operator"] == "NotIn"
    assert "False" in expression["values"]


def test_a_cluster_takes_a_block_whose_ports_are_all_free() -> None:
    taken = set(range(21000, 29999, 40))
    ports = choose_ports(random.Random(1), free=lambda port: port not in taken)
    block = {ports.etcd, ports.etcd_peer, ports.apiserver, ports.controller_manager}
    block |= {ports.scheduler, ports.kwok, ports.simulator, ports.webhook, *ports.spare}
    assert len(block) == 20
    assert not block & taken


def test_a_machine_without_free_ports_says_what_to_end() -> None:
    with pytest.raises(ClusterError, match="cluster-down"):
        choose_ports(random.Random(1), free=lambda port: False)
