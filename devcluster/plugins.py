"""Builds plugins that are in no edition's manifests: ACK's older one, NVIDIA's, and HAMi's."""

import uuid
from collections.abc import Mapping
from typing import Any

from devcluster import names

_PLUGINS_FOLDER = "/var/lib/kubelet/device-plugins"


def build_static_plugin(node: str, node_uid: str) -> dict[str, Any]:
    """Build the mirror pod of ACK's whole-card plugin up to Kubernetes 1.31, a static pod.

    The annotation ``sim.devcluster/static-plugin: "true"`` of a node stands for the manifest: the
    simulator then creates this pod, also after its deletion, which restarts nothing. Without the
    annotation the plugin runs for as long as the pod exists.
    """
    config_hash = uuid.uuid5(uuid.NAMESPACE_DNS, f"{names.STATIC_PLUGIN_POD}.{node}").hex
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": f"{names.STATIC_PLUGIN_POD}-{node}",
            "namespace": names.SYSTEM_NAMESPACE,
            "labels": {"component": names.STATIC_PLUGIN_POD},
            "annotations": {
                names.PLAYED: "true",
                names.CONFIG_HASH: config_hash,
                names.CONFIG_MIRROR: config_hash,
                names.CONFIG_SOURCE: "file",
            },
            "ownerReferences": [
                {
                    "apiVersion": "v1",
                    "kind": "Node",
                    "name": node,
                    "uid": node_uid,
                    "controller": True,
                }
            ],
        },
        "spec": {
            "nodeName": node,
            "hostNetwork": True,
            "restartPolicy": "Always",
            "tolerations": [{"operator": "Exists"}],
            "containers": [{"name": "nvidia-device-plugin", "image": "nvidia-device-plugin:v1"}],
        },
    }


def build_nvidia_plugin(
    node_selector: Mapping[str, str] | None = None,
    *,
    name: str = names.NVIDIA_PLUGIN,
    namespace: str = names.SYSTEM_NAMESPACE,
) -> dict[str, Any]:
    """Build NVIDIA's plugin of its own manifest, which serves whole cards whatever the mode.

    In NVIDIA's chart the DaemonSet has the name of the release, in a namespace of its own.
    """
    container = {"name": "nvidia-device-plugin-ctr", "image": "k8s-device-plugin:v1"}
    return _build(names.NVIDIA_PLUGIN, name, namespace, node_selector or {}, container)


def build_hami_plugin() -> dict[str, Any]:
    """Build HAMi's plugin of its chart: on nodes with the label `gpu=on` it offers each card ten
    times, as `nvidia.com/gpu`. Tests write its annotation on the node."""
    container = {"name": "device-plugin", "image": "hami:v1"}
    name, namespace = names.HAMI_PLUGIN, names.SYSTEM_NAMESPACE
    return _build(name, name, namespace, {"gpu": "on"}, container)


def _build(
    runs: str,
    name: str,
    namespace: str,
    node_selector: Mapping[str, str],
    container: Mapping[str, str],
) -> dict[str, Any]:
    labels = {"name": name}
    annotations = {names.PLAYED: "true", names.RUNS: runs}
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels, "annotations": annotations},
                "spec": {
                    "nodeSelector": dict(node_selector),
                    "tolerations": [{"operator": "Exists"}],
                    "containers": [container],
                    "volumes": [{"name": "device-plugin", "hostPath": {"path": _PLUGINS_FOLDER}}],
                },
            },
        },
    }
