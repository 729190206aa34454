"""What is kept of each object that commands read: these fields and no other.

No Secret is read, and of ConfigMaps only what tells of unhealthy cards is kept. Of a pod stays
where it may run and what it asks of GPUs: no image, command, volume, nor any variable but the two
that concern GPUs. Of a DaemonSet's images stay the names, without registry and tag; of the
operator's own Deployments the variables that decisions depend on. docs/cli.md lists the fields,
from here.
"""

from collections.abc import Mapping

from gpushare.api.pruned.nodes import KeptNode
from gpushare.api.pruned.objects import (
    KeptConfigMap,
    KeptDaemonSet,
    KeptDeployment,
    KeptNamespace,
    KeptPool,
)
from gpushare.api.pruned.pods import KeptPod
from gpushare.api.pruned.shape import GPU_PREFIXES, Kept, KeptObject, Metadata

__all__ = ["GPU_PREFIXES", "KEPT", "Kept", "KeptObject", "KeptPod", "Metadata"]

KEPT: Mapping[str, type[KeptObject]] = {
    "nodes": KeptNode,
    "pods": KeptPod,
    "pools": KeptPool,
    "daemonsets": KeptDaemonSet,
    "namespaces": KeptNamespace,
    "deployments": KeptDeployment,
    "configmaps": KeptConfigMap,
}
"""By kind, as in `gpushare.api.pruned.cluster`."""
