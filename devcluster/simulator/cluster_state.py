"""Keeps the nodes, GPU pods and components of a cluster up to date by watches."""

import asyncio
import logging
from collections import defaultdict
from collections.abc import Callable, Iterator

from devcluster import names
from devcluster.apiobject import Object
from devcluster.client import Client
from devcluster.mirror import Mirror
from devcluster.simulator.objects import Node, Pod, parse_node, parse_pod
from devcluster.simulator.plugin import Edition, find_edition

log = logging.getLogger(__name__)

BOUND_AND_ALIVE = "spec.nodeName!=,status.phase!=Succeeded,status.phase!=Failed"


class DaemonSet:
    """The name of a DaemonSet in kube-system."""

    def __init__(self, raw: Object) -> None:
        self.name: str = raw["metadata"]["name"]
        self.version = int(raw["metadata"]["resourceVersion"])


class UnhealthyCards:
    """A ConfigMap that may list a node's unhealthy cards."""

    def __init__(self, raw: Object) -> None:
        self.name: str = raw["metadata"]["name"]
        self.gpus: str | None = (raw.get("data") or {}).get("gpus")
        self.version = int(raw["metadata"]["resourceVersion"])


class PluginConfigs:
    """A ConfigMap that may have configurations of NVIDIA's plugin."""

    def __init__(self, raw: Object) -> None:
        self.key = f"{raw['metadata']['namespace']}/{raw['metadata']['name']}"
        self.data: dict[str, str] = raw.get("data") or {}
        self.version = int(raw["metadata"]["resourceVersion"])


class ClusterState:
    """Nodes and their pods; `wake` is called for each changed node.

    `edition` is the installed one, by its DaemonSets; `configs` are those of NVIDIA's plugin.
    """

    def __init__(self, client: Client, wake: Callable[[str], None]) -> None:
        self._wake = wake
        self._nodes: dict[str, Node] = {}
        self._pods: defaultdict[str, dict[str, Pod]] = defaultdict(dict)
        self._reserved: dict[str, Pod] = {}
        self._daemonsets: set[str] = set()
        self._unhealthy: dict[str, str] = {}
        self.configs: dict[str, dict[str, str]] = {}
        self.on_pod: Callable[[Pod | None, Pod | None], None] = lambda old, new: None
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
        self._config_maps = Mirror(
            client,
            f"/api/v1/namespaces/{names.SYSTEM_NAMESPACE}/configmaps",
            {},
            UnhealthyCards,
            self._config_map_changed,
        )
        self._plugin_configs = Mirror(
            client,
            f"/api/v1/namespaces/{names.NVIDIA_NAMESPACE}/configmaps",
            {},
            PluginConfigs,
            self._plugin_configs_changed,
        )
        self._mirrors = (
            self.nodes,
            self.pods,
            self._systems,
            self._config_maps,
            self._plugin_configs,
        )

    async def run(self) -> None:
        """Keep watching until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for mirror in self._mirrors:
                tasks.create_task(mirror.run())

    async def wait_synced(self) -> None:
        """Wait until all kinds have been listed once."""
        for mirror in self._mirrors:
            await mirror.synced.wait()

    def find_node(self, name: str) -> Node | None:
        """Find a node; None if there is none with that name."""
        return self._nodes.get(name)

    def node_names(self) -> Iterator[str]:
        """Return the names of all nodes, sorted."""
        return iter(sorted(self._nodes))

    def node_uids(self) -> set[str]:
        """Return the UIDs of all nodes."""
        return {node.uid for node in self._nodes.values()}

    def find_unhealthy(self, node: str) -> str | None:
        """Find the text of a node's ConfigMap of unhealthy cards; None where there is none."""
        return self._unhealthy.get(f"{names.UNHEALTHY_GPU}{node}")

    def bound_pods(self) -> Iterator[Pod]:
        """Return the pods of all nodes."""
        return (pod for pods in self._pods.values() for pod in pods.values())

    def pods_on(self, node: str) -> tuple[Pod, ...]:
        """Return the pods bound to a node."""
        return tuple(self._pods[node].values()) if node in self._pods else ()

    def ledger_of(self, node: str) -> tuple[Pod, ...]:
        """Return the pods in the scheduler's ledger of a node: bound, or about to be."""
        reserved = (pod for pod in self._reserved.values() if pod.node == node)
        return (*self.pods_on(node), *reserved)

    def reserve(self, pod: Pod) -> None:
        """Add a pod with its node to the ledger before the watch shows its Binding."""
        self._reserved[pod.uid] = pod

    def is_reserved(self, pod: Pod) -> bool:
        """Tell whether the ledger has a pod whose Binding the watch has not shown yet."""
        return pod.uid in self._reserved

    def release(self, pod: Pod) -> None:
        """Remove a reservation: the Binding failed, or the watch has shown it."""
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
        self.on_pod(old, new)

    def _config_map_changed(self, old: UnhealthyCards | None, new: UnhealthyCards | None) -> None:
        if old is not None:
            self._unhealthy.pop(old.name, None)
        if new is not None and new.gpus is not None:
            self._unhealthy[new.name] = new.gpus

    def _plugin_configs_changed(self, old: PluginConfigs | None, new: PluginConfigs | None) -> None:
        if old is not None:
            self.configs.pop(old.key, None)
        if new is not None:
            self.configs[new.key] = new.data
        for name in self._nodes:
            self._wake(name)

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
