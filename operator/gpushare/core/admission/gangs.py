"""The pods that run together with a pod, and the pools to which a webhook assigned them."""

from collections.abc import Mapping
from types import MappingProxyType

import msgspec
from msgspec.structs import replace

from gpushare import names
from gpushare.api.k8s.card_annotations import parse_count
from gpushare.api.k8s.pod_shape import Metadata, PodShape, Spec

MEMORY_SECONDS = 600.0
"""A gang is forgotten so long after its last pod: by then the pools' figures show where it is."""
MOST_GANGS = 4096
"""Gangs that are remembered, the latest ones: anybody may name any number of groups."""
_MOST_POOLS = 4
_NOTHING: Mapping[str, str] = MappingProxyType({})


class Gang(msgspec.Struct, frozen=True):
    """Pods of one namespace that are to run together."""

    key: str
    """Names the group, or has the UID of the controller; of any length."""
    size: int | None = 1
    """Number of its pods; None where nobody says it. Pods that only have one controller are at
    least one."""
    pools: tuple[str, ...] = ()
    """Pools to which pods of it were assigned, the last one last, as far as that is known."""


def read_gang(pod: PodShape) -> Gang | None:
    """Read the gang of a pod: a group that it names, or else the pods of its controller."""
    metadata, spec = pod.metadata or Metadata(), pod.spec or Spec()
    if (group := spec.scheduling_group) is not None and group.pod_group_name:
        return Gang(f"PodGroup/{group.pod_group_name}", None)
    annotations = metadata.annotations or _NOTHING
    for keys, values in (
        (names.GROUP_LABELS, metadata.labels or _NOTHING),
        (names.GROUP_ANNOTATIONS, annotations),
    ):
        for key in keys:
            if name := values.get(key):
                size = parse_count(annotations.get(names.GROUP_SIZES.get(key, ""), ""))
                return Gang(f"{key}/{name}", size or None)
    for owner in metadata.owner_references or ():
        if owner.controller and owner.uid:
            return Gang(owner.uid)
    return None


class Gangs:
    """A webhook's own decisions on gangs of late; those of other replicas are not known.

    Of what a pod's creator wrote a hash is kept, which nobody outside can compute, and a pool's
    name. Times are seconds of one clock that never goes back.
    """

    def __init__(self) -> None:
        self._pools: dict[int, tuple[float, tuple[str, ...]]] = {}
        """Time of the last decision, and the pools; the oldest first."""

    def recall(self, gang: Gang | None, namespace: str, at: float) -> Gang | None:
        """Return the gang with the pools to which pods of it were assigned."""
        known = self._pools.get(hash((namespace, gang.key))) if gang is not None else None
        if gang is None or known is None or at - known[0] > MEMORY_SECONDS:
            return gang
        return replace(gang, pools=known[1])

    def note(self, gang: Gang, namespace: str, pool: str, at: float) -> None:
        """Remember that a pod of the recalled `gang` was assigned to `pool`."""
        key = hash((namespace, gang.key))
        if self._pools.pop(key, None) is None and len(self._pools) == MOST_GANGS:
            del self._pools[next(iter(self._pools))]
        others = [each for each in gang.pools if each != pool]
        self._pools[key] = at, (*others[1 - _MOST_POOLS :], pool)
