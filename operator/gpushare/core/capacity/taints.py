"""Finds the taints that keep a pool's pods off a node, which has no room for them then.

Node autoscalers, problem detectors and readiness controllers taint a node without a cordon. A taint
that all nodes of a pool have is how they are meant to be.
"""

from collections.abc import Iterable, Mapping

from gpushare import names
from gpushare.api.k8s.taint import Taint, Tolerations, parse_tolerations, tolerates
from gpushare.api.pool import Pool

_PASSING = (
    "node.kubernetes.io/",
    "node.cloudprovider.kubernetes.io/",
    "karpenter.sh/",
    "ToBeDeleted",
    "startup-taint.cluster-autoscaler.kubernetes.io/",
    "status-taint.cluster-autoscaler.kubernetes.io/",
    "ignore-taint.cluster-autoscaler.kubernetes.io/",
)
"""How keys begin of taints that Kubernetes, a cloud, Karpenter and Cluster Autoscaler set on a node
for a while, also on all nodes of a pool."""


def read_tolerations(pool: Pool | None) -> Tolerations:
    """Read the tolerations that admission adds to the pods of `pool`."""
    added = pool.spec.workloads.tolerations if pool is not None else ()
    return parse_tolerations([each.model_dump(mode="json", by_alias=True) for each in added])


def list_untolerated(taints: Iterable[Taint], tolerations: Tolerations) -> tuple[Taint, ...]:
    """List the taints that these tolerations leave.

    A taint by the name of a GPU resource is meant for pods that request none, and those that do are
    given its toleration ("Nodes with Special Hardware" in the Kubernetes documentation).
    """
    return tuple(
        taint
        for taint in taints
        if taint.key not in names.GPU_RESOURCES and not tolerates(tolerations, taint)
    )


def find_own_taints(nodes: Mapping[tuple[Taint, ...], int]) -> frozenset[Taint]:
    """Find the taints that are the pool's own, as each of its nodes has them; `nodes` counts those
    with the same taints. Its pods tolerate them, or would run nowhere. A single node may have
    failed."""
    shared = frozenset.intersection(*map(frozenset, nodes)) if sum(nodes.values()) > 1 else ()
    return frozenset(taint for taint in shared if not taint.key.startswith(_PASSING))
