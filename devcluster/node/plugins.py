"""Installs an edition's DaemonSets on real nodes: only the device plugin does its work."""

import os
from typing import Any

import yaml

from devcluster import names
from devcluster.cluster import Report
from devcluster.editions import Edition, install_daemonsets, load_edition
from devcluster.images import build_program_image, save_image
from devcluster.node.cluster import NodeCluster
from devcluster.node.containerd import PAUSE_IMAGE
from devcluster.startup import render
from devcluster.toolchain import DEVICE_PLUGIN, ensure_binaries

PLUGIN = "gpushare-device-plugin-ds"
PLUGIN_IMAGE = "localhost/gpushare-device-plugin:dev"
WITHOUT_CARDS = "/var/lib/kubelet/device-plugins/without-cards"
"""File on a node; while it exists, a plugin that starts finds no card."""
_PLACEMENT = ("nodeSelector", "affinity")


def import_plugin(cluster: NodeCluster, *, report: Report = print) -> None:
    """Build the device plugin and give its image to the nodes."""
    folder = ensure_binaries(os.environ, DEVICE_PLUGIN, report=report)
    (name,) = DEVICE_PLUGIN.binaries
    build_program_image(PLUGIN_IMAGE, folder / name)
    archive = save_image(PLUGIN_IMAGE, cluster.logs / "device-plugin.tar")
    for node in cluster.nodes.values():
        node.import_image(archive)


def install_plugin(cluster: NodeCluster, edition: Edition, *, cards: int, card_gib: int) -> None:
    """Install `edition`, with a plugin for `cards` on each node.

    The plugin's DaemonSet, ServiceAccount and RBAC are those of `gpushare render device-plugin`,
    with the edition's node selector. Installing it again changes nothing.
    """
    edition_own = {item["metadata"]["name"]: item for item in load_edition(edition)}
    original = edition_own.pop(PLUGIN)
    rendered = yaml.safe_load_all(render("device-plugin", "--image", PLUGIN_IMAGE))
    *granted, plugin = rendered
    cluster.kubectl("apply", "--server-side", "-f", "-", stdin=yaml.safe_dump_all(granted))
    plugin["metadata"]["labels"] |= original["metadata"]["labels"]
    spec, original_spec = (item["spec"]["template"]["spec"] for item in (plugin, original))
    for key in _PLACEMENT:
        spec.pop(key, None)
        spec |= {key: original_spec[key]} if key in original_spec else {}
    spec["containers"][0]["command"] += [f"--cards={cards}", f"--card-gib={card_gib}"]
    install_daemonsets(cluster, [plugin, *map(_let_run, edition_own.values())])


def _let_run(daemonset: dict[str, Any]) -> dict[str, Any]:
    template = daemonset["spec"]["template"]
    del template["metadata"]["annotations"][names.PLAYED]
    for container in template["spec"]["containers"]:
        container["image"] = PAUSE_IMAGE
    return daemonset
