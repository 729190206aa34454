"""The cluster as a step sees it: facts are read from it, and waited for."""

import json
import re
import urllib.request
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import groupby

from demo.audit import Write, read_operator_writes
from demo.checks import expect
from demo.operators import Operator
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
_TIMEOUT_SECONDS = 45.0


class View:
    """Facts of one cluster; writes and restarts are counted from the step's beginning."""

    def __init__(self, cluster: Cluster, operator: Operator) -> None:
        self._cluster = cluster
        self._operator = operator
        self.begin_step()

    def begin_step(self) -> None:
        """Count from here on."""
        self._audited_bytes = self._cluster.audit_log.stat().st_size
        self._plugin_nodes = {pod.name: pod.node for pod in self._plugins()}
        self._admissions = self._count_admissions()
        self.said: list[str] = []
        """Lines that kubectl printed in this step."""

    # What there is.

    def nodes(self, pool: str) -> list[Node]:
        """The nodes that carry the pool's label."""
        items = self._cluster.api.call("GET", "/api/v1/nodes")["items"]
        nodes = [parse_node(item) for item in items]
        return [node for node in nodes if node.labels.get(POOL_LABEL) == pool]

    def node(self, name: str) -> Node:
        """The node of that name."""
        return parse_node(self._cluster.api.call("GET", f"/api/v1/nodes/{name}"))

    def pool(self, name: str) -> Pool:
        """The pool as its status has it."""
        return parse_pool(self._cluster.api.call("GET", f"{_POOLS}/{name}"))

    def pods(self, app: str, *, namespace: str = "default") -> list[Pod]:
        """The pods with the label ``app`` that are not being deleted, by name."""
        path = f"/api/v1/namespaces/{namespace}/pods?labelSelector=app%3D{app}"
        pods = [parse_pod(item) for item in self._cluster.api.call("GET", path)["items"]]
        return sorted((pod for pod in pods if not pod.deleting), key=lambda pod: pod.name)

    def pod(self, name: str, *, namespace: str = "default") -> Pod:
        """The pod of that name."""
        path = f"/api/v1/namespaces/{namespace}/pods/{name}"
        return parse_pod(self._cluster.api.call("GET", path))

    def teardown_jobs(self) -> list[str]:
        """The arguments of the teardown's Jobs that are complete, the oldest first."""
        jobs = self._cluster.api.call("GET", _JOBS)["items"]
        complete = [job for job in jobs if job["status"].get("succeeded")]
        complete.sort(key=lambda job: str(job["status"]["startTime"]))
        return [
            " ".join(job["spec"]["template"]["spec"]["containers"][0]["args"]) for job in complete
        ]

    # What is waited for.

    def ready_pool(self, name: str, *, nodes: int) -> list[Node]:
        """Wait until the pool says that all of its ``nodes`` are as its spec; these nodes."""
        self._wait(
            lambda: (pool := self.pool(name)).ready and pool.current and pool.matched == nodes,
            f"pool {name} is Ready with {nodes} nodes",
            lambda: self.pool(name),
        )
        return self.nodes(name)

    def blocked_pool(self, name: str, reason: str) -> Pool:
        """Wait until the pool says that ``reason`` holds a node up; the pool."""
        self._wait(
            lambda: (pool := self.pool(name)).current and reason in pool.samples,
            f"pool {name} says {reason}",
            lambda: self.pool(name),
        )
        return self.pool(name)

    def rollout(self, name: str, reason: str, *, failed: int = 0) -> Rollout:
        """Wait until the pool's change stands at ``reason``, with ``failed`` nodes; how far it is.

        The reason is that of the condition RolloutComplete.
        """

        def stands_there() -> bool:
            pool = self.pool(name)
            return (pool.current, pool.rollout.reason, pool.failed) == (True, reason, failed)

        self._wait(
            stands_there,
            f"the rollout of pool {name} says {reason} with {failed} failed nodes",
            lambda: self.pool(name),
        )
        return self.pool(name).rollout

    def node_where(self, name: str, state: str, holds: Callable[[Node], bool]) -> Node:
        """Wait until the node is in a ``state``, which is so where ``holds``; the node."""
        self._wait(lambda: holds(self.node(name)), f"{name} {state}", lambda: self.node(name))
        return self.node(name)

    def isolation(self, pool: str, *, containers: int, isolated: int, stale: int = 0) -> Isolation:
        """Wait until the pool counts its containers so; what it says of them.

        It is consistent where none is stale.
        """
        wanted = (containers, isolated, stale, stale == 0)

        def counts() -> bool:
            found = self.pool(pool).isolation
            seen = (found.containers, found.isolated, found.stale, found.consistent)
            return seen == wanted

        self._wait(
            counts,
            f"pool {pool} counts {containers} containers, {isolated} isolated, {stale} stale",
            lambda: self.pool(pool).isolation,
        )
        return self.pool(pool).isolation

    def unknown_isolation(self, pool: str, *, containers: int) -> Isolation:
        """Wait until the pool counts so many containers, not all of them known; what it says."""

        def counts() -> bool:
            found = self.pool(pool).isolation
            return found.containers == containers and found.unknown > 0

        self._wait(
            counts,
            f"pool {pool} counts {containers} containers, some as unknown",
            lambda: self.pool(pool).isolation,
        )
        return self.pool(pool).isolation

    def told(self, name: str, reason: str, *, kind: str = "GPUSharePool", about: str = "") -> str:
        """Wait until an Event on an object says ``reason``, and something ``about``; its words."""

        def find() -> list[str]:
            return [note for note in self._notes(kind, name, reason) if about in note]

        self._wait(
            lambda: bool(find()),
            f"an Event {reason} on {kind} {name} that speaks of {about!r}",
            lambda: self._notes(kind, name, reason),
        )
        return find()[-1]

    def started(self, app: str, *, pods: int = 1, namespace: str = "default") -> list[Pod]:
        """Wait until there are ``pods`` pods with the label ``app``, all Ready; these pods."""

        def all_ready() -> bool:
            found = self.pods(app, namespace=namespace)
            return len(found) == pods and all(pod.ready for pod in found)

        self._wait(
            all_ready,
            f"{pods} pods of {app} are Ready",
            lambda: self.pods(app, namespace=namespace),
        )
        return self.pods(app, namespace=namespace)

    def waiting_pod(self, app: str, reason: str) -> Pod:
        """Wait until the only pod of ``app`` has its container wait for ``reason``; the pod."""
        self._wait(
            lambda: [pod.got.waiting for pod in self.pods(app) if pod.container] == [reason],
            f"the pod of {app} is in {reason}",
            lambda: self.pods(app),
        )
        return self.pods(app)[0]

    def offering(self, pool: str, resource: str, *, units: int) -> list[Node]:
        """Wait until each node of the pool offers exactly ``units`` of a resource; the nodes."""
        self._wait(
            lambda: all(node.offers(resource) == units for node in self.nodes(pool)),
            f"the nodes of pool {pool} offer {resource}: {units}",
            lambda: {node.name: node.offers(resource) for node in self.nodes(pool)},
        )
        return self.nodes(pool)

    def allocation(self, node: str, ledger: str) -> str:
        """Wait until the card scheduler's ledger has the node at ``ledger``; the same."""
        self._wait(
            lambda: self._allocated(node) == ledger,
            f"{ledger} is allocated on {node}",
            lambda: self._allocated(node),
        )
        return ledger

    def usage(self, node: str, *, gib: float) -> float:
        """Wait until programs on the node take ``gib`` of GPU memory; the same."""
        self._wait(
            lambda: self._used_gib(node) == gib,
            f"{gib} GiB are in use on {node}",
            lambda: self._used_gib(node),
        )
        return gib

    # What happened in this step.

    def restarts(self) -> dict[str, int]:
        """How many of the plugin pods of each node the operator deleted."""
        deleted = [w.name for w in self._writes() if (w.verb, w.resource) == ("delete", "pods")]
        return Counter(self._plugin_nodes.get(name, f"a later pod, {name}") for name in deleted)

    def turns(self) -> list[str]:
        """The nodes that the operator worked on, in order; one that it came back to is in twice."""
        nodes = [self._node_of(write) for write in self._writes()]
        return [node for node, _ in groupby(filter(None, nodes))]

    def most_at_once(self) -> int:
        """The most nodes that the operator worked on together: from its first write to its last."""
        nodes = [self._node_of(write) for write in self._writes()]
        first = {node: index for index, node in reversed([*enumerate(nodes)])}
        last = {node: index for index, node in enumerate(nodes)}
        together = (
            sum(first[node] <= index <= last[node] for node in filter(None, first))
            for index in range(len(nodes))
        )
        return max(together, default=0)

    def node_writes(self) -> list[Write]:
        """What the operator wrote to nodes."""
        return [write for write in self._writes() if write.resource == "nodes"]

    def admissions(self) -> Counter[str]:
        """How many pods the webhook was asked about, by what became of them."""
        return self._count_admissions() - self._admissions

    def _allocated(self, node: str) -> str:
        """Allocated and total GPU memory in the card scheduler's ledger, as `9/14 (64%)`."""
        url = f"http://127.0.0.1:{self._cluster.ports.simulator}/gpushare-scheduler/inspect"
        with urllib.request.urlopen(url, timeout=_TIMEOUT_SECONDS) as answer:
            nodes = {item["name"]: item for item in json.load(answer)["nodes"]}
        if node not in nodes:
            return "not in the ledger"
        used, total = nodes[node]["usedGPU"], nodes[node]["totalGPU"]
        return f"{used}/{total} ({100 * used // total}%)"

    def _used_gib(self, node: str) -> float:
        """GPU memory that programs on the node really take, of all its cards."""
        raw = self._cluster.api.call("GET", f"/api/v1/nodes/{node}")
        used = json.loads(raw["metadata"]["annotations"].get(names.MEMORY_USED, "{}"))
        return float(sum(used.values()))

    def _node_of(self, write: Write) -> str:
        return write.name if write.resource == "nodes" else self._plugin_nodes.get(write.name, "")

    def _writes(self) -> list[Write]:
        return read_operator_writes(self._cluster.audit_log, after=self._audited_bytes)

    def _plugins(self) -> Sequence[Pod]:
        path = f"/api/v1/namespaces/kube-system/pods?labelSelector=name%3D{PLUGIN}"
        return [parse_pod(item) for item in self._cluster.api.call("GET", path)["items"]]

    def _notes(self, kind: str, name: str, reason: str) -> list[str]:
        """What the Events on an object say, the oldest first."""
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
        self, condition: Callable[[], bool], expectation: str, seen: Callable[[], object]
    ) -> None:
        def holds() -> bool:
            expect(self._operator.alive, "the operator to run", "its process ended")
            return condition()

        wait_until(
            holds,
            expectation=expectation,
            timeout_seconds=_TIMEOUT_SECONDS,
            advice=lambda: f"Seen: {seen()}",
        )
