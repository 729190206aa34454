"""A cluster as the operator's decisions see it, and what of it they do not."""

from dataclasses import dataclass

from gpushare.api.k8s.pod import Pod
from gpushare.api.pool import UnreadablePool
from gpushare.core.analysis.effective_settings import KnownSetup
from gpushare.core.snapshot.cluster import ClusterSnapshot


@dataclass(frozen=True, slots=True)
class Seen:
    """All that an answer about a cluster goes by."""

    snapshot: ClusterSnapshot
    unbound: tuple[Pod, ...]
    """Pods without a node."""
    opted_out: frozenset[str]
    """Names of the namespaces whose pods are sent nowhere."""
    unreadable: tuple[UnreadablePool, ...]
    """Pools whose spec can't be read."""
    known: KnownSetup
    """How the installation is set."""
