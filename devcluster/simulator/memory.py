"""State of a node that is not in the API server: its processes and its kernel."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from devcluster import names
from devcluster.simulator import components
from devcluster.simulator.allocation import parse_record
from devcluster.simulator.components import Run
from devcluster.simulator.devices import Endpoint, register
from devcluster.simulator.faults import Faults
from devcluster.simulator.kubelet import Admission, Crash
from devcluster.simulator.objects import CARD_RESOURCES, Node, Pod, parse_quantity
from devcluster.simulator.status import parse_timestamp
from devcluster.simulator.teardown import Job


@dataclass(frozen=True)
class Memory:
    """State that exists only on a node."""

    node_uid: str
    boot_id: str
    kubelet_started_at: float | None = None  # seconds; None while it has yet to start in this boot
    kubelet_restarts: int = 0
    report_at: float | None = None  # when the kubelet's next status shows what it does not yet
    down_since: float | None = None  # seconds; it went away to boot again
    module: str = ""  # the loaded kernel module
    evicted: bool = False  # the static whole-card plugin's manifest has been taken away
    runs: Mapping[str, Run] = field(default_factory=dict)
    jobs: Mapping[str, Job] = field(default_factory=dict)  # teardowns, by pod UID
    endpoints: Mapping[str, Endpoint] = field(default_factory=dict)
    bound_at: Mapping[str, float] = field(default_factory=dict)  # pods not admitted yet, by UID
    admissions: Mapping[str, Admission] = field(default_factory=dict)
    settled: Mapping[str, float] = field(default_factory=dict)  # pods marked ASSIGNED, by UID
    crashes: Mapping[tuple[str, str], Crash] = field(default_factory=dict)


def recall(node: Node, pods: tuple[Pod, ...], faults: Faults, now: float) -> Memory:
    """Build the memory of a node that the simulator reads, also after the simulator's restart."""
    runs = components.resume(pods, node, faults, now)
    endpoints: dict[str, Endpoint] = {
        resource: Endpoint("", count, lost_at=now)
        for resource in CARD_RESOURCES
        if (count := parse_quantity(node.capacity.get(resource, "0")))
    }
    for uid, run in runs.items():
        if run.serving:
            silent = all(node.allocatable.get(resource) == "0" for resource in run.offer)
            endpoints = register(endpoints, uid, run.offer, silent=silent)
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
        kubelet_started_at=now,
        kubelet_restarts=node.kubelet_restarts,
        module=node.annotations.get(names.MODULE, ""),
        evicted=sharing or node.capacity.get(names.WHOLE_CARD) == "0",
        runs=runs,
        endpoints=endpoints,
        admissions=admissions,
    )
