"""Filters the changes of a Node: a label that no decision reads needs no new decision."""

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


def list_label_keys(
    pools: Iterable[Pool], daemonsets: Iterable[DaemonSet], published: Iterable[str] = ()
) -> Set[str]:
    """List the keys of the node labels that decisions read: the operator's, those by which `pools`
    and `daemonsets` select nodes, and those `published` in the pools' status."""
    keys = {*_ALWAYS_READ, *published}
    for selector in (pool.spec.nodes.selector for pool in pools):
        if selector is not None:
            keys |= selector.match_labels.keys()
            keys.update(requirement.key for requirement in selector.match_expressions)
    return keys.union(*(daemonset.selection.keys for daemonset in daemonsets))


def is_relevant(old: Node, new: Node, label_keys: Set[str]) -> bool:
    """Return whether anything but labels changed, or a label of `label_keys`, a label of NVIDIA's,
    or a label that may show a card."""
    changed = {key for key, _ in old.labels.items() ^ new.labels.items()}
    is_read = any(
        key in label_keys or key.startswith(names.NVIDIA_PREFIX) or may_show_card(key)
        for key in changed
    )
    return is_read or replace(new, labels=old.labels) != old
