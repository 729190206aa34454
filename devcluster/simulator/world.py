"""What the simulator sees of a cluster: nodes, GPU pods and components, kept by watches."""

import asyncio
import logging
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from typing import Generic, Protocol, TypeVar

from devcluster import names
from devcluster.simulator.client import ApiError, Client
from devcluster.simulator.objects import Node, Object, Pod, parse_node, parse_pod
from devcluster.simulator.plugin import Edition, find_edition

log = logging.getLogger(__name__)

BOUND_AND_ALIVE = "spec.nodeName!=,status.phase!=Succeeded,status.phase!=Failed"
FIRST_PAUSE_SECONDS = 0.2
LONGEST_PAUSE_SECONDS = 2.0


class Seen(Protocol):
    """Anything that a Mirror can keep."""

    @property
    def version(self) -> int: ...


T = TypeVar("T", bound=Seen)


class Mirror(Generic[T]):
    """A list of the API server's, kept up to date by a watch.

    `parse` may return None for what is of no interest. `on_change` is told old and new.
    """

    def __init__(
        self,
        client: Client,
        path: str,
        params: Mapping[str, str],
        parse: Callable[[Object], T | None],
        on_change: Callable[[T | None, T | None], None],
    ) -> None:
        self._client, self._path, self._params = client, path, params
        self._parse, self._on_change = parse, on_change
        self._items: dict[str, T] = {}
        self._position = 0
        self.synced = asyncio.Event()

    async def run(self) -> None:
        """List and watch for ever, whatever happens to the API server."""
        pause = FIRST_PAUSE_SECONDS
        while True:
            try:
                if not self._position:
                    await self._relist()
                async for kind, raw in self._client.watch(self._path, self._params, self._position):
                    self._take(kind, raw)
                    pause = FIRST_PAUSE_SECONDS
            except ApiError as error:
                log.info("%s: %s", self._path, error)
                if error.status == 410:
                    self._position = 0
                    continue
            except OSError as error:
                log.info("%s: %s", self._path, error)
            else:
                continue
            await asyncio.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE_SECONDS)

    def overlay(self, raw: Object) -> None:
        """Take the answer to a write, unless the watch has already come past it."""
        if int(raw["metadata"]["resourceVersion"]) > self._position:
            self._put(raw["metadata"]["uid"], self._parse(raw))

    async def _relist(self) -> None:
        items, position = await self._client.list(self._path, self._params)
        present = {raw["metadata"]["uid"]: self._parse(raw) for raw in items}
        for uid, item in list(self._items.items()):
            if uid not in present and item.version <= position:
                self._put(uid, None)
        for uid, new in present.items():
            self._put(uid, new)
        self._position = position
        self.synced.set()

    def _take(self, kind: str, raw: Object) -> None:
        metadata = raw["metadata"]
        if kind != "BOOKMARK":
            self._put(metadata["uid"], None if kind == "DELETED" else self._parse(raw))
        self._position = int(metadata["resourceVersion"])

    def _put(self, uid: str, new: T | None) -> None:
        old = self._items.get(uid)
        if old is not None and new is not None and new.version <= old.version:
            return
        if new is None:
            self._items.pop(uid, None)
        else:
            self._items[uid] = new
        if old is not None or new is not None:
            self._on_change(old, new)


class DaemonSet:
    """A DaemonSet in kube-system: its name is all that counts."""

    def __init__(self, raw: Object) -> None:
        self.name: str = raw["metadata"]["name"]
        self.version = int(raw["metadata"]["resourceVersion"])


class World:
    """Nodes and their pods as the simulator sees them; `wake` is told each node that changed.

    `edition` is the one that is installed, by its DaemonSets.
    """

    def __init__(self, client: Client, wake: Callable[[str], None]) -> None:
        self._wake = wake
        self._nodes: dict[str, Node] = {}
        self._pods: defaultdict[str, dict[str, Pod]] = defaultdict(dict)
        self._reserved: dict[str, Pod] = {}
        self._daemonsets: set[str] = set()
        self.edition: Edition | None = None
        self.nodes = Mirror(client, "/api/v1/nodes", {}, parse_node, self._node_changed)
        self.pods = Mirror(
            client,
            "/api/v1/pods",
            {"fieldSelector": BOUND_AND_ALIVE},
            _parse_relevant,
            self._pod_changed,
        )
        self._systems = Mirror(
            client,
            f"/apis/apps/v1/namespaces/{names.SYSTEM_NAMESPACE}/daemonsets",
            {},
            DaemonSet,
            self._daemonset_changed,
        )

    async def run(self) -> None:
        """Keep watching until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for mirror in (self.nodes, self.pods, self._systems):
                tasks.create_task(mirror.run())

    async def wait_synced(self) -> None:
        """Return when everything has been listed once."""
        for mirror in (self.nodes, self.pods, self._systems):
            await mirror.synced.wait()

    def find_node(self, name: str) -> Node | None:
        """Return a node, or None if there is none of that name."""
        return self._nodes.get(name)

    def node_names(self) -> Iterator[str]:
        """Return the names of all nodes, sorted."""
        return iter(sorted(self._nodes))

    def pods_on(self, node: str) -> tuple[Pod, ...]:
        """Return the pods bound to a node, as its kubelet sees them."""
        return tuple(self._pods[node].values()) if node in self._pods else ()

    def ledger_of(self, node: str) -> tuple[Pod, ...]:
        """Return the pods that the scheduler charges to a node: bound, or about to be."""
        reserved = (pod for pod in self._reserved.values() if pod.node == node)
        return (*self.pods_on(node), *reserved)

    def reserve(self, pod: Pod) -> None:
        """Charge a pod, with its node and ledger entry, before its Binding is seen."""
        self._reserved[pod.uid] = pod

    def is_reserved(self, pod: Pod) -> bool:
        """Whether a pod is charged to a node whose Binding is not seen yet."""
        return pod.uid in self._reserved

    def release(self, pod: Pod) -> None:
        """Take a reservation back: the Binding failed, or the pod has been seen."""
        self._reserved.pop(pod.uid, None)

    def _node_changed(self, old: Node | None, new: Node | None) -> None:
        name = (new or old or Node("")).name
        current = self._nodes.get(name)
        if new is not None:
            self._nodes[name] = new
        elif current is not None and old is not None and current.uid == old.uid:
            del self._nodes[name]
        self._wake(name)

    def _pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        if old is not None:
            self._pods[old.node].pop(old.uid, None)
        if new is not None:
            self._pods[new.node][new.uid] = new
        for pod in (old, new):
            if pod is not None:
                self.release(pod)
                self._wake(pod.node)

    def _daemonset_changed(self, old: DaemonSet | None, new: DaemonSet | None) -> None:
        if old is not None:
            self._daemonsets.discard(old.name)
        if new is not None:
            self._daemonsets.add(new.name)
        edition = find_edition(self._daemonsets, self.edition)
        if edition != self.edition:
            log.info("edition: %s", edition)
            self.edition = edition
            for name in self._nodes:
                self._wake(name)


def _parse_relevant(raw: Object) -> Pod | None:
    pod = parse_pod(raw)
    matters = pod.node and not pod.is_finished and (pod.is_played or pod.is_unaccounted)
    return pod if matters else None
