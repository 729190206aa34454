"""What the API server has of each node at one moment; and of one with a pool of its own."""

import json
import time
from collections import defaultdict
from collections.abc import Collection
from dataclasses import dataclass, field

from devcluster import names
from gpushare.api.pool import Edition, ModeName
from gpushare.core.records.applied_record import LastApplied
from gpushare.editions.edition import Mode
from gpushare.editions.registry import get_mode
from tests.chaos.isolation_judge import (
    find_daemonset,
    find_sharing,
    is_running,
    judge_node,
    read_record,
    sum_findings,
)
from tests.chaos.isolation_oracle import Span
from tests.kit.bench import NODES, POOLS, VERIFIED, Bench, Json
from tests.kit.cluster.expect import read_change

_ALL_PODS = "/api/v1/pods"


@dataclass(frozen=True, slots=True)
class NodeView:
    node: Json
    pods: tuple[Json, ...]
    is_one_moment: bool
    """The node was exactly so when the pods were read."""

    @property
    def version(self) -> tuple[str, ...]:
        """Another one as soon as anything here is another."""
        return tuple(item["metadata"]["resourceVersion"] for item in (self.node, *self.pods))


@dataclass
class Sight:
    """Looks at everything, as often as it is asked to. Pods are read between two readings of the
    nodes: a node that has the same version in both was the same all the time."""

    bench: Bench
    nodes: dict[str, NodeView] = field(default_factory=dict)
    pods: dict[str, Json] = field(default_factory=dict)
    """Those of the namespace `default`, by name."""
    pools: dict[str, Json] = field(default_factory=dict)
    _versions: dict[str, str] = field(default_factory=dict)

    span: Span = field(default_factory=lambda: Span(0.0))
    """Of the last look."""

    def look(self) -> None:
        begin = time.monotonic()
        by_node: defaultdict[str, list[Json]] = defaultdict(list)
        self.pods = {}
        for pod in self.bench.call("GET", _ALL_PODS)["items"]:
            by_node[pod["spec"].get("nodeName", "")].append(pod)
            if pod["metadata"]["namespace"] == "default":
                self.pods[pod["metadata"]["name"]] = pod
        nodes = {item["metadata"]["name"]: item for item in self.bench.call("GET", NODES)["items"]}
        versions = {name: node["metadata"]["resourceVersion"] for name, node in nodes.items()}
        self.nodes = {
            name: NodeView(node, tuple(by_node[name]), self._versions.get(name) == versions[name])
            for name, node in nodes.items()
        }
        self._versions = versions
        self.span = Span(begin, time.monotonic())
        self.pools = {
            item["metadata"]["name"]: item for item in self.bench.call("GET", POOLS)["items"]
        }


@dataclass(frozen=True)
class Member:
    """What was seen of it at the last look; its pool has its name."""

    sight: Sight
    name: str
    edition: Edition

    @property
    def view(self) -> NodeView:
        return self.sight.nodes[self.name]

    @property
    def pods(self) -> list[Json]:
        """The history's own pods, wherever they are."""
        return [
            pod
            for pod in self.sight.pods.values()
            if (pod["metadata"].get("labels") or {}).get("history") == self.name
        ]

    def forget_pod(self, name: str) -> None:
        """It was deleted after the last look."""
        self.sight.pods.pop(name, None)

    def plugins(self, mode: ModeName) -> list[Json]:
        """The Ready pods of a mode's plugin, on the node."""
        return self._find_ready(get_mode(self.edition, mode).plugin)

    def _find_ready(self, daemonset: str) -> list[Json]:
        return [pod for pod in self.find_pods({daemonset}) if _is_true(pod, "Ready")]

    def find_pods(self, daemonsets: Collection[str]) -> list[Json]:
        """Pods of DaemonSets, on the node and not leaving it."""
        return [
            pod
            for pod in self.view.pods
            if find_daemonset(pod) in daemonsets and "deletionTimestamp" not in pod["metadata"]
        ]

    # What the operator says.

    @property
    def applied(self) -> Json:
        """The record of the mode in force; empty before there is one."""
        notes = self.view.node["metadata"]["annotations"]
        applied: Json = json.loads(notes.get("gpushare.io/applied", "{}"))
        return applied

    @property
    def mode(self) -> Mode:
        """The mode in force, which may be of the edition before."""
        return LastApplied.model_validate(self.applied).mode

    @property
    def resource(self) -> str:
        """What pods ask for that share a card here."""
        return self.mode.resource if self.edition is Edition.NVIDIA else names.GPU_MEM

    @property
    def step(self) -> str:
        step: str = read_change(self.view.node).get("phase", "")
        return step

    @property
    def is_recorded(self) -> bool:
        """Whether the operator knows which plugin runs, in which boot, and what it has read."""
        applied, boot = self.applied, self.view.node["status"]["nodeInfo"]["bootID"]
        if not applied or applied.get("reverted") or applied.get("modeUnknown"):
            return False
        running = {
            pod["metadata"]["uid"]: sum(
                s["restartCount"] for s in pod["status"]["containerStatuses"]
            )
            for pod in self._find_ready(self.mode.plugin)
        }
        is_same = running == applied["plugins"] != {} and applied["bootID"] == boot
        return is_same or not self.mode.plugin

    @property
    def is_ours(self) -> bool:
        """Whether the labels of the recorded mode are the operator's, and nobody else's alone."""
        if not self.applied:
            return True
        entries = self.view.node["metadata"]["managedFields"]
        owned = {
            key
            for entry in entries
            if (entry["manager"], entry["operation"]) == ("gpushare-operator", "Apply")
            for key in entry["fieldsV1"].get("f:metadata", {}).get("f:labels", ())
        }
        return owned >= {f"f:{key}" for key in self.mode.labels}

    @property
    def reasons(self) -> set[str]:
        return {sample["reason"] for sample in self._status.get("samples", ())}

    @property
    def has_module(self) -> bool:
        """Whether the kernel module is loaded, or may be, and counts."""
        return "gpushare.io/module" in self.view.node["metadata"]["annotations"]

    @property
    def is_told(self) -> bool:
        """Whether the pool's status has the sums of what the simulator recorded."""
        findings = judge_node(self.view.node, self.view.pods)
        told = self._status.get("isolation") or {}
        return findings is not None and all(
            told.get(key, 0) == count for key, count in sum_findings(findings).items()
        )

    @property
    def _status(self) -> Json:
        status: Json = self.sight.pools.get(self.name, {}).get("status") or {}
        return status

    # What is.

    @property
    def is_ready(self) -> bool:
        return _is_true(self.view.node, "Ready")

    @property
    def is_unchanging(self) -> bool:
        """No change is under way; one that gave way to a pod is none."""
        return self.step in ("", "Deferred")

    def is_settled(self, *, waiting: bool = False) -> bool:
        """Whether each pod runs, with its record of this boot. Where the node is `waiting` for
        another mode, a pod without a node may ask for what is about to go."""
        boot = self.view.node["status"]["nodeInfo"]["bootID"]
        return all(
            _is_admitted(pod, boot) if pod["spec"].get("nodeName") else waiting for pod in self.pods
        )

    def rests_in(self, mode: ModeName) -> bool:
        """Whether it is in that mode, by its record and in truth, and everything runs. NVIDIA's
        edition records what the mode's entry says, too."""
        if not self.applied or not self.is_unchanging:
            return False
        node, has = self.view.node, self.mode
        labels = node["metadata"]["labels"]
        return (
            has.labels == get_mode(self.edition, mode).labels
            and self.is_recorded
            and not node["spec"].get("unschedulable")
            and has.labels.items() <= labels.items()
            and (labels.get(VERIFIED) == "true") is has.isolated
            and node["status"]["allocatable"].get(has.resource, "0") != "0"
            and self.is_settled()
        )


def _is_true(item: Json, condition: str) -> bool:
    conditions = item["status"].get("conditions", ())
    return any(c["type"] == condition and c["status"] == "True" for c in conditions)


def _is_admitted(pod: Json, boot: str) -> bool:
    record = read_record(pod)
    here = (record.get(name, {}).get("boot_id") == boot for name in find_sharing(pod))
    return is_running(pod) and all(here)
