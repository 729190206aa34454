"""Finds pods on a node that nobody counts, although they may hold cards or give them out.

What a Pod shows is a sign and no proof, so none of this is in a pool's status. A teardown alone
waits for such pods (`core/nodechange/blockers.py`).
"""

from collections.abc import Callable, Iterable, Iterator

from gpushare.analysis.finding import Finding, FindingCode, report
from gpushare.api.k8s.daemonset import UNKNOWN_PLUGIN
from gpushare.api.k8s.gpu_request import ALL_DEVICES
from gpushare.api.k8s.node import Node
from gpushare.api.k8s.pod import Pod
from gpushare.core.deviceplugin.findings import list_few


def judge_card_holders(node: Node, pods: Iterable[Pod]) -> Iterator[Finding]:
    """Find the pods on a GPU node that may hold cards that are not counted, or may serve devices
    that nobody knows."""
    about, live = f"node {node.name}", [pod for pod in pods if pod.is_live]
    if holders := _list(live, lambda pod: pod.may_hold_cards, with_sign=True):
        yield report(
            FindingCode.UNREQUESTED_CARDS,
            about,
            f"Pods may hold cards that no pool counts: {holders}",
            "Let them request a pool's GPU resource, or move them. A teardown waits for them "
            "(docs/teardown.md#pods-without-a-request)",
        )
    if privileged := _list(live, lambda pod: pod.unrequested == ALL_DEVICES):
        yield report(
            FindingCode.ALL_DEVICES,
            about,
            f"Privileged pods with all of /dev can use any card, and are not counted: {privileged}",
            "Nothing waits for them. Before a teardown, check that none uses a card",
        )
    if unknown := _list(live, lambda pod: pod.daemonset == UNKNOWN_PLUGIN):
        yield report(
            FindingCode.UNKNOWN_PLUGIN,
            about,
            "Pods mount the kubelet's device-plugins folder, so they may serve devices: "
            f"{unknown}. The API does not show which",
            "If one of them serves GPUs, keep it off the nodes of pools",
        )


def _list(pods: Iterable[Pod], concerns: Callable[[Pod], bool], *, with_sign: bool = False) -> str:
    named = (
        f"{pod.namespace}/{pod.name}{f' ({pod.unrequested})' if with_sign else ''}"
        for pod in pods
        if concerns(pod)
    )
    return list_few(sorted(named))
