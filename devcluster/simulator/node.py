"""One node's turn: from what the API server shows and what the node remembers to what it writes.

Pure. A node's memory is what lives in processes and in the kernel there, not in the API server.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from devcluster import names
from devcluster.simulator import components, kubelet
from devcluster.simulator.allocation import (
    build_record,
    card_total_mib,
    parse_record,
)
from devcluster.simulator.components import Run
from devcluster.simulator.devices import (
    Endpoint,
    find_report,
    lose,
    register,
    report_times,
)
from devcluster.simulator.faults import Faults
from devcluster.simulator.kubelet import Admission, Crash, Door
from devcluster.simulator.ledger import build_assigned
from devcluster.simulator.objects import CARD_RESOURCES, Node, Object, Pod, parse_quantity
from devcluster.simulator.plugin import (
    EVICTOR,
    INSTALLERS,
    MODULE_NAME,
    RECOVERER,
    STATIC_PLUGIN,
    Edition,
    offered,
)
from devcluster.simulator.status import (
    PodStatus,
    build_pod_status,
    build_ready_condition,
    parse_timestamp,
)
from devcluster.simulator.usage import find_uses, plan_memory


@dataclass(frozen=True)
class Memory:
    """What a node remembers from turn to turn."""

    node_uid: str
    boot_id: str
    module: str = ""  # the loaded kernel module
    evicted: bool = False  # the static whole-card plugin's manifest has been taken away
    runs: Mapping[str, Run] = field(default_factory=dict)
    endpoints: Mapping[str, Endpoint] = field(default_factory=dict)
    bound_at: Mapping[str, float] = field(default_factory=dict)  # pods not admitted yet, by UID
    admissions: Mapping[str, Admission] = field(default_factory=dict)
    settled: Mapping[str, float] = field(default_factory=dict)  # pods marked ASSIGNED, by UID
    crashes: Mapping[tuple[str, str], Crash] = field(default_factory=dict)


@dataclass(frozen=True)
class PodWrite:
    """A patch of a pod's status and of the simulator's and the ledger's annotations on it."""

    pod: Pod
    body: Object


@dataclass(frozen=True)
class Turn:
    """What one turn of a node comes to."""

    memory: Memory
    node_patch: Object | None
    pod_writes: tuple[PodWrite, ...]
    wake_at: float | None  # when something changes by itself


def recall(node: Node, pods: tuple[Pod, ...], now: float) -> Memory:
    """Return the memory of a node that the simulator meets, perhaps not for the first time."""
    runs = components.resume(pods, now)
    endpoints: dict[str, Endpoint] = {
        resource: Endpoint("", count, lost_at=now)
        for resource in CARD_RESOURCES
        if (count := parse_quantity(node.capacity.get(resource, "0")))
    }
    for uid, run in runs.items():
        if run.serving:
            devices = offered(run.daemonset, node)
            silent = all(node.allocatable.get(resource) == "0" for resource in devices)
            endpoints = register(endpoints, uid, devices, silent=silent)
    sharing = "true" in (node.labels.get(names.CGPU), node.labels.get(names.GPUSHARE))
    admissions = {
        pod.uid: Admission(
            parse_timestamp(pod.started),
            got,
            {r: n for r in CARD_RESOURCES if (n := pod.demand(r))},
        )
        for pod in pods
        if (got := parse_record(pod.annotations.get(names.CONTAINERS))) is not None
    }
    return Memory(
        node_uid=node.uid,
        boot_id=node.boot_id,
        module=node.annotations.get(names.MODULE, ""),
        evicted=sharing or node.capacity.get(names.WHOLE_CARD) == "0",
        runs=runs,
        endpoints=endpoints,
        admissions=admissions,
    )


def play(
    memory: Memory,
    node: Node,
    pods: tuple[Pod, ...],
    *,
    faults: Faults,
    edition: Edition | None,
    now: float,
) -> Turn:
    """Play a node up to `now`.

    `node` must be read after the components that start in this turn were seen
    (`components.find_starting`): it is what they read. `now` is in seconds since the epoch.
    """
    memory = _reboot(memory, node, now)
    memory = _run_components(memory, node, pods, faults, now)
    memory = _serve_static_plugin(memory, node, faults, edition, now)
    memory = _admit(memory, node, pods, faults, now)
    uses = [
        use
        for pod in sorted(pods, key=lambda p: (_admission(memory, p).at, p.created, p.key))
        for use in find_uses(pod, dict(_admission(memory, pod).got))
    ]
    used_mib, failing = plan_memory(uses, card_total_mib(node))
    crashes = kubelet.plan_crashes(memory.crashes, failing, pods, now)
    memory = replace(memory, crashes=crashes)
    overused = used_mib if any(names.USES_GIB in pod.annotations for pod in pods) else {}
    return Turn(
        memory,
        _plan_node_patch(memory, node, faults, overused, now),
        () if faults.not_ready else _plan_pod_writes(memory, pods, faults, now),
        _wake_at(memory, faults, now),
    )


def _reboot(memory: Memory, node: Node, now: float) -> Memory:
    """Every process starts again, and a module whose files were removed is not loaded again."""
    if node.boot_id == memory.boot_id:
        return memory
    return replace(
        memory,
        boot_id=node.boot_id,
        module="" if names.UNINSTALL in node.annotations else memory.module,
        runs={},
        endpoints=lose(memory.endpoints, {e.plugin for e in memory.endpoints.values()}, now),
    )


def _run_components(
    memory: Memory, node: Node, pods: tuple[Pod, ...], faults: Faults, now: float
) -> Memory:
    ended = components.find_ended(memory.runs, pods)
    restarting = {pod.uid for pod in components.find_starting(memory.runs, pods)}
    endpoints = lose(memory.endpoints, ended, now)
    runs: dict[str, Run] = {uid: run for uid, run in memory.runs.items() if uid not in ended}
    if faults.not_ready:
        return replace(memory, runs=runs, endpoints=endpoints)
    endpoints = lose(endpoints, restarting, now)
    runs = components.start(runs, pods, node, memory.module, now)
    runs = components.get_ready(runs, faults, now)
    for uid, run in runs.items():
        due = components.register_time(run, faults)
        if due is not None and due <= now:
            endpoints = _register(endpoints, uid, run, node, faults)
            runs[uid] = replace(run, serving=True)
    if not faults.resource_zero:
        endpoints = {r: replace(e, silent=False) for r, e in endpoints.items()}
    installed = any(run.daemonset in INSTALLERS and run.is_ready for run in runs.values())
    return replace(
        memory,
        runs=runs,
        endpoints=endpoints,
        module=MODULE_NAME if installed else memory.module,
    )


def _register(
    endpoints: Mapping[str, Endpoint], uid: str, run: Run, node: Node, faults: Faults
) -> dict[str, Endpoint]:
    devices = offered(run.daemonset, node)
    if run.read.mode:  # Professional: enabling a mode sets the other modes' resources to "0"
        others = set(endpoints) | (set(node.capacity) & set(CARD_RESOURCES))
        endpoints = register(endpoints, uid, dict.fromkeys(others - set(devices), 0))
    return register(endpoints, uid, devices, silent=faults.resource_zero)


def _serve_static_plugin(
    memory: Memory, node: Node, faults: Faults, edition: Edition | None, now: float
) -> Memory:
    """Basic and OpenSource: whole cards come from a static pod that other DaemonSets manage."""
    running = {run.daemonset for run in memory.runs.values()}
    recovered = any(r.daemonset == RECOVERER and r.is_ready for r in memory.runs.values())
    evicted = not recovered and memory.evicted
    if running & {EVICTOR, "gpushare-device-plugin-ds"} or node.labels.get(names.CGPU) == "true":
        evicted = True
    wanted = edition in ("Basic", "OpenSource") and not evicted and node.cards > 0
    endpoint = memory.endpoints.get(names.WHOLE_CARD)
    served = endpoint is not None and endpoint.plugin == STATIC_PLUGIN and endpoint.lost_at is None
    endpoints = memory.endpoints
    if wanted and not served and not faults.whole_card_never_returns:
        endpoints = register(
            endpoints,
            STATIC_PLUGIN,
            {names.WHOLE_CARD: node.cards},
            silent=faults.resource_zero,
        )
    elif served and not wanted:
        endpoints = lose(endpoints, [STATIC_PLUGIN], now)
    return replace(memory, evicted=evicted, endpoints=endpoints)


def _admit(memory: Memory, node: Node, pods: tuple[Pod, ...], faults: Faults, now: float) -> Memory:
    here = {pod.uid: pod for pod in pods if not pod.is_component}
    admissions = {uid: a for uid, a in memory.admissions.items() if uid in here}
    settled = {uid: at for uid, at in memory.settled.items() if uid in here}
    waiting = {
        uid: memory.bound_at.get(uid, now)
        for uid, pod in here.items()
        if uid not in admissions and not pod.terminating and not pod.is_finished
    }
    for uid in sorted(waiting, key=lambda uid: (waiting[uid], here[uid].created, here[uid].key)):
        if faults.not_ready or now < waiting[uid] + faults.kubelet_delay_seconds:
            continue
        door = Door(
            node,
            pods,
            memory.endpoints,
            memory.runs,
            memory.module,
            faults,
            admissions,
            settled,
        )
        admissions[uid], marks = kubelet.admit(here[uid], door, now)
        settled |= marks
        del waiting[uid]
    return replace(memory, admissions=admissions, settled=settled, bound_at=waiting)


def _plan_node_patch(
    memory: Memory, node: Node, faults: Faults, used_mib: Mapping[int, int], now: float
) -> Object | None:
    capacity: dict[str, str | None] = {}
    allocatable: dict[str, str | None] = {}
    for resource, endpoint in memory.endpoints.items():
        if report := find_report(endpoint, faults, now):
            capacity[resource] = report.capacity
            allocatable[resource] = report.allocatable
    if any(names.GPU_MEM in offered(run.daemonset, node) for run in memory.runs.values()):
        capacity[names.GPU_COUNT] = allocatable[names.GPU_COUNT] = str(node.cards)
    status: Object = {
        field_name: changed
        for field_name, wanted, shown in (
            ("capacity", capacity, node.capacity),
            ("allocatable", allocatable, node.allocatable),
        )
        if (changed := {r: v for r, v in wanted.items() if shown.get(r) != v})
    }
    if condition := build_ready_condition(node, not faults.not_ready, now):
        status["conditions"] = [condition]
    used_gib = {str(card): round(mib / 1024, 2) for card, mib in sorted(used_mib.items())}
    notes = {
        names.MODULE: memory.module or None,
        names.MEMORY_USED: json.dumps(used_gib) if used_gib else None,
    }
    notes = {key: value for key, value in notes.items() if node.annotations.get(key) != value}
    if not status and not notes:
        return None
    metadata: Object = {"uid": node.uid}
    if notes:
        metadata["annotations"] = notes
    return {"metadata": metadata, "status": status} if status else {"metadata": metadata}


def _plan_pod_writes(
    memory: Memory, pods: tuple[Pod, ...], faults: Faults, now: float
) -> tuple[PodWrite, ...]:
    writes = []
    for pod in pods:
        if pod.terminating or pod.is_finished:
            continue
        notes: dict[str, str] = {}
        status: PodStatus | None = None
        if run := memory.runs.get(pod.uid):
            notes[names.READ] = run.read.to_json()
            status = components.plan_status(pod, run, faults)
        elif admission := memory.admissions.get(pod.uid):
            if not admission.reason and (admission.got or pod.is_played):
                notes[names.CONTAINERS] = build_record(admission.got)
            if pod.is_played:
                status = kubelet.plan_status(pod, admission, memory.crashes)
        if at := memory.settled.get(pod.uid):
            notes |= build_assigned(pod, at)
        metadata: Object = {"uid": pod.uid}
        if any(pod.annotations.get(key) != value for key, value in notes.items()):
            metadata["annotations"] = notes
        body: Object = {"metadata": metadata}
        if status and not status.is_shown_by(pod):
            body["status"] = build_pod_status(pod, status, now)
        if len(metadata) > 1 or "status" in body:
            writes.append(PodWrite(pod, body))
    return tuple(writes)


def _wake_at(memory: Memory, faults: Faults, now: float) -> float | None:
    times: list[float] = [crash.retry_at for crash in memory.crashes.values()]
    for endpoint in memory.endpoints.values():
        times += report_times(endpoint, faults)
    if not faults.not_ready:
        times += [at + faults.kubelet_delay_seconds for at in memory.bound_at.values()]
        for run in memory.runs.values():
            due = (
                components.register_time(run, faults)
                if run.is_ready
                else components.ready_time(run, faults)
            )
            times += [] if due is None else [due]
    return min((time for time in times if time > now), default=None)


def _admission(memory: Memory, pod: Pod) -> Admission:
    return memory.admissions.get(pod.uid, Admission())
