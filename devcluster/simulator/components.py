"""Plays the processes of components on a node, from their start to their end."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from devcluster import names
from devcluster.simulator.faults import Faults
from devcluster.simulator.objects import Node, Pod, Shown, count
from devcluster.simulator.plugin import (
    INSTALLERS,
    MPS_CONTROL,
    PLUGINS,
    Read,
    offered,
    parse_read,
    read_node,
)
from devcluster.simulator.sharing import (
    Config,
    Configs,
    is_refused,
    is_signalled,
    is_unheard,
    read_again,
    read_at_start,
)
from devcluster.simulator.status import Look, PodStatus

NO_CONFIG = "the node's label names no configuration"
NO_LOAD = "unable to load config"
INSTALL_ERROR = "failed to load the module: switched off by sim.devcluster/fault"


@dataclass(frozen=True)
class Run:
    """A process of a component, from its container's start to its end or a restart."""

    component: str
    read: Read
    started_at: float  # seconds, as all times here
    offer: Mapping[str, int] = field(default_factory=dict)  # devices that a plugin found
    restarts: int = 0
    signals: int = 0  # SIGHUPs so far
    built_at: float = 0.0  # when a plugin read its node last
    ready_at: float | None = None
    serving: bool = False  # registered with the kubelet, or its labels are on the node
    retry_at: float = 0.0  # when a plugin that waits for the MPS daemon looks for it again

    @property
    def is_ready(self) -> bool:
        """Whether the readiness probe passes."""
        return self.ready_at is not None


Runs = Mapping[str, Run]  # by the pod's process: its UID, but for a mirror pod


def find_starting(runs: Runs, pods: Iterable[Pod], node: Node, configs: Configs) -> list[Pod]:
    """Find the components whose process starts now, for which the node must be up to date."""
    return [
        pod
        for pod in pods
        if _is_live(pod)
        and _wants_start(runs.get(pod.process), pod)
        and (pod.process in runs or read_at_start(pod, node, configs))
    ]


def find_rebuilt(
    runs: Runs, pods: Iterable[Pod], node: Node, configs: Configs, *, kubelet_restarted: bool
) -> list[Pod]:
    """Find the plugins that read their node again without a restart.

    Source: gpushare-device-plugin does so on SIGHUP, and whenever the kubelet's socket is created;
    neither the pod's UID nor its restart count changes. NVIDIA's plugin does so too; the signal is
    from its config-manager, as for GPU feature discovery. The config-manager of the MPS daemon
    looks for a process of another name.
    """
    return [
        pod
        for pod in pods
        if _is_live(pod)
        and (run := runs.get(pod.process)) is not None
        and (
            (run.component in PLUGINS and (kubelet_restarted or _signals(pod) > run.signals))
            or (
                run.component != names.MPS_DAEMON
                and is_signalled(pod, node, configs, run.read.config)
            )
        )
    ]


def find_ended(runs: Runs, pods: Iterable[Pod], node: Node) -> set[str]:
    """Find the ended processes, whose pod is gone or being deleted.

    A static pod stays while its manifest exists, also without its mirror pod.
    """
    kept = names.STATIC_PLUGIN_POD if node.has_static_plugin else None
    ended = set(runs) - {pod.process for pod in pods if _is_live(pod)}
    return {process for process in ended if runs[process].component != kept}


def start(
    runs: Runs,
    pods: Iterable[Pod],
    node: Node,
    module: str,
    configs: Configs,
    faults: Faults,
    now: float,
) -> dict[str, Run]:
    """Start, or restart in place, these components, each of which reads its node's labels."""
    return {**runs} | {
        pod.process: Run(
            pod.component,
            read := _read(runs, pod, node, module, configs),
            now,
            offered(pod.component, node, read, faults),
            _restarts(pod),
            _signals(pod),
        )
        for pod in pods
    }


def rebuild(
    runs: Runs,
    pods: Iterable[Pod],
    node: Node,
    module: str,
    configs: Configs,
    faults: Faults,
    now: float,
) -> dict[str, Run]:
    """Make these plugins read their node and register again, without a restart."""
    return {**runs} | {
        pod.process: replace(
            runs[pod.process],
            read=(read := _read(runs, pod, node, module, configs)),
            offer=offered(pod.component, node, read, faults),
            signals=_signals(pod),
            built_at=now,
            serving=False,
        )
        for pod in pods
    }


def _read(runs: Runs, pod: Pod, node: Node, module: str, configs: Configs) -> Read:
    """Read a node; a restarted container does not run the init container again."""
    run = runs.get(pod.process)
    config = read_again(pod, node, configs, run.read.config) if run else None
    return read_node(node, module, config or read_at_start(pod, node, configs) or Config())


def resume(pods: Iterable[Pod], node: Node, faults: Faults, now: float) -> dict[str, Run]:
    """Return the processes that ran before the simulator's start, from its own records."""
    runs = {}
    for pod in sorted(pods, key=lambda pod: (pod.created, pod.uid)):
        read = parse_read(pod.annotations.get(names.READ))
        if read is None or not _is_live(pod):
            continue
        restarts = min((shown.restarts for shown in pod.shown.values()), default=0)
        ready_at = now if pod.ready else None
        offer = offered(pod.component, node, read, faults)
        runs[pod.process] = Run(
            pod.component,
            read,
            now,
            offer,
            restarts,
            _signals(pod),
            ready_at=ready_at,
            serving=pod.ready and read.config.strategy != "mps",
        )
    return runs


def get_ready(runs: Runs, faults: Faults, now: float) -> dict[str, Run]:
    """Set processes Ready whose time has come."""
    return {
        uid: replace(run, ready_at=now)
        if not run.is_ready and (due := ready_time(run, faults)) is not None and due <= now
        else run
        for uid, run in runs.items()
    }


def ready_time(run: Run, faults: Faults) -> float | None:
    """Return the time at which a process becomes Ready; None while a fault prevents it."""
    if run.component in INSTALLERS:
        return None if faults.installer_fails else run.started_at + faults.installer_delay_seconds
    if run.component in PLUGINS and faults.plugin_never_ready:
        return None
    return run.started_at + faults.start_delay_seconds


def register_time(run: Run, faults: Faults) -> float | None:
    """Return the time at which a Ready plugin registers, or feature discovery labels; else None."""
    if run.serving or run.ready_at is None or run.read.config.broken:
        return None
    since = max(run.ready_at, run.built_at)
    if run.component == names.FEATURE_DISCOVERY:
        return since + faults.discovery_delay_seconds
    if run.component not in PLUGINS:
        return None
    return max(since + faults.resource_delay_seconds, run.retry_at)


def waits_for_daemon(run: Run, runs: Runs) -> bool:
    """Tell whether a plugin needs an MPS daemon that does not answer.

    Source: NVIDIA's plugin calls the daemon of its resource only when it starts.
    """
    config = run.read.config
    return (
        run.component == names.NVIDIA_PLUGIN
        and config.strategy == "mps"
        and not any(
            other.component == names.MPS_DAEMON
            and other.is_ready
            and (other.read.config.strategy, other.read.config.resource)
            == (config.strategy, config.resource)
            for other in runs.values()
        )
    )


def is_mps_running(runs: Runs) -> bool:
    """Tell whether the MPS control daemon of the node is Ready."""
    return any(run.component == MPS_CONTROL and run.is_ready for run in runs.values())


def is_installed(runs: Runs) -> bool:
    """Tell whether an installer has put the module and its files on the node.

    A running installer restores removed files at once.
    """
    return any(run.component in INSTALLERS and run.is_ready for run in runs.values())


def plan_waiting_status(pod: Pod) -> PodStatus:
    """Plan the status of a component's pod whose config-manager finds no configuration."""
    init = {name: _crash(1, NO_CONFIG) for name in pod.init_containers}
    waiting = Look(Shown(waiting="PodInitializing"))
    return PodStatus("Pending", {each.name: waiting for each in pod.containers}, init=init)


def plan_status(pod: Pod, run: Run, node: Node, configs: Configs, faults: Faults) -> PodStatus:
    """Plan the status of a component's pod."""
    if run.component in INSTALLERS and faults.installer_fails and not run.is_ready:
        look = _crash(run.restarts, INSTALL_ERROR)
    else:
        look = Look(Shown(running=True, ready=run.is_ready, restarts=run.restarts))
    looks = {container.name: look for container in pod.containers}
    refused = is_refused(pod, node, configs, run.read.config) or is_unheard(pod, node, configs)
    for name in looks if pod.configs else ():
        restarts = max(run.restarts, pod.shown.get(name, Shown()).restarts)
        if name.endswith("-sidecar") and refused:
            looks[name] = _crash(restarts, NO_CONFIG)
        elif name.endswith("-ctr") and run.read.config.broken:
            looks[name] = _crash(restarts, NO_LOAD)
        else:
            looks[name] = Look(replace(look.shown, restarts=restarts))
    init = {name: Look(Shown(ready=True), exit_code=0) for name in pod.init_containers}
    return PodStatus("Running", looks, init=init)


def _crash(restarts: int, message: str) -> Look:
    shown = Shown(waiting="CrashLoopBackOff", restarts=max(1, restarts))
    return Look(shown, "back-off restarting failed container", message)


def _is_live(pod: Pod) -> bool:
    return pod.is_component and not pod.terminating and not pod.is_finished


def _wants_start(run: Run | None, pod: Pod) -> bool:
    return run is None or _restarts(pod) > run.restarts


def _restarts(pod: Pod) -> int:
    return count(pod.annotations.get(names.RESTART))


def _signals(pod: Pod) -> int:
    return count(pod.annotations.get(names.SIGNAL))
