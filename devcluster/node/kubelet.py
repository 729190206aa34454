"""Builds the configurations of a node's kubelet and kube-proxy, and writes their kubeconfigs."""

from pathlib import Path
from typing import Any

import yaml

from devcluster.node.namespaces import run_command

_DAYS = 30
"""Lifetime of a client certificate."""


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


def write_kubeconfig(path: Path, *, pki: Path, server: str, user: str, group: str = "") -> Path:
    """Write a kubeconfig for `user`, in `group`, with a client certificate of the CA in `pki`."""
    key, certificate = path.with_suffix(".key"), path.with_suffix(".crt")
    subject = f"/O={group}/CN={user}" if group else f"/CN={user}"
    new_key = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
    request = run_command(
        ["openssl", "req", "-new", *new_key, "-keyout", str(key), "-subj", subject]
    )
    authority = ("-CA", str(pki / "ca.crt"), "-CAkey", str(pki / "ca.key"), "-set_serial", "1")
    signed = ["openssl", "x509", "-req", *authority, "-days", str(_DAYS)]
    certificate.write_text(run_command(signed, stdin=request))
    cluster = {"server": server, "certificate-authority": str(pki / "ca.crt")}
    credentials = {"client-certificate": str(certificate), "client-key": str(key)}
    kubeconfig = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "cluster", "cluster": cluster}],
        "users": [{"name": user, "user": credentials}],
        "contexts": [{"name": "node", "context": {"cluster": "cluster", "user": user}}],
        "current-context": "node",
    }
    path.write_text(yaml.safe_dump(kubeconfig))
    return path
