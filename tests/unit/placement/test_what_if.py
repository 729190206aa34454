"""The queue of a cluster, on its pools and on others."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

from gpushare import names
from gpushare.analysis.placement.place import PodOrigin
from gpushare.analysis.placement.what_if import Observed, WhatIf, ask_what_if, read_shapes
from gpushare.api.k8s.pod import Pod, parse_pod
from gpushare.api.pool import Pool
from gpushare.core.snapshot.cluster import ClusterSnapshot
from gpushare.settings import Settings
from tests.kit.values.manifests import Json, build_pod
from tests.kit.values.objects import NOW, a_plugin_pod, a_pool, a_snapshot
from tests.kit.values.placements import HERE, a_member, a_queue

ELSEWHERE = {"selector": {"match_labels": {"group": "other"}}}


def _build_waiting(name: str, *, age: int = 0, node: str = "", **pod: Any) -> Json:
    raw = build_pod(name, selects={names.LABEL_POOL: "training"}, **pod)
    created = (NOW - timedelta(minutes=age)).isoformat()
    raw["metadata"] |= {"namespace": "default", "uid": name, "creationTimestamp": created}
    if node:
        raw["spec"]["nodeName"] = node
        raw["status"] = {"phase": "Running"}
        raw["metadata"]["annotations"]["scheduler.framework.gpushare.allocation"] = (
            '{"main": {"0": 3}}'
        )
    return raw


def _observe(pool: Pool, *pods: Json, nodes: int = 1) -> Observed:
    parsed = [pod for raw in pods if (pod := parse_pod(raw, plugin_namespaces=()))]
    members = tuple(a_member(f"n{number}", pool) for number in range(nodes))
    plugins = tuple(a_plugin_pod(f"plugin-{node.name}", node=node.name) for node in members)
    bound = tuple(pod for pod in parsed if pod.node)
    snapshot = a_snapshot(pools=(pool,), nodes=members, pods=(*plugins, *bound))
    unbound: tuple[Pod, ...] = tuple(pod for pod in parsed if not pod.node)
    return Observed(snapshot, read_shapes(pods), unbound, (HERE,), Settings(), NOW)


def _with(snapshot: ClusterSnapshot, *pools: Pool) -> ClusterSnapshot:
    return replace(snapshot, pools=pools)


def _ask(seen: Observed, *pools: Pool) -> WhatIf:
    asked = {pool.name for pool in pools}
    return ask_what_if(seen, [], _with(seen.snapshot, *pools) if pools else None, asked)


def test_the_oldest_pod_that_waits_comes_first_and_new_ones_last() -> None:
    seen = _observe(a_pool(), _build_waiting("young"), _build_waiting("old", age=5))
    answer = ask_what_if(seen, a_queue(3), None, ())
    assert [each.pod.name for each in answer.today.pods] == ["old", "young", "p0"]


def test_pods_that_no_scheduler_looks_at_are_counted_by_the_reason() -> None:
    gated = _build_waiting("gated", schedulingGates=[{"name": "quota"}])
    other = _build_waiting("other", schedulerName="volcano")
    answer = _ask(_observe(a_pool(), gated, other))
    assert answer.today.pods == ()
    assert answer.left_out == {
        "scheduling gates hold them back": 1,
        "scheduler volcano chooses their nodes": 1,
    }


def test_the_pools_of_today_are_shown_without_and_with_the_queue() -> None:
    answer = _ask(_observe(a_pool(), _build_waiting("p", gib=4)))
    allocated = [each.pools[0].capacity.memory_allocated for each in (answer.before, answer.today)]
    assert allocated == [0, 4]
    assert answer.split is None


def test_a_node_that_a_pool_gains_takes_its_pods() -> None:
    pool = a_pool(nodes=ELSEWHERE)
    seen = _observe(pool, _build_waiting("p", gib=4))
    plain = replace(seen.snapshot.nodes["n0"], labels={"group": "gpu"}, owned=frozenset())
    seen = replace(seen, snapshot=replace(seen.snapshot, nodes={"n0": plain}))
    answer = _ask(seen, a_pool())
    assert answer.split is not None
    assert (answer.today.placed, answer.split.placed) == (0, 1)


def test_a_pod_on_a_node_that_changes_must_be_placed_again_and_goes_first() -> None:
    running = _build_waiting("running", node="n0", gib=3)
    seen = _observe(a_pool(schedule="share"), running, _build_waiting("waits", gib=15))
    answer = _ask(seen, a_pool())
    assert answer.split is not None
    first, second = answer.split.pods
    assert (first.pod.name, first.pod.origin) == ("running", PodOrigin.DISPLACED)
    assert (first.node, second.node) == ("n0", "")
    assert not first.pod.has_controller


def test_nothing_is_displaced_where_no_node_changes() -> None:
    running = _build_waiting("running", node="n0", gib=3)
    answer = _ask(_observe(a_pool(), running), a_pool(priority=7))
    assert answer.split is not None
    assert answer.split.pods == ()
    assert answer.split.pools[0].capacity.memory_allocated == 3
