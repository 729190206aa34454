"""Finds the workload of a pod that is gone by its name alone."""

import re
from collections.abc import Collection, Iterator

from gpushare.api.k8s.pod_owner import Workload
from gpushare.workload_kinds import WORKLOAD_KINDS

_SAFE = "[bcdfghjklmnpqrstvwxz2456789]"
"""Alphabet of generated names (`SafeEncodeString` in apimachinery's util/rand)."""
_GENERATED = f"-{_SAFE}{{5}}"
_SHAPES = tuple(
    (kind, re.compile(f"(.+){suffix}", re.ASCII))
    for kind, suffix in (
        ("CronJob", rf"-\d{{8}}(?:-\d+)?{_GENERATED}"),
        ("Deployment", f"-{_SAFE}{{1,10}}{_GENERATED}"),
        ("Job", rf"-\d+{_GENERATED}"),
        ("Job", _GENERATED),
        ("ReplicaSet", _GENERATED),
        ("DaemonSet", _GENERATED),
        ("StatefulSet", r"-\d+"),
    )
)
"""Kinds, and the names that their controllers give to pods."""
_PREFIXING = frozenset(each.kind for each in WORKLOAD_KINDS if not each.is_built_in)
"""Kinds of which it is only known that names of pods begin with that of the workload."""


_LONGEST = 63
"""Length of a name of which the controller's part was cut (`maxGeneratedNameLength` in apiserver's
storage/names)."""
_CUT = _LONGEST - 5


def find_workload(pod: str, known: Collection[Workload]) -> Workload | None:
    """Find the one of the namespace's `known` workloads that may have made `pod`; None where none
    may, or more than one."""
    found = {each for each in _list_candidates(pod) if each in known}
    found |= {e for e in known if e.kind in _PREFIXING and pod.startswith(f"{e.name}-")}
    if len(pod) == _LONGEST and not found:
        found = {each for each in known if pod.startswith(f"{each.name}-"[:_CUT])}
    return found.pop() if len(found) == 1 else None


def _list_candidates(pod: str) -> Iterator[Workload]:
    for kind, shape in _SHAPES:
        if match := shape.fullmatch(pod):
            yield Workload(kind, match[1])
