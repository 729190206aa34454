"""Finds the pools of a pod and the cards that could take it, by trying them one by one.

Written from the documented rules, so that the operator can be found wrong: it imports nothing of
the operator, and uses no sums of it.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any

from tests.kit.histories.gpu_cluster import (
    HOSTNAME_LABEL,
    POOL_LABEL,
    SHARING,
    TAINT,
    Applicant,
    Application,
    GpuNode,
    GpuPool,
    Requirement,
)

_CHOOSING = (
    POOL_LABEL,
    "ack.node.gpu.schedule",
    "cgpu",
    "cgpu.disable.isolation",
    "gpushare",
)
"""Labels by which a pod selects its pool itself, unless it only excludes values."""
_ISOLATED = ("cgpu", "core_mem")
_NEGATIVE = ("NotIn", "DoesNotExist")
_ANY_TAINT = {"key": TAINT, "operator": "Exists"}
"""Toleration that a pool adds to its pods."""


class End(Enum):
    LEFT = auto()
    """The pod is not changed, since it is not for admission to assign."""
    ROUTED = auto()
    UNTAKEN = auto()
    """The pod is allowed without a pool."""
    REFUSED = auto()


@dataclass(frozen=True)
class Verdict:
    end: End
    eligible: tuple[GpuPool, ...] = ()
    """Pools to one of which the pod must be assigned."""
    nodes: frozenset[str] = frozenset()
    """Nodes of these pools with a card that could take the pod."""


def judge(case: Application) -> Verdict:
    pod = case.pod
    if _is_left(case):
        return Verdict(End.LEFT)
    if pod.isolation == "required" and pod.disables_isolation and (pod.asks or pod.core):
        return Verdict(End.REFUSED)
    eligible = tuple(_find_candidates(case))
    if eligible:
        return Verdict(End.ROUTED, eligible, find_nodes(pod, eligible, pod.selects, [_ANY_TAINT]))
    denies = {"deny": True, "allow": False}.get(
        case.namespace.get("gpushare.io/on-no-pool", ""), case.denies
    )
    must_isolate = pod.isolation == "required" and bool(pod.asks or pod.core)
    return Verdict(End.REFUSED if denies or must_isolate else End.UNTAKEN)


def find_nodes(
    pod: Applicant,
    pools: Iterable[GpuPool],
    selects: Mapping[str, str],
    tolerations: Iterable[Mapping[str, Any]] = (),
) -> frozenset[str]:
    """Find the nodes that could take the pod now, with this node selector and these tolerations."""
    tolerated = list(tolerations)
    return frozenset(
        node.name
        for pool in pools
        if not pool.is_tainted or _tolerates(tolerated, pool.name)
        for node in pool.nodes
        if _matches_labels(selects, pod.terms, {**pool.node_labels, HOSTNAME_LABEL: node.name})
        and _has_card(pool, node, pod.memory)
    )


def is_isolated_selector(selects: Mapping[str, str]) -> bool:
    """Tell whether only nodes in an isolating mode have these labels."""
    basic = (selects.get("cgpu"), selects.get("cgpu.disable.isolation"))
    return selects.get("ack.node.gpu.schedule") in _ISOLATED or basic == ("true", "false")


def _is_left(case: Application) -> bool:
    pod = case.pod
    if pod.opts_out or case.namespace.get("gpushare.io/inject") == "disabled":
        return True
    if not (pod.asks or pod.core) and not (pod.whole_cards and pod.wants_pool):
        return True
    if pod.is_daemon or pod.node or pod.is_queued or pod.scheduler != "default-scheduler":
        return True
    if HOSTNAME_LABEL in pod.selects:
        return True
    if any(key in _CHOOSING for key in pod.selects):
        return True
    return any(
        (key in _CHOOSING and operator not in _NEGATIVE)
        or (key == HOSTNAME_LABEL and operator == "In")
        for term in pod.terms
        for key, operator, _ in term
    )


def _find_candidates(case: Application) -> Iterator[GpuPool]:
    """Find candidate pools: only the requested one, else the namespace's default, else all."""
    pod = case.pod
    takers = [pool for pool in case.pools if _may_have(pool, case)]
    if pod.wants_pool:
        yield from (pool for pool in takers if pool.name == pod.wants_pool)
        return
    default = case.namespace.get("gpushare.io/default-pool", "")
    if named := [pool for pool in takers if pool.name == default]:
        yield from named
        return
    open_to_all = [pool for pool in takers if pool.selection == "Automatic"]
    if pod.isolation in ("required", "none"):
        yield from open_to_all
        return
    preferred = [p for p in open_to_all if (p.schedule == "share") == pod.disables_isolation]
    yield from preferred or open_to_all


def _may_have(pool: GpuPool, case: Application) -> bool:
    pod = case.pod
    return (
        not pool.is_deleting
        and pool.is_labelled
        and pool.namespaces.items() <= case.namespace.items()
        and pool.pods.items() <= pod.labels.items()
        and _gives(pool, pod)
        and _has_isolation(pool, pod)
        and _matches_labels(pod.selects, pod.terms, pool.node_labels)
    )


def _gives(pool: GpuPool, pod: Applicant) -> bool:
    if pod.whole_cards:
        return pool.schedule == "default"
    return pool.schedule in (("core_mem",) if pod.core else ("share", "cgpu", "mps"))


def _has_isolation(pool: GpuPool, pod: Applicant) -> bool:
    if pod.isolation == "required" and not pod.whole_cards:
        return pool.schedule in _ISOLATED
    if pod.isolation == "none" and not pod.whole_cards:
        return pool.schedule == "share"
    return True


def _has_card(pool: GpuPool, node: GpuNode, memory: int) -> bool:
    """Tell whether a card has that much free memory; a terminating pod holds its memory."""
    if not (node.is_ready and node.has_plugin) or node.is_cordoned or pool.schedule not in SHARING:
        return False
    return any(
        node.card_memory - sum(holder.cards.get(card, 0) for holder in node.holders) >= memory
        for card in range(node.cards)
    )


def _matches_labels(
    selects: Mapping[str, str],
    terms: tuple[tuple[Requirement, ...], ...],
    labels: Mapping[str, str],
) -> bool:
    """Match requirements by "Assigning Pods to Nodes" in the Kubernetes documentation."""
    if not selects.items() <= labels.items():
        return False
    return not terms or any(term and all(_holds(each, labels) for each in term) for term in terms)


def _holds(requirement: Requirement, labels: Mapping[str, str]) -> bool:
    key, operator, values = requirement
    match operator:
        case "In":
            return labels.get(key) in values
        case "NotIn":
            return labels.get(key) not in values
        case "Exists":
            return key in labels
        case "DoesNotExist":
            return key not in labels
    raise AssertionError(f"the oracle does not know the operator {operator}")


def _tolerates(tolerations: Iterable[Mapping[str, Any]], value: str) -> bool:
    return any(
        each.get("key") == TAINT
        and (each.get("operator") == "Exists" or each.get("value") == value)
        and each.get("effect") in (None, "", "NoSchedule")
        for each in tolerations
    )
