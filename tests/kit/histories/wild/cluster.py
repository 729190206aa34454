"""Generates clusters with machines of every kind as the API server's objects, and finds the pods
that each node can take, by its machine and the free memory of its cards."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from random import Random
from typing import Any

from tests.kit.histories.field_ownership import CORDON, Field, SimulatedNode, build_manifest
from tests.kit.histories.gpu_cluster import MODE_LABELS, POOL_LABEL, Requirement
from tests.kit.histories.machine import CARD_MEMORY
from tests.kit.histories.wild.machines import generate_machine
from tests.kit.histories.wild.pods import WildPod, WildPodGenerator
from tests.kit.values.found_clusters import build_found_pool
from tests.kit.values.manifests import CARD, COUNT, MEMORY
from tests.kit.values.node_plans import applied

Json = dict[str, Any]
OPERATOR = "gpushare-operator"
PLUGIN = "gpushare-device-plugin-ds"


@dataclass(frozen=True)
class WildNode:
    node: SimulatedNode
    pool: str
    is_ours: bool
    """Whether the node is in the pool's mode; else the pool only selects it."""
    held: tuple[int, ...] = ()
    """Allocated units of each card."""

    @property
    def name(self) -> str:
        return self.node.name


@dataclass(frozen=True)
class WildPool:
    name: str
    schedule: str
    tolerations: tuple[Mapping[str, str], ...]
    """Tolerations that the pool adds to its pods."""

    @property
    def isolates(self) -> bool:
        return self.schedule == "cgpu"

    def build(self) -> Json:
        workloads = {"tolerations": [dict(each) for each in self.tolerations]}
        selector = {"matchLabels": {"group": self.name}}
        return build_found_pool(
            self.name, schedule=self.schedule, nodes={"selector": selector}, workloads=workloads
        )


@dataclass(frozen=True)
class WildCluster:
    pools: tuple[WildPool, ...]
    nodes: tuple[WildNode, ...]
    pods: tuple[Json, ...]

    def of(self, pool: WildPool) -> list[WildNode]:
        """Return the nodes in the pool's mode, without other selected ones."""
        return [node for node in self.nodes if node.pool == pool.name and node.is_ours]

    def matches(self, pod: WildPod, pool: WildPool) -> bool | None:
        """Tell whether a node of the pool has the pod's labels; None without any node."""
        nodes = self.of(pool)
        return any(may_match(pod, node) for node in nodes) if nodes else None

    def describe(self, pool: WildPool) -> str:
        """Describe the pool for a failure's message."""
        nodes = (
            f"{each.name}: {each.node.machine.kind}, {dict(each.node.machine.labels)}, "
            f"{each.node.machine.taints}, holds {each.held}, ready {each.node.ready}, "
            f"cordoned {CORDON in each.node.fields}"
            for each in self.nodes
            if each.pool == pool.name
        )
        return "\n    ".join((str(pool), *nodes))


def generate_cluster(chance: Random) -> WildCluster:
    """Generate two to four pools of the Professional edition, each with up to four nodes."""
    pods = WildPodGenerator(chance)
    pools = tuple(_generate_pools(chance))
    nodes: list[WildNode] = []
    raw: list[Json] = []
    for pool in pools:
        for number in range(chance.choice((0, 1, 2, 2, 3, 4))):
            node, holders = _generate_node(chance, pool, f"{pool.name}-n{number}", pods)
            nodes.append(node)
            raw += holders
        waiting = (pods.generate_small() for _ in range(chance.choice((0, 0, 0, 1))))
        raw += [replace(pod, selects={POOL_LABEL: pool.name}).build() for pod in waiting]
    return WildCluster(pools, tuple(nodes), tuple(raw))


def _generate_pools(chance: Random) -> Iterator[WildPool]:
    batch = {"key": "dedicated", "operator": "Exists"}
    for number in range(chance.choice((2, 3, 3, 4))):
        tolerations = (batch,) if chance.random() < 0.2 else ()
        yield WildPool(f"w{number}", chance.choice(("share", "cgpu", "cgpu")), tolerations)


def _generate_node(
    chance: Random, pool: WildPool, name: str, pods: WildPodGenerator
) -> tuple[WildNode, list[Json]]:
    machine = generate_machine(chance)
    node = SimulatedNode(name, uid=f"uid-of-{name}", machine=machine)
    labels = {**machine.labels, "group": pool.name, "kubernetes.io/hostname": name}
    fields = {key: Field(value, frozenset({"kubelet"})) for key, value in labels.items()}
    if not (machine.serves_cards and machine.shows_cards):
        return WildNode(replace(node, fields=fields), pool.name, is_ours=False), []
    mode = MODE_LABELS["Professional"][pool.schedule]
    ours = {POOL_LABEL: pool.name, **mode}
    if pool.isolates:
        ours["gpushare.io/isolation-verified"] = "true"
    records = applied(pool.schedule, pool=pool.name, plugins={f"plugin-of-{name}": 0})
    ours |= records.annotations()
    fields |= {key: Field(value, frozenset({OPERATOR})) for key, value in ours.items()}
    if chance.random() < 0.1:
        fields[CORDON] = Field("true", frozenset({"kubectl-cordon"}))
    node = replace(
        node,
        fields=fields,
        ready=chance.random() < 0.95,
        allocatable={MEMORY: CARD_MEMORY * machine.healthy},
        capacity={MEMORY: CARD_MEMORY * machine.cards, COUNT: machine.cards},
    )
    held = [0] * machine.cards
    holders = [_build_plugin(name)]
    for _ in range(chance.choice((0, 0, 1, 2, 4)) * machine.healthy):
        pod, card = pods.generate_small(), chance.randrange(machine.healthy)
        if held[card] + pod.units <= CARD_MEMORY:
            held[card] += pod.units
            holders.append(_build_holder(pod, name, card))
    return WildNode(node, pool.name, is_ours=True, held=tuple(held)), holders


def _build_holder(pod: WildPod, node: str, card: int) -> Json:
    raw = pod.build(nodeName=node)
    raw["metadata"]["annotations"] = {CARD: str(card), "ALIYUN_COM_GPU_MEM_POD": str(pod.units)}
    return raw | {"status": {"phase": "Running"}}


def _build_plugin(node: str) -> Json:
    owner = {"kind": "DaemonSet", "name": PLUGIN, "uid": PLUGIN, "controller": True}
    since = "2026-01-01T00:00:00Z"
    return {
        "metadata": {
            "namespace": "kube-system",
            "name": f"{PLUGIN}-{node}",
            "uid": f"plugin-of-{node}",
            "ownerReferences": [owner],
        },
        "spec": {"nodeName": node, "containers": [{"name": "plugin"}]},
        "status": {
            "phase": "Running",
            "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": since}],
        },
    }


def build_nodes(cluster: WildCluster) -> list[Json]:
    return [build_manifest(each.node) for each in cluster.nodes]


# What a node can take, by the Kubernetes documentation and that of the device plugin.


def may_match(pod: WildPod, each: WildNode) -> bool:
    """Tell whether the node has the labels that the pod selects ("Assigning Pods to Nodes")."""
    labels = each.node.labels
    if not pod.selects.items() <= labels.items():
        return False
    return not pod.terms or any(
        all(_holds(requirement, labels) for requirement in term) for term in pod.terms
    )


def could_take(pod: WildPod, pool: WildPool, each: WildNode) -> bool:
    """Tell whether the pod could run on the unchanged node without any other pod."""
    is_tolerated = tolerates_taints(pod, pool, each)
    return is_tolerated and may_match(pod, each) and pod.units <= CARD_MEMORY


def tolerates_taints(pod: WildPod, pool: WildPool, each: WildNode) -> bool:
    """Tell whether the pod, with the pool's tolerations, tolerates the node's taints."""
    tolerations = [*pod.tolerations, *pool.tolerations]
    return all(
        taint["effect"] == "PreferNoSchedule" or _tolerates(tolerations, taint)
        for taint in each.node.machine.taints
    )


def takes_now(pod: WildPod, pool: WildPool, each: WildNode) -> bool:
    """Tell whether a card of the node is free for the pod."""
    is_open = each.node.ready and CORDON not in each.node.fields
    free = (CARD_MEMORY - held for held in each.held[: each.node.machine.healthy])
    return is_open and could_take(pod, pool, each) and any(left >= pod.units for left in free)


def _holds(requirement: Requirement, labels: Mapping[str, str]) -> bool:
    key, operator, values = requirement
    match operator:
        case "In":
            return labels.get(key) in values
        case "NotIn":
            return labels.get(key) not in values
        case "Exists":
            return key in labels
        case _:
            return key not in labels


def _tolerates(tolerations: list[Mapping[str, str]], taint: Mapping[str, str]) -> bool:
    """ "Taints and Tolerations" in the Kubernetes documentation."""
    return any(
        each.get("key") in (None, taint["key"])
        and (each.get("operator") == "Exists" or each.get("value", "") == taint.get("value", ""))
        and each.get("effect") in (None, taint["effect"])
        for each in tolerations
    )
