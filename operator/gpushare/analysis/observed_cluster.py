"""A cluster as commands read it: what the operator's decisions use, and the rest."""

from dataclasses import dataclass

from gpushare.analysis.effective_settings import KnownSetup
from gpushare.api.k8s.pod import Pod
from gpushare.api.pool import UnreadablePool
from gpushare.core.snapshot.cluster import ClusterSnapshot


@dataclass(frozen=True, slots=True)
class ObservedCluster:
    """Everything that an answer about a cluster is based on."""

    snapshot: ClusterSnapshot
    unbound: tuple[Pod, ...]
    """Pods without a node."""
    opted_out: frozenset[str]
    """Names of the namespaces whose pods are not assigned to pools."""
    unreadable: tuple[UnreadablePool, ...]
    """Pools whose spec can't be read."""
    known: KnownSetup
    """The settings of the installation."""
