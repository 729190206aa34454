"""Which pool has a node, and how many nodes of a pool may be out of service.

Written from docs/nodes.md in plain words, so that the operator can be found wrong: nothing of what
it decides with is imported here.
"""

import json
from collections.abc import Iterable

from gpushare.api.k8s.node import Node
from gpushare.api.pool import Pool

_POOL = "gpushare.io/pool"
_RECORDS = ("gpushare.io/change", "gpushare.io/applied")


def read_owner(node: Node) -> str | None:
    """The pool that has `node` now: the operator's own label says it, else its record does."""
    if _POOL in node.owned and _POOL in node.labels:
        return node.labels[_POOL]
    records = (json.loads(node.annotations[key]) for key in _RECORDS if node.annotations.get(key))
    return next((str(record["pool"]) for record in records), None)


def find_pool(node: Node, pools: Iterable[Pool], *, also: Pool | None = None) -> Pool | None:
    """The pool that must have `node`. One that observes has only what it had before; `also` is one
    of them, as if it acted."""
    owner, best = read_owner(node), None
    for pool in pools:
        is_acting = not pool.observes or pool.name == owner or pool is also
        if is_acting and not pool.deleting and _claims(pool, node):
            best = pool if best is None or _goes_before(pool, best, owner) else best
    return best


def is_within_budget(limit: int | str, out: int, nodes: int) -> bool:
    """Whether `out` of so many nodes may be out of service: one always may."""
    if isinstance(limit, int):
        return out <= limit
    return out <= 1 or 100 * out <= int(limit.removesuffix("%")) * nodes


def _claims(pool: Pool, node: Node) -> bool:
    """As far as histories select nodes: by name, or by labels that are In a list."""
    nodes = pool.spec.nodes
    if node.name in nodes.named or node.name in nodes.excluded:
        return node.name not in nodes.excluded
    wanted = nodes.selector.match_expressions if nodes.selector is not None else ()
    assert all(each.operator == "In" for each in wanted), pool
    return bool(wanted) and all(node.labels.get(each.key) in each.values for each in wanted)


def _goes_before(one: Pool, other: Pool, owner: str | None) -> bool:
    """The higher priority, then who has the node, then the older one, then the alphabet."""
    if one.spec.priority != other.spec.priority:
        return one.spec.priority > other.spec.priority
    if owner in (one.name, other.name):
        return one.name == owner
    return (one.created, one.name) < (other.created, other.name)
