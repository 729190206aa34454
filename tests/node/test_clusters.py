"""A cluster with a real node, from the command line: nothing of it stays, whatever was killed."""

import os
import signal
import subprocess
import sys
from pathlib import Path

from devcluster.node.cgroups import observe_cgroups
from devcluster.node.cluster import NodeCluster
from devcluster.processes import observe_processes
from devcluster.startup import PROJECT
from devcluster.waiting import wait_until

START_SECONDS = 120
LEASE = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/node-1"


def run(command: str, folder: Path) -> subprocess.Popen[bytes]:
    arguments = ["--name=killed", f"--folder={folder}"]
    return subprocess.Popen([sys.executable, "-m", "devcluster", command, *arguments], cwd=PROJECT)


def read_kernel() -> dict[str, str]:
    """What a kubelet would set for the whole machine; the tests' own values are none of its."""
    path = Path("/proc/sys/kernel/panic")
    return {str(path): path.read_text()}


def list_cgroups(folder: Path) -> list[Path]:
    name = NodeCluster("killed", folder).cgroup
    return [path for path in observe_cgroups().root.glob(f"*/{name}") if path.is_dir()]


def test_a_start_that_is_killed_is_cleared_by_node_down(
    cluster: NodeCluster, tmp_path: Path
) -> None:
    folder, kernel = tmp_path / "node", read_kernel()
    starting = run("node", folder)
    wait_until(
        # Unlike a glob, a walk passes over folders that containerd takes away meanwhile.
        lambda: any("kubelet.log" in files for _, _, files in os.walk(folder)),
        expectation="the kubelet is started",
        timeout_seconds=START_SECONDS,
    )
    assert list_cgroups(folder)
    starting.send_signal(signal.SIGKILL)
    starting.wait()
    assert run("node-down", folder).wait() == 0
    assert observe_processes(folder) == []
    assert str(folder) not in Path("/proc/self/mountinfo").read_text()
    assert list_cgroups(folder) == []
    assert read_kernel() == kernel
    assert not any(folder.rglob("*"))


def test_a_kubelet_that_comes_before_containerd_is_started_again(cluster: NodeCluster) -> None:
    node = cluster.nodes["node-1"]
    node.kill("kubelet")
    node.kill("containerd")
    renewed = cluster.api.call("GET", LEASE)["spec"]["renewTime"]
    log = node.log("kubelet")
    before = len(log.read_bytes())
    node.start("kubelet")
    wait_until(
        lambda: b"failed to run Kubelet" in log.read_bytes()[before:],
        expectation="a kubelet without containerd ends",
        timeout_seconds=START_SECONDS,
    )
    node.start("containerd")
    wait_until(
        lambda: cluster.api.call("GET", LEASE)["spec"]["renewTime"] != renewed,
        expectation="another kubelet reports",
        timeout_seconds=START_SECONDS,
    )
