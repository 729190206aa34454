"""Renders the components of open-source gpushare, and the scheduler configuration for them."""

import re
from urllib.parse import urlsplit

from gpushare import names
from gpushare.editions.edition import GPUSHARE_PLUGIN
from gpushare.render import render

EXTENDER_PATH = "/gpushare-scheduler"
"""Under which open-source gpushare-scheduler-extender serves its verbs."""
EXTENDER_PORT = 12345
# As their installations have them: people and tools find their pods by these, and with another
# selector the Deployment could not be replaced.
_PLUGIN_LABELS = {"name": GPUSHARE_PLUGIN, "component": "gpushare-device-plugin", "app": "gpushare"}
_EXTENDER_LABELS = {"app": "gpushare", "component": names.EXTENDER}


def render_device_plugin(
    image: str, *, namespace: str = names.PLUGIN_NAMESPACE, memory_unit: str = "GiB"
) -> str:
    """Render its account, rights and DaemonSet, under the name by which the operator knows it, on
    the nodes on which pools switch sharing on.

    What it runs as, and with which rights: its repository's device-plugin-ds.yaml, and the chart
    gpushare-installer, which gives no rights to kubelets.
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
    """Render the extender's account, rights, Deployment and Service, named as in its own manifests.

    Unlike those it runs on the control plane of current clusters, outside the node's network, and
    is reached from within the cluster only, unless `node_port` opens a port on every node.
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

    Raises `ValueError` for what kube-scheduler would refuse, or would take without saying what it
    leaves out.
    """
    return render(
        "kube-scheduler-config.yaml.j2",
        url=_complete_url(extender_url),
        kubeconfig=kubeconfig,
        resource=names.RESOURCE_GPU_MEMORY,
    )


def _complete_url(text: str) -> str:
    """Complete a URL without a path by the extender's own. The extender serves no TLS."""
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
