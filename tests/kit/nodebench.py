"""A bench of real nodes, on which containers' allocations are read from the runtime."""

import json
from dataclasses import dataclass
from typing import Any

from devcluster.editions import Edition
from devcluster.node.cluster import NodeCluster
from devcluster.node.containerd import PAUSE_IMAGE
from devcluster.node.plugins import WITHOUT_CARDS, install_plugin
from devcluster.node.realnode import PROGRAMS, RealNode
from devcluster.node.release import NodeRelease
from devcluster.startup import tail
from devcluster.waiting import wait_until
from gpushare.names import ANNOTATION_RETRY
from tests.kit.bench import NODES, PODS, POOLS, Bench, Json
from tests.kit.cluster.expect import expect, expect_offered, expect_pool_ready, expect_running
from tests.kit.values.manifests import NODE_POOL, NODE_POOL_LABEL, build_pod, build_pool

CARDS, CARD_GIB = 2, 8
CGPU_DISABLE = "CGPU_DISABLE"
_OURS = ("gpushare.io/", "cgpu", "gpushare")
_EMPTY_SECONDS = 60
_DEVICE_CHECKPOINT = "/var/lib/kubelet/device-plugins/kubelet_internal_checkpoint"


@dataclass
class NodeBench(Bench):
    """A cluster of real nodes with the release; the first node has the GPU pods."""

    cluster: NodeCluster
    release: NodeRelease
    edition: Edition = "Basic"

    @property
    def host(self) -> RealNode:
        """The machine of the first node."""
        return next(iter(self.cluster.nodes.values()))

    def install(self, edition: Edition, *, name_label: bool = True) -> None:
        """Install `edition` with our plugin."""
        self.edition = edition
        install_plugin(self.cluster, edition, cards=CARDS, card_gib=CARD_GIB)

    def run_pod(self, name: str, *, gib: int | None = 2, **options: Any) -> str:
        """Create a GPU pod, which the webhook assigns to pool `training`; return when it runs."""
        return str(expect_running(self, self.send_pod(name, gib, **options))["metadata"]["name"])

    def send_pod(self, name: str, *gibs: int | None, **options: Any) -> str:
        """Create a GPU pod with a container for each of `gibs`, which waits for its end."""
        pod = build_pod(name, gib=gibs[0], terminationGracePeriodSeconds=0, **options)
        (first,) = pod["spec"]["containers"]
        first["image"] = PAUSE_IMAGE
        for gib in gibs[1:]:
            resources = build_pod(name, gib=gib)["spec"]["containers"][0]["resources"]
            pod["spec"]["containers"].append(
                {"name": f"with-{gib}", "image": PAUSE_IMAGE, "resources": resources}
            )
        return self.create_pod(pod)

    def environments(self, name: str) -> dict[str, dict[str, str]]:
        """Read the environment of each of the pod's containers from containerd."""
        environments = {}
        for status in self.pod(name)["status"]["containerStatuses"]:
            container = status["containerID"].removeprefix("containerd://")
            spec = json.loads(self.host.ctr("containers", "info", container))["Spec"]
            environments[status["name"]] = dict(
                each.split("=", 1) for each in spec["process"]["env"]
            )
        return environments

    def is_held(self, name: str) -> bool:
        """Tell whether the pod's first container is limited to its share: the edition isolates, and
        the plugin has not switched that off."""
        environment = self.environments(name)["main"]
        return self.edition == "Basic" and environment.get(CGPU_DISABLE) != "true"

    def containers(self) -> dict[str, tuple[str, int]]:
        """Read the ID and the restarts of the first container of each running pod."""
        return {
            pod["metadata"]["name"]: (status["containerID"], status["restartCount"])
            for pod in self.pods()
            if pod["status"]["phase"] == "Running"
            for status in pod["status"]["containerStatuses"][:1]
        }

    def plugin(self) -> Json:
        return self.plugins()[self.host.name]

    def has_other_plugin(self, uid: str) -> bool:
        """Tell whether a plugin runs in a pod other than that of `uid`."""
        plugins = self.plugins().values()
        return any(
            pod["metadata"]["uid"] != uid and pod["status"]["phase"] == "Running" for pod in plugins
        )

    def signal_plugin(self, signal: str) -> None:
        (status,) = self.plugin()["status"]["containerStatuses"]
        self.host.kill_container(status["containerID"], signal)

    def restart_kubelet(self) -> None:
        """Kill and start the kubelet, and wait until the plugin has listed its devices again: until
        then the kubelet refuses pods for good, whatever the node offers."""
        before = self._read_device_checkpoint()
        self.host.kill("kubelet")
        self.host.start("kubelet")
        expect(
            self,
            "the kubelet has the plugin's devices",
            lambda: self._read_device_checkpoint() != before,
        )

    def _read_device_checkpoint(self) -> str:
        """Read the time at which the kubelet last stored the plugins' devices."""
        return self.host.namespaces.run("stat", "--format=%.Y", _DEVICE_CHECKPOINT)

    def take_cards(self, *, away: bool = True) -> None:
        """Hide the cards from a plugin that starts; with `away` False show them again."""
        self.host.namespaces.run(*(("touch",) if away else ("rm", "-f")), WITHOUT_CARDS)

    def clear(self) -> None:
        """Delete all pods and pools, and reset the node's labels."""
        self.take_cards(away=False)
        self.clear_pods()
        for pool in self.call("GET", POOLS)["items"]:
            self.call("DELETE", f"{POOLS}/{pool['metadata']['name']}")
        wait_until(
            lambda: not self.call("GET", POOLS)["items"],
            expectation="the operator lets its pools go",
            timeout_seconds=_EMPTY_SECONDS,
            advice=self.describe,
        )
        node = self.node(self.host.name)["metadata"]
        none = {
            part: {key: None for key in node.get(part, {}) if key.startswith(_OURS)}
            for part in ("labels", "annotations")
        }
        self.call(
            "PATCH",
            f"{NODES}/{self.host.name}",
            {"metadata": none, "spec": {"unschedulable": None}},
        )

    def clear_pods(self) -> None:
        """Delete the GPU pods, and wait until the kubelet has ended them."""
        self.call("DELETE", PODS)
        wait_until(
            lambda: not self.pods(),
            expectation="no GPU pod is left",
            timeout_seconds=_EMPTY_SECONDS,
        )

    def describe(self) -> str:
        """Describe the state for a failed test, with logs of the controller, the plugin and the
        node's programs; of the latter, which run."""
        logs = {
            pod["metadata"]["name"]: self.host.read_pod_log(pod)
            for pod in [*self.plugins().values(), *self.release.pods("controller")]
        }
        for program in PROGRAMS:
            logs[f"{program} {self.host.find_pids(program)}"] = tail(self.host.log(program))
        parts = (f"--- {name}\n" + "\n".join(log.splitlines()[-20:]) for name, log in logs.items())
        return "\n".join([super().describe(), *parts])


def given_pool(bench: NodeBench, edition: Edition, schedule: str = "") -> None:
    """Put the node into the pool `training` in this mode, and wait until it is Ready; an existing
    pool is kept. Without `schedule` the mode is that of the test before, or `share`."""
    if any(pool["spec"]["edition"] != edition for pool in bench.call("GET", POOLS)["items"]):
        bench.clear()
    if not bench.call("GET", POOLS)["items"]:
        bench.install(edition)
        # As on each GPU node of ACK.
        cards = {"aliyun.accelerator/nvidia_count": str(CARDS)}
        bench.label(bench.host.name, {NODE_POOL_LABEL: NODE_POOL, **cards})
        bench.create_pool(build_pool(edition=edition, schedule=schedule or "share"))
    else:
        # Many tests change one pool and its node: without a person's retries that is a contest of
        # writers, and too many restarts within an hour.
        generation = str(bench.pool()["metadata"]["generation"])
        for path in (f"{POOLS}/training", f"{NODES}/{bench.host.name}"):
            bench.annotate(path, {ANNOTATION_RETRY: generation})
    if schedule:
        bench.change_pool(schedule=schedule)
    expect_shared(bench)


def expect_shared(bench: NodeBench) -> None:
    """Wait until the pool is Ready, and its node offers all of its cards."""
    expect_pool_ready(bench, nodes=1)
    expect_offered(bench, bench.host.name, CARDS * CARD_GIB)


def expect_truth(bench: NodeBench, *, may_not_know: bool = False) -> None:
    """Wait until the pool reports the actual isolation of all running containers. With
    `may_not_know` it may report any of them as unknown."""

    def probe() -> bool:
        isolation = bench.pool()["status"].get("isolation") or {}
        running = [p["metadata"]["name"] for p in bench.pods() if p["status"]["phase"] == "Running"]
        limited = sum(map(bench.is_held, running))
        isolated, unknown = isolation.get("isolated", 0), isolation.get("unknown", 0)
        return (
            isolation.get("containers", 0) == len(running)
            and isolated <= limited <= isolated + unknown
            and (may_not_know or not unknown)
        )

    expect(bench, "status.isolation says what the containers have", probe)
