"""The vendor's limits on GPU sharing that the API shows; docs/ack.md has all of them."""

import re
from collections.abc import Iterable, Iterator

from gpushare.api.k8s.node import Node
from gpushare.core.analysis.doctor.finding import Code, Finding, find
from gpushare.editions.plugin_daemonsets import PluginDaemonSets

_ECS = re.compile(r"(alicloud://)?[a-z0-9-]+\.i-[a-z0-9]+")
"""A region and an instance, as ACK's cloud controller manager writes `spec.providerID`."""
_CONTAINER_OS = ("containeros", "lifsea")
"""In `osImage`, in small letters: the product, and the distribution that it is made from."""


def judge_cgpu_nodes(nodes: Iterable[Node]) -> Iterator[Finding]:
    """What cGPU can't do on these nodes, which are in a mode that isolates, or will be."""
    for node in nodes:
        about = f"node {node.name}"
        if not _ECS.fullmatch(node.provider_id):
            yield find(
                Code.NOT_ECS,
                about,
                f"its providerID {node.provider_id!r} is not that of an ECS instance, and cGPU "
                "isolates on ECS instances alone",
                "use mode share there: docs/ack.md#limits",
            )
        if any(name in node.os_image.lower() for name in _CONTAINER_OS):
            yield find(
                Code.CONTAINER_OS,
                about,
                f"it runs {node.os_image}, on which cGPU needs ack-ai-installer 1.12.6 or newer; "
                "the API does not show which one is installed",
                "helm list -n kube-system --filter ack-ai-installer",
            )


def judge_priority(plugins: PluginDaemonSets) -> Iterator[Finding]:
    """Whether the vendor's plugins lack a system priority."""
    if found := plugins.list_evictable():
        yield find(
            Code.PLUGINS_EVICTABLE,
            "plugins",
            f"{', '.join(found)}: the pods have no priorityClassName system-node-critical, so a "
            "node that runs short evicts them, and then offers no GPU memory",
            "set it while the pools are paused, since it restarts the pods: docs/ack.md#priority",
        )
