"""Reads facts of the cluster for steps, and waits for them."""

import json
import re
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import groupby
from typing import TypeVar

from demo.audit import OperatorWrites, Write
from demo.checks import expect
from demo.operators import Operator, fetch
from demo.sights import (
    POOL_LABEL,
    Isolation,
    Node,
    Pod,
    Pool,
    Rollout,
    parse_node,
    parse_pod,
    parse_pool,
)
from devcluster import names
from devcluster.cluster import Cluster
from devcluster.installation import TEARDOWN_NAMESPACE
from devcluster.waiting import wait_until

PLUGIN = "gpushare-device-plugin-ds"

_EVENTS = "/apis/events.k8s.io/v1/events"
_JOBS = f"/apis/batch/v1/namespaces/{TEARDOWN_NAMESPACE}/jobs"
_POOLS = "/apis/gpushare.io/v1alpha1/gpusharepools"
_ADMISSIONS = re.compile(
    r'^gpushare_admission_requests_total\{reason="(\w+)"\} (\S+)$', re.MULTILINE
)
_TIMEOUT_SECONDS = 180.0
"""Limit of a wait; a few seconds on an idle machine can be a minute on a busy one."""

Found = TypeVar("Found")


class View:
    """Facts of one cluster; writes and restarts are counted from the step's beginning."""

    def __init__(self, cluster: Cluster, operator: Operator) -> None:
        self._cluster = cluster
        self._operator = operator
        self._operator_writes = OperatorWrites(cluster)
        self.begin_step()

    def begin_step(self) -> None:
        """Count writes and restarts from here on."""
        self._operator_writes.begin()
        self._plugin_nodes = {pod.name: pod.node for pod in self._plugins()}
        self._admissions = self._count_admissions()
        self.output: list[str] = []
        """Lines that kubectl printed in this step."""

    # What there is.

    def nodes(self, pool: str) -> list[Node]:
        """List the nodes with the pool's label."""
        items = self._cluster.api.call("GET", "/api/v1/nodes")["items"]
        nodes = [parse_node(item) for item in items]
        return [node for node in nodes if node.labels.get(POOL_LABEL) == pool]

    def node(self, name: str) -> Node:
        """Read a node."""
        return parse_node(self._cluster.api.call("GET", f"/api/v1/nodes/{name}"))

    def pool(self, name: str) -> Pool:
        """Read the status of a pool."""
        return parse_pool(self._cluster.api.call("GET", f"{_POOLS}/{name}"))

    def pods(self, app: str, *, namespace: str = "default") -> list[Pod]:
        """List the pods with the label ``app`` that are not being deleted, by name."""
        path = f"/api/v1/namespaces/{namespace}/pods?labelSelector=app%3D{app}"
        pods = [parse_pod(item) for item in self._cluster.api.call("GET", path)["items"]]
        return sorted((pod for pod in pods if not pod.deleting), key=lambda pod: pod.name)

    def pod(self, name: str, *, namespace: str = "default") -> Pod:
        """Read a pod."""
        path = f"/api/v1/namespaces/{namespace}/pods/{name}"
        return parse_pod(self._cluster.api.call("GET", path))

    def teardown_jobs(self) -> list[str]:
        """List the arguments of the teardown's complete Jobs, the oldest first."""
        jobs = self._cluster.api.call("GET", _JOBS)["items"]
        complete = [job for job in jobs if job["status"].get("succeeded")]
        complete.sort(key=lambda job: str(job["status"]["startTime"]))
        return [
            " ".join(job["spec"]["template"]["spec"]["containers"][0]["args"]) for job in complete
        ]

    # What is waited for.

    def ready_pool(self, name: str, *, nodes: int) -> list[Node]:
        """Wait until the pool is Ready on all of its ``nodes``; return them."""
        self._wait(
            lambda: self.pool(name),
            lambda pool: pool.ready and pool.current and pool.matched == nodes,
            f"pool {name} is Ready with {nodes} nodes",
        )
        return self.nodes(name)

    def blocked_pool(self, name: str, reason: str) -> Pool:
        """Wait until ``reason`` blocks a node of the pool; return the pool."""
        return self._wait(
            lambda: self.pool(name),
            lambda pool: pool.current and reason in pool.samples,
            f"pool {name} says {reason}",
        )

    def rollout(self, name: str, reason: str, *, failed: int = 0) -> Rollout:
        """Wait until the pool's change has ``reason`` and ``failed`` nodes; return its progress.

        The reason is that of the condition RolloutComplete.
        """
        pool = self._wait(
            lambda: self.pool(name),
            lambda pool: pool.current and (pool.rollout.reason, pool.failed) == (reason, failed),
            f"the rollout of pool {name} says {reason} with {failed} failed nodes",
        )
        return pool.rollout

    def node_where(self, name: str, state: str, holds: Callable[[Node], bool]) -> Node:
        """Wait until ``holds`` is true for the node, that is in ``state``; return the node."""
        return self._wait(lambda: self.node(name), holds, f"{name} {state}")

    def isolation(self, pool: str, *, containers: int, isolated: int, stale: int = 0) -> Isolation:
        """Wait until the pool has these counts of containers; return its isolation.

        The pool is consistent where no container is stale.
        """
        wanted = (containers, isolated, stale, stale == 0)
        return self._wait(
            lambda: self.pool(pool).isolation,
            lambda it: (it.containers, it.isolated, it.stale, it.consistent) == wanted,
            f"pool {pool} counts {containers} containers, {isolated} isolated, {stale} stale",
        )

    def unknown_isolation(self, pool: str, *, containers: int) -> Isolation:
        """Wait until the pool counts ``containers``, some of them unknown; return its isolation."""
        return self._wait(
            lambda: self.pool(pool).isolation,
            lambda isolation: isolation.containers == containers and isolation.unknown > 0,
            f"pool {pool} counts {containers} containers, some as unknown",
        )

    def event(self, name: str, reason: str, *, kind: str = "GPUSharePool", about: str = "") -> str:
        """Wait until an Event on an object has ``reason`` and ``about``; return its note."""
        notes = self._wait(
            lambda: self._notes(kind, name, reason),
            lambda notes: any(about in note for note in notes),
            f"an Event {reason} on {kind} {name} that speaks of {about!r}",
        )
        return [note for note in notes if about in note][-1]

    def started(self, app: str, *, pods: int = 1, namespace: str = "default") -> list[Pod]:
        """Wait until there are ``pods`` Ready pods with the label ``app``; return them."""
        return self._wait(
            lambda: self.pods(app, namespace=namespace),
            lambda found: len(found) == pods and all(pod.ready for pod in found),
            f"{pods} pods of {app} are Ready",
        )

    def waiting_pod(self, app: str, reason: str) -> Pod:
        """Wait until the container of the only pod of ``app`` waits with ``reason``; return the
        pod."""
        (pod,) = self._wait(
            lambda: self.pods(app),
            lambda pods: [pod.container and pod.container.waiting for pod in pods] == [reason],
            f"the pod of {app} is in {reason}",
        )
        return pod

    def offering(self, pool: str, resource: str, *, units: int) -> list[Node]:
        """Wait until each node of the pool offers exactly ``units`` of a resource; return them."""
        return self._wait(
            lambda: self.nodes(pool),
            lambda nodes: all(node.offers(resource) == units for node in nodes),
            f"the nodes of pool {pool} offer {resource}: {units}",
        )

    def allocation(self, node: str, ledger: str) -> str:
        """Wait until the card scheduler's ledger of the node is ``ledger``; return it."""
        return self._wait(
            lambda: self._allocated(node),
            lambda allocated: allocated == ledger,
            f"{ledger} is allocated on {node}",
        )

    def usage(self, node: str, *, gib: float) -> float:
        """Wait until programs on the node use ``gib`` of GPU memory; return it."""
        return self._wait(
            lambda: self._used_gib(node),
            lambda used: used == gib,
            f"{gib} GiB are in use on {node}",
        )

    # What happened in this step.

    def restarts(self) -> dict[str, int]:
        """Count the plugin pods that the operator deleted, by node."""
        writes = self._operator_writes.read()
        deleted = [w.name for w in writes if (w.verb, w.resource) == ("delete", "pods")]
        return Counter(self._plugin_nodes.get(name, f"a later pod, {name}") for name in deleted)

    def turns(self) -> list[str]:
        """List the nodes that the operator wrote to, in order; one may be in it several times."""
        nodes = [self._node_of(write) for write in self._operator_writes.read()]
        return [node for node, _ in groupby(filter(None, nodes))]

    def most_at_once(self) -> int:
        """Count the most nodes that the operator changed together, from first to last write."""
        nodes = [self._node_of(write) for write in self._operator_writes.read()]
        first = {node: index for index, node in reversed([*enumerate(nodes)])}
        last = {node: index for index, node in enumerate(nodes)}
        together = (
            sum(first[node] <= index <= last[node] for node in filter(None, first))
            for index in range(len(nodes))
        )
        return max(together, default=0)

    def node_writes(self) -> list[Write]:
        """List the operator's writes to nodes."""
        return [write for write in self._operator_writes.read() if write.resource == "nodes"]

    def admissions(self) -> Counter[str]:
        """Count the pods in the webhook's calls, by reason."""
        return self._count_admissions() - self._admissions

    def _allocated(self, node: str) -> str:
        """Read allocated and total GPU memory in the card scheduler's ledger, as `9/14 (64%)`."""
        url = f"http://127.0.0.1:{self._cluster.ports.simulator}/gpushare-scheduler/inspect"
        nodes = {item["name"]: item for item in json.loads(fetch(url))["nodes"]}
        if node not in nodes or not nodes[node]["totalGPU"]:
            # The open-source extender has not been asked about it yet.
            return "not in the ledger"
        used, total = nodes[node]["usedGPU"], nodes[node]["totalGPU"]
        return f"{used}/{total} ({100 * used // total}%)"

    def _used_gib(self, node: str) -> float:
        """Read the GPU memory that programs on the node use, over all cards."""
        raw = self._cluster.api.call("GET", f"/api/v1/nodes/{node}")
        used = json.loads(raw["metadata"]["annotations"].get(names.MEMORY_USED, "{}"))
        return float(sum(used.values()))

    def _node_of(self, write: Write) -> str:
        return write.name if write.resource == "nodes" else self._plugin_nodes.get(write.name, "")

    def _plugins(self) -> Sequence[Pod]:
        path = f"/api/v1/namespaces/kube-system/pods?labelSelector=name%3D{PLUGIN}"
        return [parse_pod(item) for item in self._cluster.api.call("GET", path)["items"]]

    def _notes(self, kind: str, name: str, reason: str) -> list[str]:
        """List the notes of the Events on an object, the oldest first."""
        events = sorted(
            self._cluster.api.call("GET", _EVENTS)["items"],
            key=lambda event: str(event["eventTime"]),
        )
        return [
            event["note"]
            for event in events
            if (event["regarding"]["kind"], event["regarding"]["name"]) == (kind, name)
            and event["reason"] == reason
        ]

    def _count_admissions(self) -> Counter[str]:
        counted: Counter[str] = Counter()
        for metrics in self._operator.read_metrics():
            for reason, count in _ADMISSIONS.findall(metrics):
                counted[reason] += round(float(count))
        return counted

    def _wait(
        self, read: Callable[[], Found], holds: Callable[[Found], bool], expectation: str
    ) -> Found:
        """Wait until the condition holds; return the value that was read then."""
        seen: list[Found] = []

        def is_so() -> bool:
            expect(self._operator.alive, "the operator to run", "its process ended")
            seen[:] = [read()]
            return holds(seen[0])

        wait_until(
            is_so,
            expectation=expectation,
            timeout_seconds=_TIMEOUT_SECONDS,
            advice=lambda: f"Seen: {seen[0]}",
        )
        return seen[0]
