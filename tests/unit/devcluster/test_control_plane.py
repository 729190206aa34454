"""What kwokctl is told."""

from pathlib import Path

from devcluster.controlplane import build_kwokctl_configuration
from devcluster.ports import Ports


def test_every_component_listens_on_this_machine_only() -> None:
    configuration = build_kwokctl_configuration(Ports(21000), Path("/f/egress.yaml"))
    flags = {
        patch["name"]: {item["key"]: item["value"] for item in patch["extraArgs"]}
        for patch in configuration["componentsPatches"]
    }
    for component in ("kube-apiserver", "kube-controller-manager", "kube-scheduler"):
        assert flags[component]["bind-address"] == "127.0.0.1"
    assert flags["kwok-controller"]["server-address"] == "127.0.0.1:21005"
    assert flags["etcd"]["listen-client-urls"] == "http://127.0.0.1:21000"
    assert flags["etcd"]["listen-peer-urls"] == "http://127.0.0.1:21001"
