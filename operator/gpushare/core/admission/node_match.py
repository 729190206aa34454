"""Explains why the nodes of a pool do not match a pod's node selection, or may not."""

from collections.abc import Iterator

from gpushare import names
from gpushare.api.k8s.node_selection import CHOOSING, Known, NodeSelection
from gpushare.core.admission.pool_view import PoolView

_SHOWN = 2
"""Values of a label that a message lists."""


def explain_mismatch(selection: NodeSelection, pool: PoolView) -> str:
    """Explain why no node of `pool` satisfies `selection`, in a clause that follows "Pool X: "."""
    if selection.match(pool.known) is False:
        excluded = "the pod's node selector or affinity excludes its nodes"
        return next(_find_causes(selection, pool.known), excluded)
    no_node = "none of its nodes has all labels that the pod's node selector and affinity require"
    present = {key: tuple(column) for key, column in pool.columns.items()}
    return next(_find_causes(selection, {**pool.known, **present}), no_node)


def _find_causes(selection: NodeSelection, known: Known) -> Iterator[str]:
    """Find labels of which no known value will do; those by which pods choose a pool are clear."""
    for key in sorted(known.keys() - CHOOSING):
        if key in selection.labels and selection.labels[key] not in known[key]:
            yield f"{_tell_values(key, known)}, not {selection.labels[key]}"
        for term in selection.terms or ():
            if key in term and not any(map(term[key].admits, known[key])):
                yield f"{_tell_values(key, known)}, which the pod's node affinity excludes"


def _tell_values(key: str, known: Known) -> str:
    values = [value for value in known[key] if value is not None]
    if not values:
        return f"its nodes have no label {key}"
    shown = values[:_SHOWN]
    if (more := len(values) - len(shown)) > 0:
        shown.append(f"{more} others")
    return f"its nodes have {key} {' or '.join(shown)}"


def explain_doubt(selection: NodeSelection, pool: PoolView) -> str | None:
    """Warn that no node of `pool`, to which the pod is assigned, is known to match it; None where
    the pod only avoids labels that are not known."""
    needed = selection.needed_keys
    unknown = [k for k in needed if k not in pool.known and k not in pool.published_keys]
    if unknown and pool.combinations:
        return (
            f"It is not known whether nodes of pool {pool.name} have {' and '.join(unknown)}, "
            f"which the pod selects. Select {names.LABEL_POOL} instead (with Kueue, in "
            "spec.nodeLabels of the ResourceFlavor), or add the key to the chart's nodeLabelKeys"
        )
    avoided = dict.fromkeys(selection.keys - set(needed), (None,))
    known = {**avoided, **pool.known}
    if selection.find_matching(pool.columns, known, pool.all_bits)[0]:
        return None
    return (
        f"No node of pool {pool.name} is known to have the labels that the pod selects "
        f"({', '.join(needed)}). It stays pending until such a node is added"
    )
