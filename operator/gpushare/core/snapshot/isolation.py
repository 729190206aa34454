"""Finds the actual isolation of containers, and where it differs from their node's mode.

Where nothing was written down, nothing is said.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from gpushare.api.k8s.pod import Pod, SharingContainer
from gpushare.api.pool import ModeName, Schedule
from gpushare.core.snapshot.admissions import find_admissions
from gpushare.core.snapshot.node import NodeSnapshot
from gpushare.editions.edition import Mode
from gpushare.editions.registry import MODES

MAX_SAMPLES = 20
_BY_KERNEL = frozenset({Schedule.CGPU, Schedule.CORE_MEM})


@dataclass(frozen=True, slots=True)
class ContainerIsolation:
    """The isolation of one container that shares a card."""

    node: str
    pod: Pod
    container: str
    mode: ModeName | None
    """Mode of the container's node; None without a record of it."""
    admitted: ModeName | None
    """The mode under which its pod was admitted; None where nobody knows."""
    isolated: bool | None
    """Whether the container is limited to its share of GPU memory; None where that is not known."""
    is_stale: bool = False
    """Whether the isolation is known and differs from that of the node's mode."""
    is_opted_out: bool = False
    """The node's mode isolates, and its own environment takes that off."""


@dataclass(frozen=True, slots=True)
class NodeIsolation:
    """The isolation of the containers of one node, or of several, summed."""

    containers: int = 0
    isolated: int = 0
    stale: int = 0
    opted_out: int = 0
    unknown: int = 0
    samples: tuple[ContainerIsolation, ...] = ()
    """Stale ones, at most `MAX_SAMPLES`."""


NOTHING_SHARED = NodeIsolation()


def observe_containers(seen: NodeSnapshot) -> tuple[ContainerIsolation, ...]:
    """Return what is known of each running container on the node that shares a card.

    One whose pod seems to have got no card is never called isolated. It is not left out: a tenant
    can write what says so.
    """
    sharing = [pod for pod in seen.pods if pod.containers and pod.phase == "Running"]
    if not sharing:
        return ()
    admissions, mode = find_admissions(seen), seen.records.mode
    without = {pod.uid for pod in find_pods_without_card(seen)}
    found = (
        _observe_container(seen.node.name, mode, pod, container, admissions.get(pod.uid))
        for pod in sorted(sharing, key=lambda pod: (pod.namespace, pod.name))
        for container in pod.containers
    )
    return tuple(
        replace(each, isolated=None) if each.isolated and each.pod.uid in without else each
        for each in found
    )


def find_pods_without_card(seen: NodeSnapshot) -> list[Pod]:
    """Find running pods to which the plugin gave no card, such as one with two GPU containers.

    It does not refuse their containers, but has them look for a card `no-gpu-has-3GiB-to-run`
    (open-source gpushare-device-plugin); NVIDIA's runtime does not start those. On a node of one
    card it gives that to whoever asks.
    """
    has_several = seen.node.gpu_count > 1
    return [
        pod
        for pod in seen.pods
        if pod.phase == "Running"
        and (pod.has_card is False or (pod.has_card is None and has_several))
    ]


def find_stale_pods(seen: NodeSnapshot) -> tuple[Pod, ...]:
    """Find pods with a container whose isolation is not what the node's mode gives."""
    stale = {each.pod.uid: each.pod for each in observe_containers(seen) if each.is_stale}
    return tuple(stale.values())


def observe_isolation(seen: NodeSnapshot) -> NodeIsolation:
    """Sum what is known of the containers on the node."""
    found = observe_containers(seen)
    if not found:
        return NOTHING_SHARED
    stale = tuple(each for each in found if each.is_stale)
    return NodeIsolation(
        containers=len(found),
        isolated=sum(each.isolated is True for each in found),
        stale=len(stale),
        opted_out=sum(each.is_opted_out for each in found),
        unknown=sum(each.isolated is None for each in found),
        samples=stale[:MAX_SAMPLES],
    )


def sum_isolation(nodes: Iterable[NodeIsolation]) -> NodeIsolation:
    """Sum the isolation of a pool's nodes, with the first samples."""
    nodes = list(nodes)
    samples = (each for node in nodes for each in node.samples)
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


def _observe_container(
    node: str,
    mode: Mode | None,
    pod: Pod,
    container: SharingContainer,
    admitted: ModeName | None,
) -> ContainerIsolation:
    if mode is None:
        return ContainerIsolation(node, pod, container.name, None, None, None)
    opts_out = container.opts_out is True
    isolated = _isolates(admitted, container) if admitted is not None else None
    if admitted is None and opts_out and (mode.edition, Schedule.MPS) not in MODES:
        # Under whichever mode it was admitted: only MPS does not read CGPU_DISABLE.
        isolated = False
    gives = _isolates(mode.schedule, container)
    return ContainerIsolation(
        node=node,
        pod=pod,
        container=container.name,
        mode=mode.schedule,
        admitted=admitted,
        isolated=isolated,
        is_stale=isolated is not None and gives is not None and isolated is not gives,
        is_opted_out=mode.isolated and opts_out,
    )


def _isolates(mode: ModeName, container: SharingContainer) -> bool | None:
    """Tell whether a mode isolates a container that is admitted under it; None: unknown.

    CGPU_DISABLE is read by cGPU alone (vendor's guide on cGPU), not by the MPS daemon. MPS isolates
    memory only together with cGPU (vendor's page on MPS), which no node shows.
    """
    if mode is Schedule.MPS:
        return None
    if mode not in _BY_KERNEL:
        return False
    return None if container.opts_out is None else not container.opts_out
