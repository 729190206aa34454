"""Finds the taints that keep a pool's pods off a node, which has no room for them then.

Node autoscalers, problem detectors and readiness controllers taint a node without a cordon. A taint
that a pool's pods tolerate themselves is how its nodes are meant to be.
"""

from collections.abc import Collection, Iterable, Mapping

from gpushare import names
from gpushare.api.k8s.taint import Taint, Tolerations, parse_tolerations, tolerates
from gpushare.api.pool import Pool


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


def find_closing(taints: Collection[Taint], held: Mapping[Tolerations, int]) -> frozenset[Taint]:
    """Find those of `taints` that the pods of a pool do not tolerate.

    `held` is the GPU memory that pods have of the pool, by their tolerations. They tolerate a taint
    where those that do hold more than half of it: one pod that tolerates everything, or nothing,
    decides no more than what it holds. Waiting pods hold nothing.
    """
    if not taints:
        return frozenset()
    total = sum(held.values())

    def is_tolerated(taint: Taint) -> bool:
        by = sum(units for tolerations, units in held.items() if tolerates(tolerations, taint))
        return by * 2 > total

    return frozenset(taint for taint in taints if not is_tolerated(taint))
