"""Which pool a pod that asks for shared GPU is sent to."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gpushare import names
from gpushare.api.podrequest import PodRequest
from gpushare.api.pool import Edition, Schedule
from gpushare.core.modes import MODES
from gpushare.names import Reason

MEMORY_SCHEDULES = frozenset({Schedule.SHARE, Schedule.CGPU, Schedule.MPS})
"""Modes that take pods which ask for gpu-mem alone; core_mem nodes refuse those."""
CORE_SCHEDULES = frozenset({Schedule.CORE_MEM})
ISOLATED_SCHEDULES = frozenset({Schedule.CGPU, Schedule.MPS, Schedule.CORE_MEM})
REQUIRED_SCHEDULES = frozenset(mode.schedule for mode in MODES.values() if mode.isolated)
"""Isolated by the kernel: what `gpushare.io/isolation: required` counts as isolation."""
_ISOLATIONS = (names.ISOLATION_REQUIRED, names.ISOLATION_NONE)


@dataclass(frozen=True, slots=True)
class PoolView:
    """What the choice of a pool depends on."""

    name: str
    schedule: Schedule
    priority: int
    edition: Edition = Edition.PROFESSIONAL


@dataclass(frozen=True, slots=True)
class Decision:
    """The pool a pod is sent to, if any, and why."""

    reason: Reason
    message: str
    pool: str | None = None
    selector: tuple[tuple[str, str], ...] = ()
    """What the pod's node selector gets: the pool, and for required isolation its mode too, since
    a pool whose mode is being changed still has nodes in the other one."""
    warnings: tuple[str, ...] = ()
    """Sentences for who created the pod; the API server cuts each at 256 characters."""
    is_refused: bool = False
    """The pod must not be created: it would run without the isolation that it requires."""


def view_pool(raw: Mapping[str, Any]) -> PoolView | None:
    """A pool from the API server's JSON.

    None for one that takes no pods any more, or whose mode this version does not know.
    """
    metadata, spec = raw["metadata"], raw.get("spec") or {}
    if "deletionTimestamp" in metadata:
        return None
    try:
        schedule, edition = Schedule(str(spec.get("schedule"))), Edition(str(spec.get("edition")))
    except ValueError:
        return None
    return PoolView(metadata["name"], schedule, spec["priority"], edition)


def decide(pod: PodRequest, pools: Sequence[PoolView]) -> Decision:
    """Where `pod` goes; the order of `pools` does not matter.

    What its owner wrote goes first. Then the resources give the modes, isolation that was asked
    for is a condition, isolation that is inferred a preference; equals are ranked by priority,
    then by name.
    """
    if not pod.resources:
        return Decision(Reason.NO_GPU_REQUEST, "asks for no shared GPU")
    if pod.placed_by:
        return Decision(Reason.NOT_ROUTED, f"{pod.placed_by} chooses the node")
    if pod.selects:
        return Decision(Reason.ALREADY_SELECTS, f"already selects by {', '.join(pod.selects)}")

    modes = _eligible_modes(pod)
    preferred = _preferred_modes(pod, modes)
    warnings = tuple(_doubts(pod))
    eligible = [pool for pool in pools if pool.schedule in modes]
    if not eligible:
        message = _explain_none(pod, modes)
        if pod.isolation == names.ISOLATION_REQUIRED:
            # Refused rather than run without, on whatever node has room for it.
            return Decision(Reason.ISOLATION_UNAVAILABLE, message, is_refused=True)
        return Decision(Reason.NO_ELIGIBLE_POOL, message, warnings=(*warnings, message))

    chosen = min(
        eligible,
        key=lambda pool: (pool.schedule not in preferred, -pool.priority, pool.name),
    )
    message = f"pool {chosen.name} ({chosen.schedule}) of {len(eligible)} eligible"
    selector: tuple[tuple[str, str], ...] = ((names.LABEL_POOL, chosen.name),)
    if pod.isolation == names.ISOLATION_REQUIRED:
        selector += tuple(MODES[chosen.edition, chosen.schedule].labels.items())
    if chosen.schedule in preferred:
        return Decision(Reason.ROUTED, message, chosen.name, selector, warnings)
    if chosen.schedule is Schedule.SHARE:
        warning = (
            f"sent to pool {chosen.name}, which does not isolate GPU memory: no pool that does "
            "takes this pod"
        )
        reason = Reason.ROUTED_WITHOUT_ISOLATION
        return Decision(reason, message, chosen.name, selector, (*warnings, warning))
    warning = (
        f"sent to pool {chosen.name} ({chosen.schedule}), where others count on isolation: there "
        f"is no share pool for a pod that sets {names.ENV_CGPU_DISABLE}"
    )
    return Decision(Reason.ROUTED, message, chosen.name, selector, (*warnings, warning))


def _eligible_modes(pod: PodRequest) -> frozenset[Schedule]:
    modes = CORE_SCHEDULES if names.RESOURCE_GPU_CORE in pod.resources else MEMORY_SCHEDULES
    if pod.isolation == names.ISOLATION_REQUIRED:
        return modes & REQUIRED_SCHEDULES
    if pod.isolation == names.ISOLATION_NONE:
        return modes - ISOLATED_SCHEDULES
    return modes


def _preferred_modes(pod: PodRequest, modes: frozenset[Schedule]) -> frozenset[Schedule]:
    if pod.isolation in _ISOLATIONS:
        return modes
    return modes - ISOLATED_SCHEDULES if pod.disables_isolation else modes & ISOLATED_SCHEDULES


def _doubts(pod: PodRequest) -> list[str]:
    doubts = []
    if pod.isolation and pod.isolation not in _ISOLATIONS:
        doubts.append(
            f"annotation {names.ANNOTATION_ISOLATION} is neither {' nor '.join(_ISOLATIONS)} "
            "and was ignored"
        )
    if pod.isolation == names.ISOLATION_REQUIRED and pod.disables_isolation:
        doubts.append(
            f"isolation is required, but {names.ENV_CGPU_DISABLE} turns it off in every "
            "container; remove one of them"
        )
    if names.RESOURCE_GPU_MEMORY not in pod.resources:
        doubts.append(
            f"{names.RESOURCE_GPU_CORE} without {names.RESOURCE_GPU_MEMORY}: the scheduler "
            "gives a card only to pods that ask for both"
        )
    return doubts


def _explain_none(pod: PodRequest, modes: frozenset[Schedule]) -> str:
    asked = " and ".join(sorted(pod.resources))
    if not modes:
        return f"not sent to a pool: no mode gives {asked} with isolation {pod.isolation}"
    listed = ", ".join(sorted(modes))
    return f"not sent to a pool: none has the schedule for {asked} ({listed})"
