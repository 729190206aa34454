"""Tells which changes of a Node can change a decision: others label nodes for other purposes."""

from collections.abc import Iterable, Set
from dataclasses import replace

from gpushare import names
from gpushare.api.k8s.daemonset import DaemonSet
from gpushare.api.k8s.node import Node
from gpushare.api.pool import Pool
from gpushare.editions.cards import may_show_card

_ALWAYS_READ = (
    names.NODE_LABELS
    | names.CONTROL_PLANE_LABELS
    | {names.LABEL_CARDS, names.LABEL_NVSENTINEL_STATE}
)


def list_label_keys(pools: Iterable[Pool], daemonsets: Iterable[DaemonSet]) -> Set[str]:
    """List the node labels that decisions read: ours, and those by which these select nodes."""
    keys = set(_ALWAYS_READ)
    for selector in (pool.spec.nodes.selector for pool in pools):
        if selector is not None:
            keys |= selector.match_labels.keys()
            keys.update(requirement.key for requirement in selector.match_expressions)
    return keys.union(*(daemonset.selection.keys for daemonset in daemonsets))


def is_relevant(old: Node, new: Node, label_keys: Set[str]) -> bool:
    """Tell whether anything but labels changed, or one of `label_keys`, or one of NVIDIA's or that
    may show a card."""
    changed = {key for key, _ in old.labels.items() ^ new.labels.items()}
    is_read = any(
        key in label_keys or key.startswith(names.NVIDIA_PREFIX) or may_show_card(key)
        for key in changed
    )
    return is_read or replace(new, labels=old.labels) != old
