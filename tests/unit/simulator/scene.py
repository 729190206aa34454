"""A node with its pods, played without an API server: what is written is there at once."""

import json
from collections.abc import Mapping
from typing import Any

from devcluster import names
from devcluster.simulator.faults import Faults, parse_faults
from devcluster.simulator.memory import Memory, recall
from devcluster.simulator.node import play
from devcluster.simulator.objects import Node, Pod, parse_node, parse_pod

Object = dict[str, Any]

PLUGIN = "gpushare-device-plugin-ds"
MOST_TURNS = 10

ON = {"cgpu": "true", "cgpu.disable.isolation": "false"}
SHARE = {"ack.node.gpu.schedule": "share"}
CGPU = {"ack.node.gpu.schedule": "cgpu"}
MEM3 = {names.GPU_MEM: 3}


class Scene:
    """One node; time passes only where a test says so."""

    def __init__(self, labels: Mapping[str, str] | None = None, *, cards: int = 1) -> None:
        self.usual = Faults(report_period_seconds=0.05)
        self.now = 1000.0
        self.configs: dict[str, dict[str, str]] = {}
        self._due_at: float | None = None
        self._memory: Memory | None = None
        self._pods: dict[str, Object] = {}
        self._node: Object = {
            "metadata": {
                "name": "n1",
                "uid": "node-uid",
                "labels": dict(labels or {}),
                "annotations": {names.CARDS: str(cards), names.CARD_MEMORY_GIB: "15"},
            },
            "status": {
                "nodeInfo": {"bootID": "first"},
                "conditions": [{"type": "Ready", "status": "True"}],
            },
        }

    @property
    def node(self) -> Node:
        return parse_node(self._node)

    def pod(self, name: str) -> Pod:
        return parse_pod(self._pods[name])

    def status(self, name: str) -> Object:
        status: Object = self._pods[name]["status"]
        return status

    def got(self, name: str, container: str = "main") -> Object:
        record: Object = json.loads(self.pod(name).annotations[names.CONTAINERS])
        one: Object = record[container]
        return one

    def annotate_node(self, key: str, value: str) -> None:
        self._node["metadata"]["annotations"][key] = value

    def label_node(self, key: str, value: str | None) -> None:
        _merge(self._node["metadata"]["labels"], {key: value})

    def fault(self, **faults: object) -> None:
        self.annotate_node(names.FAULT, json.dumps(faults))

    def add_component(self, daemonset: str = PLUGIN) -> None:
        """Let the DaemonSet controller put a component's pod on the node."""
        owner = {"kind": "DaemonSet", "name": daemonset}
        self._add(
            daemonset,
            {names.PLAYED: "true"},
            {"containers": [{"name": "main"}]},
            namespace=names.SYSTEM_NAMESPACE,
            ownerReferences=[owner],
        )

    def add_pod_of(self, daemonset: Object) -> None:
        """The same by the DaemonSet's manifest; the pod has its name."""
        template, meta = daemonset["spec"]["template"], daemonset["metadata"]
        notes = dict(template["metadata"]["annotations"])
        self._add(meta["name"], notes, template["spec"], namespace=meta["namespace"])

    def annotate_pod(self, name: str, key: str, value: str) -> None:
        self._pods[name]["metadata"]["annotations"][key] = value

    def delete(self, name: str) -> None:
        del self._pods[name]

    def add_pod(
        self,
        name: str,
        *limits: Mapping[str, int],
        annotations: Mapping[str, str] | None = None,
        env: Mapping[str, str] | None = None,
        **spec: object,
    ) -> None:
        """Bind a pod to the node, one container for each of `limits`: main, then c1, c2 ..."""
        containers = [
            {
                "name": f"c{index}" if index else "main",
                "resources": {"limits": {key: str(value) for key, value in each.items()}},
                "env": [{"name": key, "value": value} for key, value in (env or {}).items()],
            }
            for index, each in enumerate(limits)
        ]
        self._add(name, dict(annotations or {}), {"containers": containers, **spec})

    def play(self) -> None:
        """Take turns at this instant until nothing more is written."""
        for _ in range(MOST_TURNS):
            pods = tuple(parse_pod(raw) for raw in self._pods.values())
            pods = tuple(pod for pod in pods if not pod.is_finished)
            faults = parse_faults(self.node.annotations.get(names.FAULT), self.usual)
            memory = self._memory or recall(self.node, pods, faults, self.now)
            turn = play(
                memory,
                self.node,
                pods,
                faults=faults,
                edition=None,
                now=self.now,
                configs=self.configs,
            )
            self._memory = turn.memory
            self._due_at = turn.due_at
            if not turn.node_patch and not turn.label_patch and not turn.pod_writes:
                return
            _merge(self._node, turn.node_patch or {})
            _merge(self._node, turn.label_patch or {})
            for write in turn.pod_writes:
                _merge(self._pods[write.pod.name], write.body)
        raise AssertionError("the simulator writes without end")

    def advance(self, seconds: float) -> None:
        """Play until so many seconds have passed, waking when the node asks for it."""
        end = self.now + seconds
        self.play()
        while (due_at := self._due_at) is not None and due_at <= end:
            self.now = due_at
            self.play()
        self.now = end
        self.play()

    def _add(self, name: str, annotations: Object, spec: Object, **metadata: object) -> None:
        self._pods[name] = {
            "metadata": {
                "name": name,
                "uid": f"{name}-uid",
                "creationTimestamp": f"{len(self._pods):03}",
                "annotations": annotations,
                **metadata,
            },
            "spec": {"nodeName": "n1", **spec},
            "status": {"phase": "Pending"},
        }


def serving(labels: Mapping[str, str], *, cards: int = 1, module: bool = True) -> Scene:
    """A node whose gpushare plugin serves gpu-mem, its kernel module loaded or not."""
    scene = Scene(labels, cards=cards)
    if module:
        scene.annotate_node(names.MODULE, "cgpu")
    scene.add_component()
    scene.advance(1)
    return scene


def assumed(idx: int, units: int, time: int = 1) -> dict[str, str]:
    """The older ledger's entry of a pod that waits for its Allocate call."""
    return {
        names.MEM_IDX: str(idx),
        names.MEM_POD: str(units),
        names.MEM_ASSIGNED: "false",
        names.MEM_ASSUME_TIME: str(time),
    }


def _merge(target: Object, patch: Object) -> None:
    for key, value in patch.items():
        if value is None:
            target.pop(key, None)
        elif key == "conditions":
            new = {condition["type"]: condition for condition in value}
            old = {condition["type"]: condition for condition in target.get(key, ())}
            target[key] = list({**old, **new}.values())
        elif isinstance(value, dict) and key != "state":
            _merge(target.setdefault(key, {}), value)
        else:
            target[key] = value
