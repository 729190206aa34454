"""Builds kwokctl's command line and configuration, with the components' flags.

All measured with kwokctl 0.8 and Kubernetes 1.37 (``kwokctl create cluster --help``).
"""

from pathlib import Path
from typing import Any

from devcluster.ports import Ports

_HERE = Path(__file__).resolve().parent
STAGES = _HERE / "stages.yaml"
AUDIT_POLICY = _HERE / "audit-policy.yaml"
# One that loses its Lease in an outage ends, and here nobody starts it again.
_ALONE = {"leader-elect": "false"}
# A pod that the extender refuses, because it has not heard of a deleted pod or a new card yet, is
# tried again with the next event, and in a cluster where nothing happens after 5 minutes.
_TRIES_AGAIN = {"pod-max-in-unschedulable-pods-duration": "10s"}
_LOCAL = "127.0.0.1"
# KWOK plays a node only while it holds the node's Lease. One that comes back under its name at
# once loses the former's Lease to the garbage collector, and KWOK looks again a quarter of the
# Lease's duration later (50 s): until then no pod there starts or ends. So no Leases, and since
# they were the nodes' heartbeat, nobody waits for one.
_NO_LEASES = {"node-lease-duration-seconds": "0"}
_NO_HEARTBEAT = {"node-monitor-grace-period": "8760h"}
# The other nodes are devcluster.processnode's, which runs real processes.
_NOT_ALL_NODES = {"manage-all-nodes": "false"}
_OWN_NODES = {"manage-nodes-with-annotation-selector": "kwok.x-k8s.io/node=fake"}


API_SERVER_ADDRESS = "10.99.0.1"
"""Address of the API server for real nodes: that of the first node, whose network it shares."""
_SERVICE_ADDRESS = "10.0.0.1"
"""Address of the Service `kubernetes`: the first of kube-apiserver's default range."""


def build_kwokctl_configuration(ports: Ports, egress_configuration: Path) -> dict[str, Any]:
    """Build the components' flags for ``kwokctl --config``, for a cluster without real nodes.

    In a file, since kwokctl 0.8 mixes up a repeated ``--extra-args``. Everything listens on
    127.0.0.1; ``advertise-address`` stays unset, because a loopback address there ends the API
    server. Each controller has its own account, so that the audit log tells them apart.
    """
    apiserver = _patch(
        "kube-apiserver",
        {"bind-address": _LOCAL},
        extra={"egress-selector-config-file": str(egress_configuration)},
    )
    return _build_configuration(ports, apiserver, _NO_HEARTBEAT)


def build_real_node_configuration(ports: Ports, pki: Path) -> dict[str, Any]:
    """Build the flags of a control plane in the network of a real node, with its own kube-proxy.

    Pods and kubelets reach the API server by `API_SERVER_ADDRESS`. A node whose kubelet is silent
    is NotReady after 50 s, Kubernetes' default.
    """
    apiserver = {
        "advertise-address": API_SERVER_ADDRESS,
        "enable-admission-plugins": "NodeRestriction",
        "kubelet-client-certificate": str(pki / "admin.crt"),
        "kubelet-client-key": str(pki / "admin.key"),
        # Nothing resolves a node's name.
        "kubelet-preferred-address-types": "InternalIP",
    }
    return {
        **_build_configuration(
            ports,
            _patch("kube-apiserver", {"bind-address": "0.0.0.0"}, extra=apiserver),
            {"node-monitor-grace-period": "50s", "node-monitor-period": "5s"},
        ),
        "options": {"kubeApiserverCertSANs": [API_SERVER_ADDRESS, _SERVICE_ADDRESS]},
    }


def _build_configuration(
    ports: Ports, apiserver: dict[str, Any], heartbeat: dict[str, str]
) -> dict[str, Any]:
    client, peer = f"http://{_LOCAL}:{ports.etcd}", f"http://{_LOCAL}:{ports.etcd_peer}"
    return {
        "apiVersion": "config.kwok.x-k8s.io/v1alpha1",
        "kind": "KwokctlConfiguration",
        "componentsPatches": [
            _patch(
                "etcd",
                {
                    "listen-client-urls": client,
                    "advertise-client-urls": client,
                    "listen-peer-urls": peer,
                    "initial-advertise-peer-urls": peer,
                    "initial-cluster": f"node0={peer}",
                },
                # Nothing here outlives a crash of the machine.
                extra={"unsafe-no-fsync": "true"},
            ),
            apiserver,
            _patch(
                "kube-controller-manager",
                {"bind-address": _LOCAL, **heartbeat},
                extra={"use-service-account-credentials": "true", **_ALONE},
            ),
            _patch("kube-scheduler", {"bind-address": _LOCAL}, extra={**_ALONE, **_TRIES_AGAIN}),
            _patch(
                "kwok-controller",
                {"server-address": f"{_LOCAL}:{ports.kwok}", **_NOT_ALL_NODES, **_NO_LEASES},
                extra=_OWN_NODES,
            ),
        ],
    }


def build_egress_configuration(socket: str) -> dict[str, Any]:
    """Build the configuration by which the API server sends requests for Services and nodes to the
    unix `socket`, by HTTP CONNECT.

    There is no kube-proxy for Services here; devcluster.processnode listens at the socket and
    forwards connections. A webhook with a URL is called directly. Source: the Kubernetes
    documentation on konnectivity and EgressSelectorConfiguration.
    """
    connection = {"proxyProtocol": "HTTPConnect", "transport": {"uds": {"udsName": socket}}}
    return {
        "apiVersion": "apiserver.k8s.io/v1beta1",
        "kind": "EgressSelectorConfiguration",
        "egressSelections": [{"name": "cluster", "connection": connection}],
    }


def build_kwokctl_command(
    cluster_name: str,
    *,
    binaries: Path,
    ports: Ports,
    kubeconfig: Path,
    configuration: Path,
    scheduler_configuration: Path,
) -> list[str]:
    """Build the command that creates and starts the cluster, with all files and ports."""
    flags = {
        "name": cluster_name,
        "runtime": "binary",
        "kubeconfig": kubeconfig,
        "etcd-binary": binaries / "etcd",
        "kube-apiserver-binary": binaries / "kube-apiserver",
        "kube-controller-manager-binary": binaries / "kube-controller-manager",
        "kube-scheduler-binary": binaries / "kube-scheduler",
        "kwok-controller-binary": binaries / "kwok",
        "etcd-port": ports.etcd,
        "kube-apiserver-port": ports.apiserver,
        "kube-controller-manager-port": ports.controller_manager,
        "kube-scheduler-port": ports.scheduler,
        "controller-port": ports.kwok,
        "kube-audit-policy": AUDIT_POLICY,
        "kube-scheduler-config": scheduler_configuration,
    }
    command = [str(binaries / "kwokctl"), "create", "cluster", "--disable-qps-limits"]
    command += [f"--{flag}={value}" for flag, value in flags.items()]
    return [*command, f"--config={configuration}", f"--config={STAGES}"]


def _patch(
    component: str, replaced: dict[str, str], *, extra: dict[str, str] | None = None
) -> dict[str, Any]:
    arguments: list[dict[str, Any]] = [
        {"key": key, "value": value, "override": True} for key, value in replaced.items()
    ]
    arguments += [{"key": key, "value": value} for key, value in (extra or {}).items()]
    return {"name": component, "extraArgs": arguments}
