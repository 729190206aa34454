"""Renders the components of open-source gpushare, and its scheduler configuration."""

import re
from urllib.parse import urlsplit

from gpushare import names
from gpushare.editions.edition import GPUSHARE_PLUGIN
from gpushare.render import render

EXTENDER_PATH = "/gpushare-scheduler"
"""Path at which open-source gpushare-scheduler-extender serves its verbs."""
EXTENDER_PORT = 12345
# The labels of their own installations: users and tools find the pods by them, and a Deployment
# with another selector could not be replaced.
_PLUGIN_LABELS = {"name": GPUSHARE_PLUGIN, "component": "gpushare-device-plugin", "app": "gpushare"}
_EXTENDER_LABELS = {"app": "gpushare", "component": names.EXTENDER}


def render_device_plugin(
    image: str, *, namespace: str = names.PLUGIN_NAMESPACE, memory_unit: str = "GiB"
) -> str:
    """Render the device plugin's ServiceAccount, RBAC and DaemonSet, with the name that the
    operator expects, for nodes on which pools enable sharing.

    Sources: device-plugin-ds.yaml of its repository, and the chart gpushare-installer, which gives
    no rights to kubelets.
    """
    return render(
        "gpushare-device-plugin.yaml.j2",
        name=GPUSHARE_PLUGIN,
        namespace=namespace,
        labels=_PLUGIN_LABELS,
        image=image,
        memory_unit=memory_unit,
        node_selector={names.LABEL_GPUSHARE: "true"},
    )


def render_scheduler_extender(image: str, *, node_port: int | None = None) -> str:
    """Render the extender's ServiceAccount, RBAC, Deployment and Service.

    Names are those of the extender's own manifests. Unlike with those, the extender runs on the
    control plane of current clusters, outside of the node's network, and is reachable only within
    the cluster, unless `node_port` opens a port on every node.
    """
    return render(
        "gpushare-scheduler-extender.yaml.j2",
        name=names.EXTENDER,
        namespace=names.EXTENDER_NAMESPACE,
        labels=_EXTENDER_LABELS,
        image=image,
        port=EXTENDER_PORT,
        node_port=node_port,
    )


def render_scheduler_config(extender_url: str, kubeconfig: str | None = None) -> str:
    """Render the file for kube-scheduler's --config; `kubeconfig` is the scheduler's own.

    Raises `ValueError` for a URL that kube-scheduler would reject, or of which it would silently
    ignore a part.
    """
    return render(
        "kube-scheduler-config.yaml.j2",
        url=_complete_url(extender_url),
        kubeconfig=kubeconfig,
        resource=names.RESOURCE_GPU_MEMORY,
    )


def _complete_url(text: str) -> str:
    """Add the extender's path to a URL without one. The extender serves no TLS."""
    try:
        url = urlsplit(text)
        has_place = bool(url.hostname) and url.port != 0
    except ValueError:
        has_place = False
    if not has_place or url.scheme != "http" or re.search(r"[\s\x00-\x1f]", text):
        raise ValueError(f"{text} is not the URL of an extender: expected http://HOST:PORT/PATH")
    if url.query or url.fragment or url.username is not None:
        raise ValueError(
            f"{text} must have only a host, a port and a path: kube-scheduler appends to it"
        )
    return f"http://{url.netloc}{url.path.rstrip('/') or EXTENDER_PATH}"
