"""One node under NVIDIA's device plugin and its config-manager: a real one, or a simulated one."""

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field

from devcluster import names
from devcluster.node.containerd import PAUSE_IMAGE
from devcluster.node.nvidia import MPS_ROOT
from devcluster.nvidia import CONFIG_MAP, MPS_DAEMONS, NVIDIA_CHART, load_nvidia
from tests.kit.bench import NODES, Bench, Json
from tests.kit.cluster.expect import expect_quiet, read_record
from tests.kit.cluster.nvidia_stack import CARDS, CONFIGS, GPU, NAMESPACE, SHARED, STACK_PODS
from tests.kit.nodebench import NodeBench
from tests.kit.values.manifests import build_pod
from tests.node.watched_node import WatchedNode

DAEMONSETS = f"/apis/apps/v1/namespaces/{NAMESPACE}/daemonsets"
BEGIN = 8 * CARDS
_MANIFESTS = {(each["kind"], each["metadata"]["name"]): each for each in load_nvidia()}
_VOLUME = "/var/lib/kubelet/pods/{uid}/volumes/kubernetes.io~configmap/available-configs/{key}"
_REFUSED = '"Error connecting to device plugin client" err="device plugin already connected'
Offer = Mapping[str, int]


@dataclass
class Stage(WatchedNode):
    """The node `node`, on which the label says `slices-8` at first."""

    bench: Bench
    node: str

    @abstractmethod
    def signal_plugin(self) -> None:
        """SIGHUP to the plugin's process."""

    @abstractmethod
    def start_daemon(self) -> None:
        """A daemon of MPS answers for `nvidia.com/gpu`."""

    @abstractmethod
    def stop_daemon(self) -> None:
        """No daemon answers."""

    @abstractmethod
    def read_cards(self, pod: str) -> set[str]:
        """The cards that the plugin gave to a pod's container."""

    def begin(self) -> None:
        """A fresh pod of the plugin has followed the label: it offers eight slices of a card."""
        self.end_pods()
        self.stop_daemon()
        self.bench.call("PUT", CONFIGS, _MANIFESTS["ConfigMap", CONFIG_MAP])
        self.choose(None)
        self.delete_plugin()
        self.expect("it is Ready", self.is_ready)
        # Eight may be offered still by the pod before.
        self.expect_offered({GPU: CARDS})
        self.choose("slices-8")
        self.expect_offered({GPU: BEGIN})

    def choose(self, key: str | None) -> None:
        """Have the node's label name this key."""
        self.bench.label(self.node, {names.DEVICE_PLUGIN_CONFIG: key})

    def edit(self, key: str, text: str) -> None:
        """Give a key other content, and wait until the plugin's pod has it."""
        self.bench.call("PATCH", CONFIGS, {"data": {key: text}})
        self.expect_mounted(key, text)

    @abstractmethod
    def expect_mounted(self, key: str, text: str) -> None:
        """Until the volume of the plugin's pod has this content."""

    def find_plugin(self) -> Json | None:
        pods = (
            pod
            for pod in self.bench.pods(STACK_PODS)
            if pod["metadata"]["ownerReferences"][0]["name"] == NVIDIA_CHART
            and pod["spec"].get("nodeName") == self.node
            and "deletionTimestamp" not in pod["metadata"]
        )
        return next(pods, None)

    def plugin(self) -> Json:
        pod: Json = self.expect("the plugin has a pod", self.find_plugin)
        return pod

    def delete_plugin(self) -> None:
        """Delete the plugin's pod, and wait until another is there."""
        old = self.plugin()["metadata"]
        self.bench.call("DELETE", f"{STACK_PODS}/{old['name']}")

        def is_replaced() -> bool:
            pod = self.find_plugin()
            return pod is not None and pod["metadata"]["uid"] != old["uid"]

        self.expect("another plugin is there", is_replaced)

    def is_ready(self) -> bool:
        conditions = self.plugin()["status"].get("conditions") or []
        return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)

    def identify(self) -> tuple[str, int]:
        """UID of the plugin's pod, and restarts of the plugin in it."""
        pod = self.plugin()
        return pod["metadata"]["uid"], self.read_container("-ctr")["restartCount"]

    def read_container(self, suffix: str) -> Json:
        """Status of the container of the plugin's pod whose name ends so; empty before there is
        one."""
        status = self.plugin()["status"]
        parts = ("containerStatuses", "initContainerStatuses")
        found = [each for part in parts for each in status.get(part) or ()]
        return next((each for each in found if each["name"].endswith(suffix)), {})

    def expect_crashing(self, suffix: str) -> None:
        """Until that container ends again and again."""

        def is_crashing() -> bool:
            waiting = self.read_container(suffix).get("state", {}).get("waiting") or {}
            return bool(waiting.get("reason") == "CrashLoopBackOff")

        self.expect(f"{suffix} crashes", is_crashing)

    def read_offer(self) -> Offer:
        """What is allocatable; nothing of a resource of which the node says nothing."""
        offer = self.bench.node(self.node)["status"].get("allocatable") or {}
        return {name: int(offer[name]) for name in (GPU, SHARED) if name in offer}

    def expect_offered(self, offer: Offer) -> None:
        self.expect(f"{offer} is offered", lambda: offer.items() <= self.read_offer().items())

    def expect_kept(self) -> None:
        """Until what is offered has been the same for a second."""
        expect_quiet(self.bench, "what is offered stays", self.read_offer)

    def send_pod(self, name: str, *, count: int = 1, resource: str = GPU) -> str:
        """Create a pod that asks for so much, and is bound to the node."""
        pod = build_pod(name, gib=None, nodeName=self.node, terminationGracePeriodSeconds=0)
        container = pod["spec"]["containers"][0]
        container |= {"image": PAUSE_IMAGE, "resources": {"limits": {resource: str(count)}}}
        return self.bench.create_pod(pod)


@dataclass
class SimulatedStage(Stage):
    def signal_plugin(self) -> None:
        path = f"{STACK_PODS}/{self.plugin()['metadata']['name']}"
        self.bench.annotate(path, {names.SIGNAL: "1"})

    def start_daemon(self) -> None:
        # The real one's stand-in has no configuration that it could miss.
        self.bench.annotate(f"{NODES}/{self.node}", {names.SEES_LABEL: "true"})
        self.bench.call("POST", DAEMONSETS, _MANIFESTS["DaemonSet", MPS_DAEMONS])

    def stop_daemon(self) -> None:
        self.bench.annotate(f"{NODES}/{self.node}", {names.SEES_LABEL: None})
        path = f"{DAEMONSETS}/{MPS_DAEMONS}"
        if self.bench.cluster.api.exists(path):
            self.bench.call("DELETE", path)

    def expect_mounted(self, key: str, text: str) -> None:
        """At once: it reads the ConfigMap itself."""

    def read_cards(self, pod: str) -> set[str]:
        got = read_record(self.bench.pod(pod))["main"]
        return set(got["env"][names.VISIBLE_DEVICES].split(","))


@dataclass
class RealStage(Stage):
    bench: NodeBench
    edits: int = field(default=0, init=False)
    refusals: int = field(default=0, init=False)
    """How often a kubelet had refused the plugin when it was restarted for that."""

    def signal_plugin(self) -> None:
        self.bench.host.kill_container(self.read_container("-ctr")["containerID"], "HUP")

    def start_daemon(self) -> None:
        folders = (f"{MPS_ROOT}/{GPU}/pipe", f"{MPS_ROOT}/shm")
        self.bench.host.namespaces.run("mkdir", "-p", *folders)

    def stop_daemon(self) -> None:
        self.bench.host.namespaces.run("rm", "-rf", f"{MPS_ROOT}/{GPU}")

    def expect_offered(self, offer: Offer) -> None:
        self.expect(f"{offer} is offered", lambda: self._is_offered(offer))

    def _is_offered(self, offer: Offer) -> bool:
        refusals = self.bench.host.log("kubelet").read_text().count(_REFUSED)
        if refusals > self.refusals:
            # Nothing else mends this: see docs/nvidia.md.
            self.bench.restart_kubelet()
            self.refusals = refusals
        return offer.items() <= self.read_offer().items()

    def read_cards(self, pod: str) -> set[str]:
        got = self.bench.environments(pod)["main"]
        return set(got[names.VISIBLE_DEVICES].split(","))

    def expect_mounted(self, key: str, text: str) -> None:
        plugin = self.plugin()["metadata"]

        def read() -> str:
            # A kubelet mounts anew what a pod needs whenever the pod changes, else once a minute;
            # it may not have seen the ConfigMap at the first change.
            self.edits += 1
            self.bench.annotate(f"{STACK_PODS}/{plugin['name']}", {"edits": str(self.edits)})
            path = _VOLUME.format(uid=plugin["uid"], key=key)
            return self.bench.host.namespaces.run("cat", path)

        self.expect("the volume has what was edited", lambda: read() == text)
