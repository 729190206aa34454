"""Plays the kubelet's admission of pods to a node, and their status."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from devcluster import names
from devcluster.simulator.affinity import selects
from devcluster.simulator.allocation import (
    Got,
    give_shared,
    give_unaccounted,
    give_whole,
)
from devcluster.simulator.components import Runs, is_mps_running
from devcluster.simulator.devices import Endpoints, has_expired
from devcluster.simulator.faults import Faults
from devcluster.simulator.ledger import find_assumed
from devcluster.simulator.objects import Container, Node, Pod, Shown
from devcluster.simulator.plugin import Read
from devcluster.simulator.sharing import Config
from devcluster.simulator.status import Look, PodStatus
from devcluster.simulator.usage import OUT_OF_MEMORY

LONGEST_BACKOFF_SECONDS = 60
STARTING_SECONDS = 3.0
"""Time after its admission for which a pod counts as Pending, as while real containers start; for a
plugin that looks for Pending pods. The simulated containers run at once."""


@dataclass(frozen=True)
class Admission:
    """The final result of a pod's admission."""

    at: float = 0.0
    got: Mapping[str, Got] = field(default_factory=dict)  # by container
    demand: Mapping[str, int] = field(default_factory=dict)  # devices held, by resource
    reason: str = ""  # of a refusal
    message: str = ""


@dataclass(frozen=True)
class Crash:
    """A container in a crash loop."""

    restarts: int
    retry_at: float


@dataclass(frozen=True)
class Door:
    """State of the kubelet and its plugins at an admission."""

    node: Node
    pods: tuple[Pod, ...]
    endpoints: Endpoints
    runs: Runs
    module: str
    faults: Faults
    admissions: Mapping[str, Admission]
    settled: Mapping[str, float]  # UIDs whose ASSIGNED a plugin has set, and when


def admit(pod: Pod, door: Door, now: float) -> tuple[Admission, dict[str, float]]:
    """Admit a bound pod or refuse it, and return the pods that its Allocate calls settled.

    Source: kubelet asks the device manager container by container, then checks resources and the
    node selector again; a refusal makes the pod Failed for good.
    """
    demand = _demand(pod)
    for resource, wanted in demand.items():
        if refusal := _find_refusal(resource, wanted, door, now):
            return _refuse(now, *refusal), {}
    if not selects(pod, door.node):
        message = "Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector"
        return _refuse(now, "NodeAffinity", message), {}
    got: dict[str, Got] = {}
    settled: dict[str, float] = {}
    starting = {uid for uid, a in door.admissions.items() if now < a.at + STARTING_SECONDS}
    taken = [c for a in door.admissions.values() for g in a.got.values() for c in g.cards]
    for container in pod.containers:
        if units := container.limits.get(names.GPU_MEM, 0):
            endpoint = door.endpoints[names.GPU_MEM]
            assumed = find_assumed(door.pods, units, door.settled, starting)
            cards = assumed[1] if assumed else {0: units} if door.node.cards == 1 else None
            if assumed:
                settled[assumed[0].uid] = now
            run = door.runs.get(endpoint.plugin)
            got[container.name] = give_shared(
                pod,
                container,
                door.node,
                cards,
                plugin=endpoint.plugin,
                read=run.read if run else Read(),
                module=door.module,
                mps_running=is_mps_running(door.runs),
                faults=door.faults,
            )
        elif whole := _whole_card_resource(container.limits):
            count, plugin = container.limits[whole], door.endpoints[whole].plugin
            run = door.runs.get(plugin)
            config = run.read.config if run else Config()
            if config.single and count > 1:
                cause = (
                    f"rpc error: code = Unknown desc = invalid allocation request for {whole!r}: "
                    f"maximum request size for shared resources is 1; found {count}"
                )
                return _refuse(now, *_fail_to_allocate(cause)), {}
            got[container.name] = one = give_whole(
                count, taken, door.node, plugin=plugin, replicas=config.replicas
            )
            taken += one.cards
        elif door.node.cards and (container.is_unaccounted or not demand):
            got[container.name] = give_unaccounted(door.node)
    return Admission(now, got, demand), settled


def plan_status(
    pod: Pod, admission: Admission, crashes: Mapping[tuple[str, str], Crash]
) -> PodStatus:
    """Plan the status of an admitted or refused pod."""
    if admission.reason:
        return PodStatus("Failed", {}, admission.reason, admission.message)
    looks: dict[str, Look] = {}
    for container in pod.containers:
        crash = crashes.get((pod.uid, container.name))
        got = admission.got.get(container.name)
        restarts = max(_requested_restarts(pod), _shown_restarts(pod, container))
        if got and got.start_error:
            looks[container.name] = Look(Shown(waiting="RunContainerError"), got.start_error)
        elif crash and pod.restart_policy == "Never":
            looks[container.name] = Look(Shown(), last_message=OUT_OF_MEMORY)
        elif crash:
            back_off = f"back-off restarting failed container={container.name} pod={pod.name}"
            shown = Shown(waiting="CrashLoopBackOff", restarts=max(crash.restarts, restarts))
            looks[container.name] = Look(shown, back_off, OUT_OF_MEMORY)
        else:
            looks[container.name] = Look(Shown(running=True, ready=True, restarts=restarts))
    if any(not look.shown.running and not look.shown.waiting for look in looks.values()):
        return PodStatus("Failed", looks)
    waiting = any(look.shown.waiting == "RunContainerError" for look in looks.values())
    return PodStatus("Pending" if waiting else "Running", looks)


def plan_crashes(
    crashes: Mapping[tuple[str, str], Crash],
    failing: Iterable[tuple[str, str]],
    pods: Iterable[Pod],
    now: float,
) -> dict[tuple[str, str], Crash]:
    """Continue the crash loops of failing containers (pod UID, name), and end the others."""
    shown = {(pod.uid, name): look.restarts for pod in pods for name, look in pod.shown.items()}
    going: dict[tuple[str, str], Crash] = {}
    for key in failing:
        crash = crashes.get(key, Crash(shown.get(key, 0), now))
        if crash.retry_at <= now:
            restarts = crash.restarts + 1
            crash = Crash(restarts, now + min(2**restarts, LONGEST_BACKOFF_SECONDS))
        going[key] = crash
    return going


def _demand(pod: Pod) -> dict[str, int]:
    resources = {resource for container in pod.containers for resource in container.limits}
    return {resource: n for resource in sorted(resources) if (n := pod.demand(resource))}


def _find_refusal(resource: str, wanted: int, door: Door, now: float) -> tuple[str, str] | None:
    """Find the reason and message of a refusal; None where the pod is admitted.

    The device manager has no expired resource, unless a pod holds a device of it: then the node's
    resources decide.
    """
    endpoint = door.endpoints.get(resource)
    held = sum(admission.demand.get(resource, 0) for admission in door.admissions.values())
    if endpoint is None or has_expired(endpoint, door.faults, now):
        if not held:
            return (
                f"OutOf{resource}",
                f"Node didn't have enough resource: {resource}, "
                f"requested: {wanted}, used: 0, capacity: 0",
            )
        cause = f"cannot allocate unregistered device {resource}"
    elif not endpoint.healthy:
        cause = f"no healthy devices present; cannot allocate unhealthy devices {resource}"
    elif wanted > endpoint.healthy - held:
        cause = (
            f"requested number of devices unavailable for {resource}. "
            f"Requested: {wanted}, Available: {max(0, endpoint.healthy - held)}"
        )
    else:
        return None
    return _fail_to_allocate(cause)


def _fail_to_allocate(cause: str) -> tuple[str, str]:
    return "UnexpectedAdmissionError", f"Allocate failed due to {cause}, which is unexpected"


def _refuse(now: float, reason: str, message: str) -> Admission:
    return Admission(now, reason=reason, message=f"Pod was rejected: {message}")


def _whole_card_resource(limits: Mapping[str, int]) -> str | None:
    whole = (names.WHOLE_CARD, names.SHARED_CARD, names.TOPOLOGY_CARD)
    return next((resource for resource in whole if limits.get(resource)), None)


def _shown_restarts(pod: Pod, container: Container) -> int:
    return pod.shown.get(container.name, Shown()).restarts


def _requested_restarts(pod: Pod) -> int:
    text = pod.annotations.get(names.RESTART_CONTAINER, "")
    return int(text) if text.isdigit() else 0
