"""The oracle's verdicts and the real scheduler's: hundreds of pods, in worlds side by side."""

import json
from collections import Counter
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

import pytest

from devcluster.nodes import add_nodes, build_gpu_node
from tests.kit.bench import NODES, PODS, POOLS, Bench
from tests.kit.cluster.expect import expect, find_condition, is_unschedulable
from tests.kit.cluster.operator_processes import PATIENT
from tests.kit.histories.card_oracle import End, find_nodes, judge
from tests.kit.histories.gpu_cluster import (
    NODE_POOL_LABEL,
    TAINT,
    Application,
    GpuNode,
    GpuPool,
    Holder,
)
from tests.kit.histories.gpu_cluster_generator import GpuClusterGenerator
from tests.kit.histories.gpu_cluster_manifests import (
    build_applicant,
    build_holder,
    build_shared_pool,
)

Json = dict[str, Any]

ROUNDS = 9
WORLDS = 36
"""Side by side, each with pools of its own."""
CLUSTER_LABEL = "world"
_IN_FLIGHT = 8
_MODES = ("share", "cgpu", "mps", "core_mem")
_SETTINGS = {**PATIENT, "GPUSHARE_WEBHOOK_REPLICAS": "1"}
_WITHIN_SECONDS = 90


@dataclass
class ClusterSnapshot:
    """Pools that take the pods of this world only, and what is in them."""

    name: str
    generator: GpuClusterGenerator
    pools: tuple[GpuPool, ...]

    @classmethod
    def generate(cls, name: str) -> "ClusterSnapshot":
        generator = GpuClusterGenerator(f"cluster-{name}", name=name, edition="Professional")
        pools = (pool for pool in generator.generate_pools() if pool.schedule in _MODES)
        return cls(name, generator, tuple(_settle(pool, name) for pool in pools))

    def apply(self) -> Application | None:
        """A pod that some pool takes; None where the generator has none at hand."""
        for _ in range(50):
            case = self.generator.generate_application(self.pools) if self.pools else None
            if case is None or case.pod.core or case.pod.whole_cards:
                continue
            pod = replace(case.pod, labels={**case.pod.labels, CLUSTER_LABEL: self.name})
            case = replace(case, pod=pod, namespace={}, denies=False)
            if judge(case).end is End.ROUTED:
                return case
        return None

    def add(self, pod: Json, memory: int) -> None:
        """Remember what became of a pod: where it is, or that it waits."""
        node, pool = pod["spec"].get("nodeName"), pod["spec"]["nodeSelector"]["gpushare.io/pool"]
        self.pools = tuple(
            each
            if each.name != pool
            else replace(each, nodes=tuple(_hold(pod, n) for n in each.nodes))
            if node
            else replace(each, waiting=(*each.waiting, memory))
            for each in self.pools
        )


@pytest.mark.long
def test_the_scheduler_places_a_routed_pod_exactly_where_the_oracle_says(bench: Bench) -> None:
    bench.install("Professional")
    bench.operators.start(env=_SETTINGS)
    worlds = [ClusterSnapshot.generate(f"w{index}") for index in range(WORLDS)]
    _given(bench, worlds)
    seen: Counter[str] = Counter()
    for index in range(ROUNDS):
        _expect_told(bench, [pool for snapshot in worlds for pool in snapshot.pools])
        _try_round(bench, worlds, f"r{index}", seen)
    assert seen["pods"] >= 8 * WORLDS, seen
    assert seen["placed"] >= 3 * WORLDS, seen
    assert min(seen["waiting"], seen["would have failed elsewhere"]) >= 0.8 * WORLDS, seen


def _try_round(
    bench: Bench, worlds: Iterable[ClusterSnapshot], label: str, seen: Counter[str]
) -> None:
    """One pod in each world; the scheduler's verdict must be the oracle's."""
    cases = {f"{label}-{w.name}": (w, case) for w in worlds if (case := w.apply())}
    _for_each(
        lambda name: bench.create_pod(_label(build_applicant(cases[name][1].pod, name), label)),
        cases,
    )
    pods = _expect_judged(bench, label, len(cases))
    for name, (snapshot, case) in cases.items():
        raw, verdict = pods[name], judge(case)
        selector, tolerations = raw["spec"]["nodeSelector"], raw["spec"].get("tolerations", [])
        eligible = {pool.name for pool in verdict.eligible}
        assert selector.get("gpushare.io/pool") in eligible, f"{name} went to {selector}: {case}"
        nodes = find_nodes(case.pod, snapshot.pools, selector, tolerations)
        bound = raw["spec"].get("nodeName")
        assert bound in nodes if nodes else bound is None, f"{name} on {bound}: {nodes}, {case}"
        assert bound or not verdict.nodes, f"{name} waits, {set(verdict.nodes)} have room: {case}"
        seen["pods"] += 1
        seen["placed" if bound else "waiting"] += 1
        seen["would have failed elsewhere"] += bool(
            verdict.nodes and any(not _has_one_of(pool, verdict.nodes) for pool in verdict.eligible)
        )
        snapshot.add(raw, case.pod.memory)


def _given(bench: Bench, worlds: Iterable[ClusterSnapshot]) -> None:
    """All pools Ready, then their nodes cordoned, tainted and filled as the worlds say."""
    members = [
        (pool, node) for snapshot in worlds for pool in snapshot.pools for node in pool.nodes
    ]
    add_nodes(bench.cluster, [_build_node(pool, node) for pool, node in members])
    pools = [pool for snapshot in worlds for pool in snapshot.pools]
    _for_each(lambda pool: bench.create_pool(build_shared_pool(pool)), pools)

    def are_ready() -> bool:
        found = bench.call("GET", POOLS)["items"]
        return all(find_condition(pool)["status"] == "True" for pool in found)

    expect(bench, f"{len(pools)} pools are Ready", are_ready, within_seconds=_WITHIN_SECONDS)
    for pool, node in members:
        if pool.is_tainted:
            taint = {"key": TAINT, "value": pool.name, "effect": "NoSchedule"}
            bench.call("PATCH", f"{NODES}/{node.name}", {"spec": {"taints": [taint]}})
        if node.is_cordoned:
            bench.cordon(node.name)
    holders = [(pool, node, each) for pool, node in members for each in node.holders]
    _for_each(lambda held: bench.create_pod(build_holder(*held)), holders)


def _expect_told(bench: Bench, pools: Iterable[GpuPool]) -> None:
    """Until each pool's status tells what the oracle knows of its cards and pods."""
    expected = {pool.name: _sum_up(pool) for pool in pools}

    def are_told() -> bool:
        told = {
            raw["metadata"]["name"]: _read_sums(raw) for raw in bench.call("GET", POOLS)["items"]
        }
        return told == expected

    expect(bench, "the capacity of every pool is told", are_told, within_seconds=_WITHIN_SECONDS)


def _expect_judged(bench: Bench, label: str, count: int) -> dict[str, Json]:
    """The pods of a round by name, once the scheduler has bound each or given it up."""

    def are_judged() -> dict[str, Json] | None:
        pods = bench.pods(f"{PODS}?labelSelector=round%3D{label}")
        context = [pod for pod in pods if pod["spec"].get("nodeName") or is_unschedulable(pod)]
        return {p["metadata"]["name"]: p for p in context} if len(context) == count else None

    return expect(
        bench, f"the scheduler has judged {count} pods", are_judged, within_seconds=_WITHIN_SECONDS
    )


def _settle(pool: GpuPool, snapshot: str) -> GpuPool:
    """The pool, closed to the pods of other worlds, with nodes that all work."""
    return replace(
        pool,
        nodes=tuple(replace(node, is_ready=True, has_plugin=True) for node in pool.nodes),
        reconcile="Enforce",
        is_deleting=False,
        binding="Pool",
        namespaces={},
        pods={**pool.pods, CLUSTER_LABEL: snapshot},
        waiting=(),
    )


def _build_node(pool: GpuPool, node: GpuNode) -> Json:
    """The node, as it joins in its pool's mode."""
    labels = {NODE_POOL_LABEL: pool.node_pool, **pool.mode_labels}
    return build_gpu_node(
        node.name, cards=node.cards, card_memory_gib=node.card_memory, labels=labels
    )


def _label(pod: Json, label: str) -> Json:
    pod["metadata"]["labels"] = {**pod["metadata"]["labels"], "round": label}
    return pod


def _hold(pod: Json, node: GpuNode) -> GpuNode:
    """The node with the pod on the cards that the scheduler wrote on it, if it is there."""
    if pod["spec"]["nodeName"] != node.name:
        return node
    ledger = json.loads(pod["metadata"]["annotations"]["scheduler.framework.gpushare.allocation"])
    cards: Counter[int] = Counter()
    for units in ledger.values():
        cards.update({int(card): held for card, held in units.items()})
    return replace(node, holders=(*node.holders, Holder(pod["metadata"]["name"], cards)))


def _sum_up(pool: GpuPool) -> tuple[dict[int, int], int]:
    """Cards by their free memory, and what all pods ask for."""
    free: Counter[int] = Counter()
    for node in pool.nodes:
        if not node.is_cordoned:
            held = sum((Counter(holder.cards) for holder in node.holders), Counter[int]())
            free.update(node.card_memory - held[card] for card in range(node.cards))
    holders = [holder for node in pool.nodes for holder in node.holders]
    requested = sum(sum(holder.cards.values()) for holder in holders) + sum(pool.waiting)
    return {size: cards for size, cards in free.items() if size}, requested


def _read_sums(pool: Json) -> tuple[dict[int, int], int]:
    """The same, as the pool's status has it."""
    capacity = pool.get("status", {}).get("capacity", {})
    blocks = capacity.get("freeBlocks", [])
    return {each["size"]: each["cards"] for each in blocks}, capacity.get("memoryRequested", 0)


def _has_one_of(pool: GpuPool, nodes: frozenset[str]) -> bool:
    return any(node.name in nodes for node in pool.nodes)


def _for_each(action: Callable[[Any], object], items: Iterable[Any]) -> None:
    with ThreadPoolExecutor(_IN_FLIGHT) as executor:
        list(executor.map(action, items))
