"""Plays a turn of a node without I/O: from the API server's state and the node's to writes."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from devcluster import names
from devcluster.apiobject import Object
from devcluster.plugins import build_static_plugin
from devcluster.simulator import boot, components, kubelet, teardown
from devcluster.simulator.allocation import build_record, card_total_mib
from devcluster.simulator.components import Run, is_installed
from devcluster.simulator.devices import (
    Endpoint,
    expiry_time,
    lose,
    register,
)
from devcluster.simulator.faults import Faults
from devcluster.simulator.kubelet import Admission, Door
from devcluster.simulator.ledger import build_assigned
from devcluster.simulator.memory import Memory
from devcluster.simulator.objects import CARD_RESOURCES, Node, Pod
from devcluster.simulator.plugin import (
    EVICTOR,
    MODULE_NAME,
    NVIDIA,
    RECOVERER,
    STATIC_PLUGIN,
    Edition,
    may_serve,
)
from devcluster.simulator.report import find_report_time, plan_label_patch, plan_node_patch
from devcluster.simulator.sharing import NO_CONFIGS, Configs
from devcluster.simulator.status import (
    PodStatus,
    build_pod_status,
)
from devcluster.simulator.usage import find_uses, plan_memory


@dataclass(frozen=True)
class PodWrite:
    """A patch of a pod's status and of the simulator's and the ledger's annotations on it."""

    pod: Pod
    body: Object


@dataclass(frozen=True)
class Outcome:
    """The result of a turn of a node."""

    memory: Memory
    node_patch: Object | None
    pod_writes: tuple[PodWrite, ...]
    new_pods: tuple[Object, ...]
    label_patch: Object | None  # of node feature discovery
    due_at: float | None  # when something changes by itself


def play(
    memory: Memory,
    node: Node,
    pods: tuple[Pod, ...],
    *,
    faults: Faults,
    edition: Edition | None,
    now: float,
    configs: Configs = NO_CONFIGS,
) -> Outcome:
    """Play a node up to `now`.

    `node` must be read after the components that read it in this turn were listed
    (`boot.find_reading`). `now` is in seconds since the epoch.
    """
    memory = boot.shut_down(boot.reboot(memory, node, faults, now), node, now)
    if memory.down_since is not None:
        faults = replace(faults, not_ready=True)
    memory = boot.start_kubelet(memory, faults, now)
    memory = _run_components(memory, node, pods, configs, faults, now)
    memory = _serve_static_plugin(memory, node, faults, edition, now)
    memory = _admit(memory, node, pods, faults, now)
    memory = _run_jobs(memory, pods, faults, now)
    uses = [
        use
        for pod in sorted(pods, key=lambda p: (_admission(memory, p).at, p.created, p.key))
        for use in find_uses(pod, _admission(memory, pod).got, faults.memory_unit_mib)
    ]
    used_mib, failing = plan_memory(uses, card_total_mib(node))
    crashes = kubelet.plan_crashes(memory.crashes, failing, pods, now)
    memory = replace(memory, crashes=crashes)
    memory = replace(memory, report_at=find_report_time(memory, node, faults, now))
    overused = used_mib if any(names.USES_GIB in pod.annotations for pod in pods) else {}
    return Outcome(
        memory,
        plan_node_patch(memory, node, faults, overused, now),
        () if faults.not_ready else _plan_pod_writes(memory, node, pods, configs, faults, now),
        () if faults.not_ready else _plan_mirror_pod(node, pods),
        plan_label_patch(memory, node),
        _wake_at(memory, faults, now),
    )


def _run_components(
    memory: Memory,
    node: Node,
    pods: tuple[Pod, ...],
    configs: Configs,
    faults: Faults,
    now: float,
) -> Memory:
    ended = components.find_ended(memory.runs, pods, node)
    endpoints = lose(memory.endpoints, ended, now)
    runs: dict[str, Run] = {uid: run for uid, run in memory.runs.items() if uid not in ended}
    if faults.not_ready:
        return replace(memory, runs=runs, endpoints=endpoints)
    starting = components.find_starting(runs, pods, node, configs)
    rebuilt = components.find_rebuilt(
        runs, pods, node, configs, kubelet_restarted=boot.has_kubelet_restarted(memory, node)
    )
    memory = boot.restart_kubelet(memory, node, now)
    endpoints = lose(endpoints, [pod.process for pod in (*starting, *rebuilt)], now)
    runs = components.rebuild(runs, rebuilt, node, memory.module, configs, faults, now)
    runs = components.start(runs, starting, node, memory.module, configs, faults, now)
    runs = components.get_ready(runs, faults, now)
    for process, run in runs.items():
        due = components.register_time(run, faults)
        if not may_serve(run.component, node):
            endpoints = lose(endpoints, [process], now)
            runs[process] = replace(run, serving=False)
        elif due is None or due > now:
            continue
        elif components.waits_for_daemon(run, runs):
            runs[process] = replace(run, retry_at=now + faults.mps_retry_seconds)
        else:
            endpoints = _register(endpoints, process, run, node, faults)
            runs[process] = replace(run, serving=True)
    if not faults.resource_zero:
        endpoints = {r: replace(e, silent=False) for r, e in endpoints.items()}
    module = MODULE_NAME if is_installed(runs) else memory.module
    return replace(memory, runs=runs, endpoints=endpoints, module=module)


def _register(
    endpoints: Mapping[str, Endpoint], process: str, run: Run, node: Node, faults: Faults
) -> dict[str, Endpoint]:
    vendors = run.component not in NVIDIA
    if run.read.mode and vendors and not faults.keeps_old_resource:
        # Professional: enabling a mode sets the other modes' resources to "0".
        others = set(endpoints) | (set(node.capacity) & set(CARD_RESOURCES))
        endpoints = register(endpoints, process, dict.fromkeys(others - set(run.offer), 0))
    return register(endpoints, process, run.offer, silent=faults.resource_zero)


def _serve_static_plugin(
    memory: Memory, node: Node, faults: Faults, edition: Edition | None, now: float
) -> Memory:
    """Play the static pod for whole cards, which other DaemonSets manage (Basic and OpenSource)."""
    running = {run.component for run in memory.runs.values()}
    recovered = any(r.component == RECOVERER and r.is_ready for r in memory.runs.values())
    evicted = not recovered and memory.evicted
    if running & {EVICTOR, "gpushare-device-plugin-ds"} or node.labels.get(names.CGPU) == "true":
        evicted = True
    wanted = edition in ("Basic", "OpenSource") and not evicted and node.cards > 0
    endpoint = memory.endpoints.get(names.WHOLE_CARD)
    served = endpoint is not None and endpoint.plugin == STATIC_PLUGIN and endpoint.lost_at is None
    endpoints = memory.endpoints
    started = memory.kubelet_started_at
    takes = faults.start_delay_seconds + faults.resource_delay_seconds
    runs = started is not None and now >= started + takes
    if wanted and not served and runs and not faults.whole_card_never_returns:
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
    here = {pod.uid: pod for pod in pods if pod.is_workload}
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
    return replace(
        memory,
        admissions=admissions,
        settled=settled,
        bound_at=waiting,
    )


def _run_jobs(memory: Memory, pods: tuple[Pod, ...], faults: Faults, now: float) -> Memory:
    if faults.not_ready:
        return memory
    jobs = teardown.run(
        memory.jobs,
        pods,
        module=memory.module,
        occupied=any(
            admission.demand.get(names.GPU_MEM) and not admission.reason
            for admission in memory.admissions.values()
        ),
        faults=faults,
        now=now,
    )
    return replace(memory, jobs=jobs)


def _plan_pod_writes(
    memory: Memory,
    node: Node,
    pods: tuple[Pod, ...],
    configs: Configs,
    faults: Faults,
    now: float,
) -> tuple[PodWrite, ...]:
    writes = []
    for pod in pods:
        if pod.terminating or pod.is_finished:
            continue
        notes: dict[str, str | None] = {}
        status: PodStatus | None = None
        if run := memory.runs.get(pod.process):
            notes[names.READ] = run.read.to_json()
            status = components.plan_status(pod, run, node, configs, faults)
        elif pod.is_component and pod.configs:
            status = components.plan_waiting_status(pod)
        elif job := memory.jobs.get(pod.uid):
            status = teardown.plan_status(pod, job)
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


def _plan_mirror_pod(node: Node, pods: tuple[Pod, ...]) -> tuple[Object, ...]:
    present = any(pod.component == names.STATIC_PLUGIN_POD for pod in pods)
    if present or not node.has_static_plugin:
        return ()
    return (build_static_plugin(node.name, node.uid),)


def _wake_at(memory: Memory, faults: Faults, now: float) -> float | None:
    times: list[float] = [crash.retry_at for crash in memory.crashes.values()]
    expiries = (expiry_time(endpoint, faults) for endpoint in memory.endpoints.values())
    times += [at for at in (memory.report_at, *expiries) if at is not None]
    if not faults.not_ready:
        if memory.kubelet_started_at is not None:
            takes = faults.start_delay_seconds + faults.resource_delay_seconds
            times.append(memory.kubelet_started_at + takes)
        times += [at + faults.kubelet_delay_seconds for at in memory.bound_at.values()]
        for run in memory.runs.values():
            due = (
                components.register_time(run, faults)
                if run.is_ready
                else components.ready_time(run, faults)
            )
            times += [] if due is None else [due]
        ends = (teardown.end_time(job, faults) for job in memory.jobs.values())
        times += [due for due in ends if due is not None]
    if (due := boot.next_boot_time(memory, faults)) is not None:
        times.append(due)
    return min((time for time in times if time > now), default=None)


def _admission(memory: Memory, pod: Pod) -> Admission:
    return memory.admissions.get(pod.uid, Admission())
