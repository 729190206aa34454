"""Random pods of tenants in clusters that are not tidy: each goes only where it could run, and
what others write moves it only by what they hold or may get.

The pools are as the operator's own status shows them, made of nodes and pods as the API server
has them.
"""

import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from random import Random
from secrets import token_hex
from typing import Any

import pytest

from gpushare.api.pruned.cluster import Kind
from gpushare.cli.cluster.snapshot import observe_cluster
from gpushare.core.admission.decision import AdmissionDecision
from gpushare.core.admission.pool_view import PoolView, view_pool
from gpushare.core.planner.planner import Planner
from gpushare.core.snapshot.node import Timing
from gpushare.core.status.pool_status import build_status
from gpushare.core.status.unschedulable_pods import group_by_pool
from tests.kit.histories.gpu_cluster import POOL_LABEL
from tests.kit.histories.machine import CARD_MEMORY
from tests.kit.histories.wild.cluster import (
    WildCluster,
    WildPool,
    build_nodes,
    could_take,
    generate_cluster,
    may_match,
    takes_now,
    tolerates_taints,
)
from tests.kit.histories.wild.pods import WildPod, WildPodGenerator
from tests.kit.values.found_clusters import READ_AT, build_found_cluster
from tests.kit.values.pool_views import admit

Json = dict[str, Any]
CLUSTERS = int(os.environ.get("GPUSHARE_HISTORIES", "0"))
"""By `make fuzz`: so many new ones; else the same every time."""
SEED = token_hex(4) if CLUSTERS else "wild"
PODS_PER_CLUSTER = 10

pytestmark = pytest.mark.timeout(1200 + CLUSTERS)


@dataclass(frozen=True)
class Trial:
    seed: str
    pod: WildPod
    cluster: WildCluster
    decision: AdmissionDecision
    beside: WildPod
    """A pod of another tenant, which holds nothing and never will."""
    moved: AdmissionDecision
    """What is decided while that waits."""

    @property
    def pool(self) -> WildPool | None:
        return next((p for p in self.cluster.pools if p.name == self.decision.pool), None)

    @property
    def others(self) -> list[WildPool]:
        """Pools that were not chosen and have a node that could take the pod."""
        return [
            pool
            for pool in self.cluster.pools
            if pool != self.pool
            and any(could_take(self.pod, pool, node) for node in self.cluster.of(pool))
        ]

    @property
    def competitors(self) -> list[WildPool]:
        """Those of the chosen one's kind, isolated or not."""
        return [
            other
            for other in self.others
            if self.pool is not None and other.isolates is self.pool.isolates
        ]

    def is_barred_from(self, pool: WildPool) -> bool:
        """Whether none of its nodes has the labels that the pod wants, or none lets it in. A taint
        that several nodes have, and no other node of the pool lacks, is taken for the pool's own.
        """
        nodes = self.cluster.of(pool)
        taints = [node.node.machine.taints for node in nodes]
        has_own = len(nodes) > 1 and any(
            all(each in all_of for all_of in taints) for each in taints[0]
        )
        is_open = has_own or any(tolerates_taints(self.pod, pool, node) for node in nodes)
        is_matched = any(may_match(self.pod, node) for node in nodes)
        return not (is_open and is_matched) or self.pod.units > CARD_MEMORY

    def __str__(self) -> str:
        pools = "\n".join(self.cluster.describe(pool) for pool in self.cluster.pools)
        told = f"{self.decision.pool}: {self.decision.annotation} and {self.moved.annotation}"
        return f"{self.seed}: {self.pod}\n{told} beside {self.beside}\n{pools}"


@pytest.fixture(scope="module")
def trials() -> list[Trial]:
    return [
        trial for number in range(CLUSTERS or 100) for trial in _try_cluster(f"{SEED}-{number}")
    ]


def _try_cluster(seed: str) -> list[Trial]:
    chance = Random(seed)
    cluster = generate_cluster(chance)
    pods = WildPodGenerator(chance)
    pools = [pool.name for pool in cluster.pools]
    views, trials = view_cluster(cluster), []
    beside = [_draw_hopeless(chance, pods, pools) for _ in range(4)]
    crowded = [view_cluster(cluster, raw) for _, raw in beside]
    for number in range(PODS_PER_CLUSTER):
        pod, other = pods.generate(), chance.randrange(len(beside))
        raw = pod.build()
        decision, moved = admit(raw, *views), admit(raw, *crowded[other])
        trials.append(Trial(f"{seed}/{number}", pod, cluster, decision, beside[other][0], moved))
    return trials


def view_cluster(cluster: WildCluster, *more: Json) -> list[PoolView]:
    """The pools as admission sees them once the operator has written their statuses."""
    found = build_found_cluster(
        **{
            Kind.NODES: build_nodes(cluster),
            Kind.PODS: [*cluster.pods, *more],
            Kind.POOLS: [pool.build() for pool in cluster.pools],
            Kind.DAEMONSETS: [],
            Kind.CONFIGMAPS: [],
        }
    )
    seen, planner = observe_cluster(found), Planner(Timing())
    planner.update(seen.snapshot, None, READ_AT)
    pending, views = group_by_pool(seen.unbound), []
    for pool, raw in zip(seen.snapshot.pools, found.pools or (), strict=True):
        assert pool.name == raw["metadata"]["name"]
        state = planner.plans_by_pool[pool.name]
        status = build_status(pool, state, READ_AT, pending=pending.get(pool.name, ()))
        told = status.model_dump(mode="json", by_alias=True, exclude_none=True)
        view = view_pool({**raw, "status": told})
        assert view is not None
        views.append(view)
    return views


def _draw_hopeless(
    chance: Random, pods: WildPodGenerator, pools: Sequence[str]
) -> tuple[WildPod, Json]:
    """A pod that waits for a pool and that no card will ever be given to, or not yet."""
    pool = {POOL_LABEL: chance.choice(pools)}
    pod = replace(pods.generate_small(), quantities=("8",), selects=pool)
    match chance.choice(("too large", "too large", "gated", "elsewhere")):
        case "too large":
            pod = replace(pod, quantities=(chance.choice(("10G", "3Gi", "5k", "16", "40")),))
        case "gated":
            pod = replace(pod, is_gated=True)
        case _:
            pod = replace(pod, selects={**pool, "example.com/no-such": "label"})
            message = "0/9 nodes are available: 9 node(s) didn't match Pod's node affinity/selector"
            return pod, pod.build() | {"status": _build_unschedulable(message)}
    return pod, pod.build()


def _build_unschedulable(message: str) -> Json:
    condition = {
        "type": "PodScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "message": message,
    }
    return {"phase": "Pending", "conditions": [condition]}


def _expect_none(sentence: str, wrong: Sequence[Trial]) -> None:
    shown = "\n\n".join(str(trial) for trial in wrong[:2])
    assert not wrong, f"{sentence}: {len(wrong)} times, first\n{shown}"


def test_a_pod_goes_to_no_pool_without_nodes_that_it_selects_while_another_could_take_it(
    trials: list[Trial],
) -> None:
    """A pool without nodes may yet get some: it is a last resort, or the only isolated one."""
    wrong = [
        trial
        for trial in trials
        if (pool := trial.pool) is not None
        and (trial.pod.selects or trial.pod.terms)
        and (is_matched := trial.cluster.matches(trial.pod, pool)) is not True
        and (trial.competitors or (is_matched is False and trial.others))
    ]
    _expect_none("sent where no node has its labels", wrong)


def test_a_pod_goes_to_no_pool_whose_nodes_can_never_take_it_while_another_can_now(
    trials: list[Trial],
) -> None:
    """Labels and room are known of a pool, not of each node: that one node has the labels, and
    another one lets the pod in, is not seen."""
    wrong = [
        trial
        for trial in trials
        if (chosen := trial.pool) is not None
        and trial.is_barred_from(chosen)
        and any(
            takes_now(trial.pod, pool, node)
            for pool in trial.competitors
            for node in trial.cluster.of(pool)
        )
    ]
    _expect_none("sent where it can never run", wrong)


def test_what_holds_nothing_and_never_will_moves_nobody_elses_pods(trials: list[Trial]) -> None:
    wrong = [trial for trial in trials if trial.moved.pool != trial.decision.pool]
    _expect_none("moved by a pod without a claim", wrong)


def test_pods_of_every_kind_are_routed_often_enough_to_be_believed(trials: list[Trial]) -> None:
    routed = [trial for trial in trials if trial.decision.pool]
    assert len(routed) > len(trials) / 2, Counter(trial.decision.reason for trial in trials)
    assert sum(bool(trial.pod.selects) for trial in routed) > len(trials) / 20
