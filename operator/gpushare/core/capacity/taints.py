"""Finds the taints that keep a pool's pods off a node, whose free memory does not count then.

Node autoscalers, problem detectors and readiness controllers taint a node without a cordon. A taint
that all nodes of a pool have is meant to be there.
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
"""Prefixes of the keys of taints that Kubernetes, a cloud, Karpenter and Cluster Autoscaler set on
nodes for a while, sometimes on all nodes of a pool."""


def read_tolerations(pool: Pool | None) -> Tolerations:
    """Read the tolerations that admission adds to the pods of `pool`."""
    added = pool.spec.workloads.tolerations if pool is not None else ()
    return parse_tolerations([each.model_dump(mode="json", by_alias=True) for each in added])


def list_untolerated(taints: Iterable[Taint], tolerations: Tolerations) -> tuple[Taint, ...]:
    """List the taints that `tolerations` do not cover, without those named after a GPU resource.

    Such a taint keeps pods away that request no GPU; pods that request one are given its toleration
    ("Nodes with Special Hardware" in the Kubernetes documentation).
    """
    return tuple(
        taint
        for taint in taints
        if taint.key not in names.GPU_RESOURCES and not tolerates(tolerations, taint)
    )


def find_own_taints(nodes: Mapping[tuple[Taint, ...], int]) -> frozenset[Taint]:
    """Find the taints that are a pool's own: those that each of its nodes has.

    `nodes` has the number of nodes by their taints. The pool's pods tolerate its own taints, or
    would run nowhere. A single node proves nothing: it may have its taint for a failure.
    """
    shared = frozenset.intersection(*map(frozenset, nodes)) if sum(nodes.values()) > 1 else ()
    return frozenset(taint for taint in shared if not taint.key.startswith(_PASSING))
