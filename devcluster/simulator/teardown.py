"""Plays the teardown's containers, which remove the kernel module's files and verify that.

Their arguments are `uninstall`, `uninstall sentinel` and `verify`.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from devcluster import names
from devcluster.simulator.faults import Faults
from devcluster.simulator.objects import Pod, Shown
from devcluster.simulator.status import Look, PodStatus

LOADED = "cGPU module is loaded"
OCCUPIED = "GPU workloads still run on this node"
UNINSTALL_ERROR = "uninstall.sh failed: switched off by sim.devcluster/fault"
KILLED_EXIT_CODE = 137


@dataclass(frozen=True)
class Job:
    """A container of a teardown, from its start to its end."""

    started_at: float  # seconds
    exit_code: int | None = None  # None while it runs
    message: str = ""  # left in its termination log
    leaves: frozenset[str] = frozenset()  # annotations that its node has from then on


Jobs = Mapping[str, Job]  # by pod UID


def run(
    jobs: Jobs, pods: Iterable[Pod], *, module: str, occupied: bool, faults: Faults, now: float
) -> dict[str, Job]:
    """Start new teardowns on a node, and end those whose time has come.

    `module` is the loaded module of the node; a node `occupied` by GPU workloads keeps it.
    """
    going = {}
    for pod in pods:
        if not pod.is_teardown or pod.terminating or pod.is_finished:
            continue
        job = jobs.get(pod.uid, Job(now))
        due = end_time(job, faults)
        if due is not None and due <= now:
            job = _end(job, pod.containers[0].args, module, occupied, faults)
        going[pod.uid] = job
    return going


def end_time(job: Job, faults: Faults) -> float | None:
    """Return the time at which a job ends; None if it has, or a fault prevents it."""
    if job.exit_code is not None or faults.job_hangs:
        return None
    return job.started_at + faults.job_delay_seconds


def cut_off(jobs: Jobs) -> dict[str, Job]:
    """Return the jobs of a node after a reboot, which killed the running ones."""
    return {
        uid: Job(job.started_at, KILLED_EXIT_CODE, "killed by a reboot")
        if job.exit_code is None
        else replace(job, leaves=frozenset())
        for uid, job in jobs.items()
    }


def plan_status(pod: Pod, job: Job) -> PodStatus:
    """Plan the status of a teardown's pod, which never starts twice."""
    if job.exit_code is None:
        phase, look = "Running", Look(Shown(running=True, ready=True))
    else:
        phase = "Failed" if job.exit_code else "Succeeded"
        look = Look(Shown(), last_message=job.message, exit_code=job.exit_code)
    return PodStatus(phase, {container.name: look for container in pod.containers})


def _end(job: Job, args: tuple[str, ...], module: str, occupied: bool, faults: Faults) -> Job:
    match args:
        case ("verify",):
            return _fail(job, LOADED) if module else replace(job, exit_code=0)
        case ("uninstall",) | ("uninstall", "sentinel") if occupied:
            return _fail(job, OCCUPIED)
        case ("uninstall",) | ("uninstall", "sentinel") if faults.uninstall_fails:
            return _fail(job, UNINSTALL_ERROR)
        case ("uninstall",):
            return replace(job, exit_code=0, leaves=frozenset({names.UNINSTALL}))
        case ("uninstall", "sentinel"):
            return replace(job, exit_code=0, leaves=frozenset({names.UNINSTALL, names.SENTINEL}))
    return _fail(job, f"expected uninstall, uninstall sentinel or verify, got {' '.join(args)!r}")


def _fail(job: Job, message: str) -> Job:
    return replace(job, exit_code=1, message=message)
