"""A real node with containerd, kubelet and kube-proxy, which can be killed and started."""

import os
import signal
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from devcluster.controlplane import API_SERVER_ADDRESS
from devcluster.errors import ClusterError
from devcluster.folder import ClusterFolder
from devcluster.node.cgroups import observe_cgroups
from devcluster.node.containerd import import_image, write_configuration
from devcluster.node.kubelet import (
    build_kube_proxy_configuration,
    build_kubelet_configuration,
    write_kubeconfig,
)
from devcluster.node.namespaces import Namespaces
from devcluster.node.network import PODS, node_address, pod_subnet
from devcluster.processes import has_ended, observe_processes, spawn
from devcluster.startup import tail
from devcluster.waiting import wait_until

PROGRAMS = ("containerd", "kubelet", "kube-proxy")
"""Programs in the order of their start."""
_START_SECONDS = 30
_MARK = "DEVCLUSTER_NODE"
_BOOT_ID = "/proc/sys/kernel/random/boot_id"
# As systemd does: a kubelet ends where containerd answers, but has not read its pods' state yet.
_RESTARTED_ON_FAILURE = 'until "$0" "$@" || [ $? -ne 1 ]; do sleep 1; done'


@dataclass(frozen=True)
class RealNode:
    """The node at `index` of a cluster; `binaries` has the folder of each program."""

    cluster: ClusterFolder
    namespaces: Namespaces
    index: int
    cgroup: str
    binaries: Mapping[str, Path]

    @property
    def name(self) -> str:
        return self.namespaces.name

    @property
    def address(self) -> str:
        return node_address(self.index)

    def configure(self) -> None:
        """Write the programs' configurations."""
        pki, folder = self.cluster.components / "pki", self.namespaces.folder
        server = f"https://{API_SERVER_ADDRESS}:{self.cluster.state().ports.apiserver}"
        write_kubeconfig(
            folder / "kubelet.kubeconfig",
            pki=pki,
            server=server,
            user=f"system:node:{self.name}",
            group="system:nodes",
        )
        proxy = write_kubeconfig(
            folder / "kube-proxy.kubeconfig",
            pki=pki,
            server=server,
            user="system:kube-proxy",
        )
        write_configuration(folder, self.namespaces, pod_subnet(self.index))
        kubelet = build_kubelet_configuration(
            cgroup=self.cgroup, address=self.address, client_ca=str(pki / "ca.crt")
        )
        (folder / "kubelet.yaml").write_text(yaml.safe_dump(kubelet))
        kube_proxy = build_kube_proxy_configuration(
            kubeconfig=str(proxy), node=self.name, pods=PODS
        )
        (folder / "kube-proxy.yaml").write_text(yaml.safe_dump(kube_proxy))

    def start(self, program: str) -> None:
        """Start one of `PROGRAMS`; only containerd is known to answer on return."""
        folder = self.namespaces.folder
        arguments = {
            "containerd": [f"--config={folder}/containerd.toml"],
            "kubelet": [
                f"--config={folder}/kubelet.yaml",
                f"--kubeconfig={folder}/kubelet.kubeconfig",
                f"--hostname-override={self.name}",
                f"--node-ip={self.address}",
            ],
            "kube-proxy": [f"--config={folder}/kube-proxy.yaml"],
        }[program]
        path = f"{self.binaries['containerd']}:/usr/local/sbin:/usr/sbin:/usr/bin:/sbin:/bin"
        spawn(
            self.namespaces.enter(
                "bash",
                "-c",
                _RESTARTED_ON_FAILURE,
                str(self.binaries[program] / program),
                *arguments,
            ),
            folder=self.cluster.path,
            working_folder=folder,
            log=self.log(program),
            env={"PATH": path, "HOME": "/root", _MARK: self.name},
        )
        if program == "containerd":
            self._expect(self._containerd_answers, "containerd answers", program)

    def start_all(self) -> None:
        """Start all programs that do not run, as when a machine boots."""
        for program in PROGRAMS:
            if not self.find_pids(program):
                self.start(program)

    def kill(self, program: str) -> None:
        """Kill one of `PROGRAMS` by SIGKILL; return once it has ended. Containers go on."""
        pids = self.find_pids(program)
        if not pids:
            raise ClusterError(f"node {self.name}: {program} does not run")
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
        self._expect(lambda: all(map(has_ended, pids)), f"{program} has ended", program)

    def shut_down(self) -> None:
        """End all processes on the node at once, as a loss of power does; the disk stays."""
        self.namespaces.run("bash", "-c", "kill -9 -1")
        self._expect(lambda: not self._find_marked(), "all processes have ended", "kubelet")
        self.namespaces.run("bash", "-euc", _UNMOUNT)
        # The kubelet that starts would look for the container of each that is left, seconds long.
        observe_cgroups().remove(f"{self.cgroup}/kubepods")

    def reboot(self) -> None:
        """Shut the node down and start it in another boot; the pods' containers are gone, their
        checkpoints in /var/lib/kubelet stay."""
        self.shut_down()
        boot_id = self.namespaces.folder / "boot_id"
        boot_id.write_text(Path("/proc/sys/kernel/random/uuid").read_text())
        self.namespaces.run("mount", "--bind", str(boot_id), _BOOT_ID)
        self.start_all()

    def import_image(self, archive: Path) -> None:
        """Import the images of an archive; the kubelet pulls none."""
        import_image(self.namespaces, self.binaries["containerd"] / "ctr", archive)

    def ctr(self, *arguments: str) -> str:
        """Run ctr for the kubelet's containers and return its output."""
        ctr = str(self.binaries["containerd"] / "ctr")
        return self.namespaces.run(ctr, "--namespace=k8s.io", *arguments)

    def kill_container(self, container_id: str, signal: str = "KILL") -> None:
        """Send a signal to a container's first process, by the ID in its pod's status."""
        name = container_id.removeprefix("containerd://")
        for line in self.ctr("tasks", "list").splitlines():
            task, pid, *_ = line.split()
            if task == name:
                self.namespaces.run("kill", f"-{signal}", pid)
                return
        raise ClusterError(f"node {self.name}: no process runs in container {name}")

    def log(self, program: str) -> Path:
        return self.namespaces.folder / f"{program}.log"

    def read_pod_log(self, pod: dict[str, Any]) -> str:
        """Read the logs of a pod's containers, without the kubelet."""
        name = "{namespace}_{name}_{uid}".format(**pod["metadata"])
        folder = Path(f"{self.namespaces.folder}/var/log/pods/{name}")
        return "".join(file.read_text() for file in sorted(folder.glob("*/*.log")))

    def find_pids(self, program: str) -> list[int]:
        """Find the process IDs on the machine of a program on this node."""
        return [pid for pid, name in self._find_marked() if name == program]

    def _find_marked(self) -> list[tuple[int, str]]:
        mark = f"{_MARK}={self.name}".encode()
        marked = []
        for pid in observe_processes(self.cluster.path):
            try:
                environment = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
                program = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[0]
            except OSError:
                continue
            name = os.path.basename(program.decode())
            # nsenter waits for the program that it started in the node.
            if mark in environment and name != "nsenter":
                marked.append((pid, name))
        return marked

    def _containerd_answers(self) -> bool:
        try:
            self.ctr("version")
        except ClusterError:
            return False
        return True

    def _expect(self, condition: Callable[[], bool], expectation: str, program: str) -> None:
        wait_until(
            condition,
            expectation=f"node {self.name}: {expectation}",
            timeout_seconds=_START_SECONDS,
            advice=lambda: f"The end of its log:\n{tail(self.log(program))}",
        )


_UNMOUNT = f"""
awk '$5 ~ "^/(run|var/lib/kubelet/pods)/" || $5 == "{_BOOT_ID}" {{print $5}}' /proc/self/mountinfo |
    tac | while read -r path; do umount -l "$path"; done
rm -rf /run/*
rm -f /var/lib/kubelet/device-plugins/*.sock
"""
