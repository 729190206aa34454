"""Tells which changes of a Node can change a decision: others label nodes for other purposes."""

from collections.abc import Iterable, Set
from dataclasses import replace

from gpushare import names
from gpushare.api.k8s.daemonset import DaemonSet
from gpushare.api.k8s.node import Node
from gpushare.api.pool import Pool

_ALWAYS_READ = (
    names.NODE_LABELS
    | names.CONTROL_PLANE_LABELS
    | {names.LABEL_CARDS, names.LABEL_NVSENTINEL_STATE}
)


def list_label_keys(
    pools: Iterable[Pool], daemonsets: Iterable[DaemonSet], published: Iterable[str] = ()
) -> Set[str]:
    """List the node labels that decisions read: ours, those by which these select nodes, and those
    that are `published` in the pools' status."""
    keys = {*_ALWAYS_READ, *published}
    for selector in (pool.spec.nodes.selector for pool in pools):
        if selector is not None:
            keys |= selector.match_labels.keys()
            keys.update(requirement.key for requirement in selector.match_expressions)
    return keys.union(*(daemonset.selection.keys for daemonset in daemonsets))


def is_relevant(old: Node, new: Node, label_keys: Set[str]) -> bool:
    """Tell whether anything but labels changed, or one of `label_keys`, or one of NVIDIA's."""
    changed = {key for key, _ in old.labels.items() ^ new.labels.items()}
    is_read = any(k in label_keys or k.startswith(names.NVIDIA_PREFIX) for k in changed)
    return is_read or replace(new, labels=old.labels) != old
