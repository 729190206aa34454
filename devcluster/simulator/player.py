"""Plays all nodes of a cluster: a turn of a node when something changes or is due."""

import asyncio
import logging
import time

from devcluster import names
from devcluster.apiserver import ApiError
from devcluster.client import Client
from devcluster.simulator.boot import find_reading
from devcluster.simulator.cluster_state import ClusterState
from devcluster.simulator.faults import FaultError, Faults, parse_faults
from devcluster.simulator.memory import Memory, recall
from devcluster.simulator.node import Outcome, PodWrite, play
from devcluster.simulator.objects import Node, Pod, parse_node

log = logging.getLogger(__name__)

RETRY_SECONDS = 0.5
MOST_TURNS = 20  # in a row, each with writes: somebody else writes the same fields
GONE = (404, 409)  # the object has changed or left; the watch brings the news


class Player:
    """Plays turns of all nodes and writes their results."""

    def __init__(self, client: Client, usual: Faults) -> None:
        self._client = client
        self._usual = usual
        self._memories: dict[str, Memory] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._again: set[str] = set()
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._complaints: dict[str, str] = {}
        self._playing = False
        self.cluster = ClusterState(client, self.wake)

    def start(self) -> None:
        """Start playing, once the cluster's state is listed."""
        self._playing = True
        for name in self.cluster.node_names():
            self.wake(name)

    def wake(self, name: str) -> None:
        """Schedule a turn of a node."""
        if not self._playing:
            return
        if name in self._tasks:
            self._again.add(name)
        else:
            self._tasks[name] = asyncio.create_task(self._take_turns(name))

    def faults_of(self, node: Node) -> Faults:
        """Return a node's faults; a broken annotation is logged once and changes nothing."""
        text = node.annotations.get(names.FAULT)
        try:
            return parse_faults(text, self._usual)
        except FaultError as error:
            if self._complaints.get(node.name) != text:
                log.error("node %s: annotation %s ignored: %s", node.name, names.FAULT, error)
                self._complaints[node.name] = text or ""
            return self._usual

    async def _take_turns(self, name: str) -> None:
        due_at: float | None = None
        try:
            for _ in range(MOST_TURNS):
                self._again.discard(name)
                turn = await self._take_turn(name)
                due_at = turn.due_at if turn else None
                if name not in self._again and not (turn and _writes(turn)):
                    break
            else:
                log.warning("node %s: %d turns with writes in a row", name, MOST_TURNS)
                due_at = time.time() + RETRY_SECONDS
        except ApiError as error:
            log.log(logging.DEBUG if error.status in GONE else logging.WARNING, "%s", error)
            due_at = time.time() + RETRY_SECONDS
        except OSError as error:
            log.info("node %s: %s", name, error)
            due_at = time.time() + RETRY_SECONDS
        except Exception:
            log.exception("node %s: turn failed", name)
            due_at = time.time() + RETRY_SECONDS
        finally:
            del self._tasks[name]
        if timer := self._timers.pop(name, None):
            timer.cancel()
        if name in self._again:
            self.wake(name)
        elif due_at is not None:
            delay = max(0.0, due_at - time.time())
            self._timers[name] = asyncio.get_running_loop().call_later(delay, self.wake, name)

    async def _take_turn(self, name: str) -> Outcome | None:
        node = self.cluster.find_node(name)
        if node is None or names.CARDS not in node.annotations:
            # A real kubelet's, or a node of processes: nobody else writes what it writes.
            self._memories.pop(name, None)
            return None
        pods = self.cluster.pods_on(name)
        memory = self._memories.get(name)
        if memory is None or memory.node_uid != node.uid:
            memory = recall(node, pods, self.faults_of(node), time.time())
        configs = self.cluster.configs
        known: set[str] = set()
        while reading := {pod.uid for pod in find_reading(memory, node, pods, configs)} - known:
            # A process that reads asks the API server; what a watch knows may be older.
            fresh = await self._client.get(f"/api/v1/nodes/{name}")
            self.cluster.nodes.overlay(fresh)
            node = parse_node(fresh)
            known |= reading
            pods = self.cluster.pods_on(name)
        turn = play(
            memory,
            node,
            pods,
            faults=self.faults_of(node),
            edition=self.cluster.edition,
            now=time.time(),
            configs=configs,
        )
        self._memories[name] = turn.memory
        if turn.node_patch:
            path = f"/api/v1/nodes/{name}/status"
            self.cluster.nodes.overlay(await self._client.patch(path, turn.node_patch))
        if turn.label_patch:
            labelled = await self._client.patch(
                f"/api/v1/nodes/{name}", turn.label_patch, {"fieldManager": names.NFD}
            )
            self.cluster.nodes.overlay(labelled)
        if turn.pod_writes:
            await asyncio.gather(*map(self._write_pod, turn.pod_writes))
        for pod in turn.new_pods:
            path = f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods"
            self.cluster.pods.overlay(await self._client.post(path, pod))
        return turn

    async def _write_pod(self, write: PodWrite) -> None:
        pod: Pod = write.pod
        path = f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}/status"
        self.cluster.pods.overlay(await self._client.patch(path, write.body))


def _writes(turn: Outcome) -> bool:
    return bool(turn.node_patch or turn.label_patch or turn.pod_writes or turn.new_pods)
