"""A control plane with real nodes, in the network of the first node."""

import hashlib
import os
import sys
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path

from devcluster.cluster import Cluster, Report
from devcluster.errors import ClusterError
from devcluster.folder import State
from devcluster.images import build_program_image, save_image
from devcluster.node.cgroups import observe_cgroups
from devcluster.node.containerd import PAUSE_IMAGE
from devcluster.node.machine import ensure_packages, find_problem
from devcluster.node.namespaces import Namespaces, start_namespaces
from devcluster.node.network import connect
from devcluster.node.realnode import RealNode
from devcluster.nodes import is_open, list_nodes
from devcluster.startup import tail
from devcluster.toolchain import CONTAINERD, KUBELET, PAUSE, ensure_binaries
from devcluster.waiting import wait_until

_READY_SECONDS = 60


class NodeCluster(Cluster):
    """A cluster with the real nodes `node_names`, of which the first is its host."""

    def __init__(self, name: str, folder: Path, node_names: Sequence[str] = ("node-1",)) -> None:
        super().__init__(name, folder)
        self._node_names = tuple(node_names)

    @cached_property
    def nodes(self) -> dict[str, RealNode]:
        """Real nodes by name, once the cluster is up."""
        return {name: self._find_node(name) for name in self._node_names}

    def up(self, *, report: Report = print) -> None:
        """Start the cluster and its nodes. Raises `ClusterError` where this machine can't."""
        if problem := find_problem():
            raise ClusterError(f"{problem}.")
        ensure_packages(report)
        for module in (KUBELET, CONTAINERD, PAUSE):
            ensure_binaries(os.environ, module, report=report)
        super().up(report=report)

    def down(self) -> None:
        """End the cluster, its nodes and their containers; no process, mount or cgroup stays."""
        super().down()
        self.__dict__.pop("nodes", None)
        observe_cgroups().remove(self.cgroup)

    def is_running(self) -> bool:
        """Tell whether the control plane runs and every node is Ready."""
        return super().is_running() and not self._find_unready()

    def _start_components(self, state: State) -> State:
        nodes = [self._make_namespaces(name) for name in self._node_names]
        for count in range(len(nodes)):
            connect(nodes[: count + 1])
        state = replace(state, network_pid=nodes[0].init_pid)
        self._folder.record(state)
        ports = [state.ports.apiserver, state.ports.simulator]
        gateway = [sys.executable, "-m", "devcluster.node.gateway", str(nodes[0].init_pid)]
        self.spawn([*gateway, *map(str, ports)], log="gateway.log", env=self.environment)
        super()._start_components(state)
        pause = self._save_pause()
        for node in self.nodes.values():
            node.configure()
            node.start("containerd")
            node.import_image(pause)
            node.start_all()
        wait_until(
            lambda: not self._find_unready(),
            expectation=f"cluster {self.name}: every node is Ready",
            timeout_seconds=_READY_SECONDS,
            advice=lambda: "\n".join(tail(node.log("kubelet")) for node in self.nodes.values()),
        )
        return state

    def _make_namespaces(self, name: str) -> Namespaces:
        observe_cgroups().create(self.cgroup, name)
        namespaces = start_namespaces(
            name,
            cluster=self.folder,
            folder=self._folder.nodes / name,
            env=self.environment,
        )
        (namespaces.folder / "init.pid").write_text(str(namespaces.init_pid))
        return namespaces

    def _find_node(self, name: str) -> RealNode:
        folder = self._folder.nodes / name
        pid = int((folder / "init.pid").read_text())
        kubernetes = ensure_binaries(os.environ, KUBELET)
        containerd = ensure_binaries(os.environ, CONTAINERD)
        return RealNode(
            self._folder,
            Namespaces(name, folder, pid),
            self._node_names.index(name),
            f"{self.cgroup}/{name}",
            {"kubelet": kubernetes, "kube-proxy": kubernetes, "containerd": containerd},
        )

    def _save_pause(self) -> Path:
        archive = self._folder.contents / "pause.tar"
        build_program_image(PAUSE_IMAGE, ensure_binaries(os.environ, PAUSE) / "pause")
        return save_image(PAUSE_IMAGE, archive)

    def _find_unready(self) -> set[str]:
        return set(self._node_names) - {
            node["metadata"]["name"] for node in list_nodes(self) if is_open(node)
        }

    @property
    def cgroup(self) -> str:
        """Cgroup of the nodes, below the root of each hierarchy."""
        # Two clusters may have nodes of one name, but never one folder.
        return f"devcluster-{hashlib.sha256(str(self.folder).encode()).hexdigest()[:12]}"
