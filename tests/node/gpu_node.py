"""One GPU node of the Basic edition under no operator: a real one, or a simulated one."""

import uuid
from abc import abstractmethod
from dataclasses import dataclass
from functools import partial
from typing import Any

from devcluster import names
from devcluster.nodes import reboot_node, restart_kubelet, signal_plugin
from tests.kit.bench import GPU_MEM, PODS, SYSTEM_PODS, Bench, Json
from tests.kit.cluster.expect import is_isolated
from tests.kit.nodebench import CARD_GIB, CARDS, NodeBench
from tests.kit.values.manifests import build_pod
from tests.node.watched_node import WatchedNode

ALL_GIB = str(CARDS * CARD_GIB)
_LABELS = ("cgpu", "cgpu.disable.isolation")


class Stage(WatchedNode):
    """The node `node`, which is labelled by hand."""

    @abstractmethod
    def restart_kubelet(self) -> None:
        """Kill the kubelet and start it again."""

    @abstractmethod
    def signal_plugin(self) -> None:
        """SIGHUP to the plugin's process."""

    @abstractmethod
    def reboot(self) -> None:
        """Another boot, after a loss of power."""

    @abstractmethod
    def restart_container(self, pod: str) -> None:
        """End the pod's container; the kubelet starts it again."""

    @abstractmethod
    def is_isolated(self, pod: str) -> bool:
        """Whether the pod's container is held to its share of GPU memory."""

    @abstractmethod
    def send_pod(self, name: str, *, gib: int | None = 1, **spec: Any) -> str:
        """Create a pod that asks for so much GPU memory, if any, and only waits."""

    def begin(self) -> None:
        """The node isolates: its plugin has read that, and offers all memory."""
        self.end_pods()
        self.label("true", "false")
        if self.node in self.bench.plugins():
            self.replace_plugin()
        self.expect_served()

    def label(self, switch: str, disabled: str) -> None:
        """Write the edition's labels: cgpu, and cgpu.disable.isolation."""
        self.bench.label(self.node, dict(zip(_LABELS, (switch, disabled), strict=True)))

    def replace_plugin(self) -> None:
        """Delete the plugin's pod, and wait until another serves."""
        old = self.bench.plugins()[self.node]["metadata"]
        self.bench.call("DELETE", f"{SYSTEM_PODS}/{old['name']}")
        self.expect("another plugin is there", partial(self._is_replaced, old["uid"]))
        self.expect_served()

    def expect_served(self) -> None:
        """Until a GPU pod runs: the plugin has registered with the kubelet of now."""
        self.expect("all memory is offered", lambda: self.read_status()["allocatable"] == ALL_GIB)
        tries: list[str] = []

        def is_served() -> bool:
            phase = self.bench.pod(tries[-1])["status"].get("phase") if tries else "Failed"
            if phase == "Failed":
                # A name of its own: who ends the former pod of a name may end the next one, too.
                tries.append(self.send_pod(f"probe-{uuid.uuid4().hex[:8]}"))
            return bool(phase == "Running")

        self.expect("a GPU pod runs", is_served)
        for name in tries:
            self.bench.delete_pod(name)

    def run_pod(self, name: str, *, gib: int | None = 1) -> str:
        self.send_pod(name, gib=gib)
        self.expect(f"{name} runs", lambda: self.bench.pod(name)["status"]["phase"] == "Running")
        return name

    def read_status(self) -> dict[str, str]:
        """Capacity and allocatable of GPU memory; "absent" where the node says nothing of it."""
        status = self.bench.node(self.node)["status"]
        return {
            part: status.get(part, {}).get(GPU_MEM, "absent")
            for part in ("capacity", "allocatable")
        }

    def identify_plugin(self) -> tuple[str, int]:
        """UID and container restarts of the plugin's pod."""
        pod = self.bench.plugins()[self.node]
        return pod["metadata"]["uid"], _count_restarts(pod)

    def count_restarts(self, pod: str) -> int:
        return _count_restarts(self.bench.pod(pod))

    def _is_replaced(self, uid: str) -> bool:
        pod = self.bench.plugins().get(self.node)
        return pod is not None and pod["metadata"]["uid"] != uid


def _count_restarts(pod: Json) -> int:
    restarts: int = pod["status"]["containerStatuses"][0]["restartCount"]
    return restarts


@dataclass
class SimulatedStage(Stage):
    bench: Bench
    node: str = "simulated"

    def restart_kubelet(self) -> None:
        restart_kubelet(self.bench.cluster, self.node)

    def signal_plugin(self) -> None:
        name = self.bench.plugins()[self.node]["metadata"]["name"]
        signal_plugin(self.bench.cluster, name)

    def reboot(self) -> None:
        reboot_node(self.bench.cluster, self.node)

    def restart_container(self, pod: str) -> None:
        self.bench.annotate(f"{PODS}/{pod}", {names.RESTART_CONTAINER: "1"})

    def is_isolated(self, pod: str) -> bool:
        return is_isolated(self.bench.pod(pod))

    def send_pod(self, name: str, *, gib: int | None = 1, **spec: Any) -> str:
        return self.bench.create_pod(build_pod(name, gib=gib, **spec))


@dataclass
class RealStage(Stage):
    bench: NodeBench
    node: str

    def restart_kubelet(self) -> None:
        self.bench.restart_kubelet()

    def signal_plugin(self) -> None:
        self.bench.signal_plugin("HUP")

    def reboot(self) -> None:
        self.bench.host.reboot()

    def restart_container(self, pod: str) -> None:
        (status,) = self.bench.pod(pod)["status"]["containerStatuses"]
        self.bench.host.kill_container(status["containerID"])

    def is_isolated(self, pod: str) -> bool:
        return self.bench.is_held(pod)

    def send_pod(self, name: str, *, gib: int | None = 1, **spec: Any) -> str:
        return self.bench.send_pod(name, gib, **spec)
