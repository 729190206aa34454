"""What isolation containers really have, and where it is not what their node's mode gives.

Where nothing was written down, nothing is claimed.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from gpushare.api.k8s.pod import Pod, SharingContainer
from gpushare.api.pool import Schedule
from gpushare.core.snapshot.admissions import find_admissions
from gpushare.core.snapshot.node import NodeSnapshot
from gpushare.editions.edition import Mode
from gpushare.editions.registry import MODES

MAX_SAMPLES = 20
_BY_KERNEL = frozenset({Schedule.CGPU, Schedule.CORE_MEM})


@dataclass(frozen=True, slots=True)
class Claim:
    """What is known of one container that shares a card."""

    node: str
    pod: Pod
    container: str
    mode: Schedule | None
    """That of its node; None while no record says."""
    admitted: Schedule | None
    """The mode under which its pod was admitted; None where nobody knows."""
    isolated: bool | None
    """Whether it is kept to its share of GPU memory; None where nobody knows."""
    is_stale: bool = False
    """That is known, and not what the node's mode gives."""
    is_opted_out: bool = False
    """The node's mode isolates, and its own environment takes that off."""


@dataclass(frozen=True, slots=True)
class NodeIsolation:
    """The claims about one node, added up."""

    containers: int = 0
    isolated: int = 0
    stale: int = 0
    opted_out: int = 0
    unknown: int = 0
    samples: tuple[Claim, ...] = ()
    """Stale ones, at most `MAX_SAMPLES`."""


NOTHING_SHARED = NodeIsolation()


def claim_isolation(seen: NodeSnapshot) -> tuple[Claim, ...]:
    """A claim for each container on the node that runs and shares a card."""
    sharing = [pod for pod in seen.pods if pod.containers and pod.phase == "Running"]
    if not sharing:
        return ()
    admissions, mode = find_admissions(seen), seen.records.mode
    return tuple(
        _claim(seen.node.name, mode, pod, container, admissions.get(pod.uid))
        for pod in sorted(sharing, key=lambda pod: (pod.namespace, pod.name))
        for container in pod.containers
    )


def find_stale_pods(seen: NodeSnapshot) -> tuple[Pod, ...]:
    """Pods with a container whose isolation is not what the node's mode gives."""
    stale = {claim.pod.uid: claim.pod for claim in claim_isolation(seen) if claim.is_stale}
    return tuple(stale.values())


def observe_isolation(seen: NodeSnapshot) -> NodeIsolation:
    """The claims about the node, added up."""
    claims = claim_isolation(seen)
    if not claims:
        return NOTHING_SHARED
    stale = tuple(claim for claim in claims if claim.is_stale)
    return NodeIsolation(
        containers=len(claims),
        isolated=sum(claim.isolated is True for claim in claims),
        stale=len(stale),
        opted_out=sum(claim.is_opted_out for claim in claims),
        unknown=sum(claim.isolated is None for claim in claims),
        samples=stale[:MAX_SAMPLES],
    )


def sum_isolation(nodes: Iterable[NodeIsolation]) -> NodeIsolation:
    """The sums of a pool's nodes, with the first samples."""
    nodes = list(nodes)
    samples = (claim for node in nodes for claim in node.samples)
    return NodeIsolation(
        containers=sum(node.containers for node in nodes),
        isolated=sum(node.isolated for node in nodes),
        stale=sum(node.stale for node in nodes),
        opted_out=sum(node.opted_out for node in nodes),
        unknown=sum(node.unknown for node in nodes),
        samples=tuple(
            sorted(samples, key=lambda c: (c.node, c.pod.namespace, c.pod.name, c.container))
        )[:MAX_SAMPLES],
    )


def _claim(
    node: str, mode: Mode | None, pod: Pod, container: SharingContainer, admitted: Schedule | None
) -> Claim:
    if mode is None:
        return Claim(node, pod, container.name, None, None, None)
    opts_out = container.opts_out is True
    isolated = _isolates(admitted, container) if admitted is not None else None
    if admitted is None and opts_out and (mode.edition, Schedule.MPS) not in MODES:
        # Under whichever mode it was admitted: only MPS does not read CGPU_DISABLE.
        isolated = False
    gives = _isolates(mode.schedule, container)
    return Claim(
        node=node,
        pod=pod,
        container=container.name,
        mode=mode.schedule,
        admitted=admitted,
        isolated=isolated,
        is_stale=isolated is not None and gives is not None and isolated is not gives,
        is_opted_out=mode.isolated and opts_out,
    )


def _isolates(mode: Schedule, container: SharingContainer) -> bool | None:
    """What a mode gives to a container that is admitted under it.

    CGPU_DISABLE is read by cGPU alone (vendor's guide on cGPU), not by the MPS daemon.
    """
    if mode is Schedule.MPS:
        return True
    if mode not in _BY_KERNEL:
        return False
    return None if container.opts_out is None else not container.opts_out
