"""Finds the pool of a node, and the number of a pool's nodes that may be out of service.

Written from docs/nodes.md, so that the operator can be found wrong: imports nothing that the
operator decides with.
"""

import json
import re
from collections.abc import Iterable

from gpushare.api.k8s.node import Node
from gpushare.api.pool import Pool

_POOL = "gpushare.io/pool"
_RECORDS = ("gpushare.io/change", "gpushare.io/applied")
_MODES = {
    *("ack.node.gpu.schedule", "cgpu", "cgpu.disable.isolation", "gpushare"),
    "nvidia.com/device-plugin.config",
}
_SIGN = re.compile(
    r"^aliyun.accelerator/nvidia_|^nvidia.com/gpu.(present=true|count=[1-9])|"
    r"^feature.node.kubernetes.io/pci-10de.present=true|instance-type=ecs.gn"
)


def read_owner(node: Node) -> str | None:
    """Read the pool that has `node` now, from the operator's label, else from its record."""
    if _POOL in node.owned and _POOL in node.labels:
        return node.labels[_POOL]
    records = (json.loads(node.annotations[key]) for key in _RECORDS if node.annotations.get(key))
    return next((str(record["pool"]) for record in records), None)


def find_pool(node: Node, pools: Iterable[Pool], *, also: Pool | None = None) -> Pool | None:
    """Find the pool that must have `node`. A pool that observes only keeps its nodes, except for
    `also`, which counts as one that acts."""
    owner, best = read_owner(node), None
    for pool in pools:
        is_acting = not pool.observes or pool.name == owner or pool is also
        claims = _claims(pool, node) and shows_card(node, pool)
        if is_acting and not pool.deleting and claims:
            best = pool if best is None or _goes_before(pool, best, owner) else best
    return best


def shows_card(node: Node, pool: Pool) -> bool:
    """Tell whether the pool may take the node, by a sign of a card or by the spec. The signs are
    those of histories."""
    labels, nodes = node.labels, pool.spec.nodes
    if labels.get("type") == "virtual-kubelet" or labels.get("kubernetes.io/os") == "windows":
        return False
    records = [json.loads(node.annotations.get(key) or "{}") for key in _RECORDS]
    initial = json.loads(node.annotations.get("gpushare.io/initial-values") or "{}")
    written = [
        (initial.get(key) if key in node.owned and key not in node.managers else labels[key]) or ""
        for key in _MODES & labels.keys()
    ]
    return bool(
        node.name in nodes.named
        or nodes.cards == "Assumed"
        or records[1]
        or records[0].get("hasShownCard")
        or node.capacity
        or any(_SIGN.search(f"{key}={value}") for key, value in labels.items())
        or any(value.lower() not in ("", "false") for value in written)
    )


def is_within_budget(limit: int | str, out: int, nodes: int) -> bool:
    """Tell whether `out` of `nodes` may be out of service; one always may."""
    if isinstance(limit, int):
        return out <= limit
    return out <= 1 or 100 * out <= int(limit.removesuffix("%")) * nodes


def _claims(pool: Pool, node: Node) -> bool:
    """Tell whether the pool selects the node, by name or by labels with In, as in histories."""
    nodes = pool.spec.nodes
    if node.name in nodes.named or node.name in nodes.excluded:
        return node.name not in nodes.excluded
    wanted = nodes.selector.match_expressions if nodes.selector is not None else ()
    assert all(each.operator == "In" for each in wanted), pool
    return bool(wanted) and all(node.labels.get(each.key) in each.values for each in wanted)


def _goes_before(one: Pool, other: Pool, owner: str | None) -> bool:
    """Compare pools by priority, current ownership, age and name."""
    if one.spec.priority != other.spec.priority:
        return one.spec.priority > other.spec.priority
    if owner in (one.name, other.name):
        return one.name == owner
    return (one.created, one.name) < (other.created, other.name)
