"""Builds the configurations of a node's kubelet and kube-proxy."""

from typing import Any


def build_kubelet_configuration(*, cgroup: str, address: str, client_ca: str) -> dict[str, Any]:
    """Build the KubeletConfiguration of a node at `address` with the pods' cgroup `/CGROUP`.

    The kubelet runs under cgroups of version 1, never evicts for lack of disk, and keeps images.
    """
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "address": address,
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True},
            "x509": {"clientCAFile": client_ca},
        },
        "authorization": {"mode": "Webhook"},
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": f"/{cgroup}",
        # Without an address each pod is told that its DNS is missing; nothing here asks it.
        "clusterDNS": ["10.0.0.10"],
        "clusterDomain": "cluster.local",
        "containerRuntimeEndpoint": "unix:///run/containerd/containerd.sock",
        "enforceNodeAllocatable": ["pods"],
        "evictionHard": {"memory.available": "50Mi", "nodefs.available": "1%"},
        "failCgroupV1": False,
        "failSwapOn": False,
        "imageGCHighThresholdPercent": 100,
        "imageGCLowThresholdPercent": 99,
        "resolvConf": "",
    }


def build_kube_proxy_configuration(*, kubeconfig: str, node: str, pods: str) -> dict[str, Any]:
    """Build the KubeProxyConfiguration of `node`; `pods` is the CIDR of all pods."""
    return {
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "mode": "nftables",
        "clientConnection": {"kubeconfig": kubeconfig},
        "clusterCIDR": pods,
        # The machine's limits are not ours to set.
        "conntrack": {"maxPerCore": 0, "min": 0},
        "hostnameOverride": node,
    }
