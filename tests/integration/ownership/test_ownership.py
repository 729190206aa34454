"""A label of ours that others write: put back, or left to them and said."""

import json
import time
from functools import partial
from itertools import pairwise
from typing import Any

import pytest

from devcluster.installation import OperatorProcess
from gpushare.core.snapshot.node import Timing
from tests.integration.nodechange.node_modes import our_node_writes
from tests.integration.ownership.label_conflict import LabelConflict, write_label
from tests.kit.bench import MODE, NODES, PLACEMENT, POOL, POOLS, Bench, Json
from tests.kit.cluster.audit_log import Call
from tests.kit.cluster.expect import (
    expect,
    expect_condition,
    expect_labels,
    expect_pool_ready,
    expect_quiet,
    expect_reason,
    find_condition,
    read_events,
)
from tests.kit.cluster.operator_processes import read_metric
from tests.kit.cluster.sharing_pools import given_sharing_pool, plugin_uids

ISOLATION = "cgpu.disable.isolation"
DRIFT = "gpushare.io/drift"
CONFLICTING = "Conflicting"


def is_conflicting(pool: Json) -> bool:
    return bool(find_condition(pool, CONFLICTING)["status"] == "True")


def read_drift(bench: Bench) -> Json:
    drift: Json = json.loads(bench.node("n1")["metadata"]["annotations"].get(DRIFT, "{}"))
    return drift


@pytest.mark.parametrize(
    ("edition", "changes"),
    [
        # Not cgpu: its installer may run before the label is back, and load the module.
        ("Professional", {MODE: "default", PLACEMENT: "binpack", POOL: "another"}),
        ("Basic", {"cgpu": "false", ISOLATION: "false", POOL: "another"}),
        ("OpenSource", {"gpushare": "false", POOL: "another"}),
    ],
)
def test_each_label_that_is_changed_or_removed_comes_back_and_is_counted(
    bench: Bench, operator: OperatorProcess, edition: Any, changes: dict[str, str]
) -> None:
    spec: Json = {"placement": "spread"} if edition == "Professional" else {}
    given_sharing_pool(bench, edition, "n1", **spec)
    # Nothing tells when a label was removed: a controller that has just begun takes the plugin for
    # one that may have read it, unless the plugin is gone by then.
    looks_on_at = time.monotonic() + 1.1 * Timing().reread.total_seconds()
    ours = {key: bench.node("n1")["metadata"]["labels"][key] for key in changes}
    repaired = {"pool": "training", "reason": "DriftReverted"}

    def count_repairs() -> float:
        return read_metric(operator, "gpushare_node_applies_total", **repaired)

    def expect_repairs(count: float) -> None:
        expect(bench, f"{count:g} are counted", lambda: count_repairs() >= count)

    def read_all() -> tuple[Json, ...]:
        node = bench.node("n1")
        labels, notes = node["metadata"]["labels"], node["metadata"]["annotations"]
        conditions = bench.pool()["status"]["conditions"]
        return labels, notes, node["spec"], plugin_uids(bench), conditions

    before = count_repairs()
    disturbances = [{key: value} for key, theirs in changes.items() for value in (theirs, None)]
    for number, disturbance in enumerate(disturbances, 1):
        if None in disturbance.values():
            expect(bench, "it has looked on", lambda: time.monotonic() > looks_on_at)
        bench.label("n1", disturbance)
        expect_labels(bench, "n1", ours)
        expect_repairs(before + number)
        # Else the next would be put back by the change that this one led to, and not counted.
        expect_quiet(bench, "nothing comes of it any more", read_all)
        expect_pool_ready(bench, nodes=1)

    assert not is_conflicting(bench.pool())


@pytest.mark.usefixtures("operator")
def test_a_sync_that_writes_once_is_put_back_and_makes_no_conflict(bench: Bench) -> None:
    given_sharing_pool(bench, "Professional", "n1")
    with bench.watching(POOLS) as watch:
        write_label(bench, "n1", MODE, "default", manager="ack-cluster-agent")
        expect_labels(bench, "n1", {MODE: "share"})
        expect_pool_ready(bench, nodes=1)

    (repair,) = read_drift(bench)["reverts"]
    assert (repair["key"], repair["manager"]) == (MODE, "ack-cluster-agent")
    assert not any(is_conflicting(pool) for pool in watch.history)
    told = partial(read_events, bench, bench.node("n1"), "DriftReverted")
    (event,) = expect(bench, "an Event tells of it", told)
    assert event["type"] == "Warning"
    for named in ("training", "ack-cluster-agent", MODE, "'default'", "'share'"):
        assert named in event["note"]


@pytest.mark.usefixtures("operator")
def test_the_third_write_of_a_rival_is_left_and_said_once(bench: Bench) -> None:
    given_sharing_pool(bench, "Professional", "n1", "n2")
    mark = bench.audit.mark()
    with bench.watching(POOLS) as watch, LabelConflict(bench, "n1", MODE, "cgpu") as conflict:
        message = expect_condition(bench, CONFLICTING, "True")["message"]
        expect(bench, "it is written down", lambda: read_drift(bench).get("conflicts"))
        fought = len(our_writes(bench, mark))
        written = conflict.writes
        expect(bench, "the rival goes on", lambda: conflict.writes > written + 20)
    writes = our_writes(bench, mark)

    assert "kubectl-label" in message
    assert f"writing {MODE}=cgpu, but the pool needs share" in message
    assert "Nodes in conflict: 1, such as node n1" in message
    expect_labels(bench, "n1", {MODE: "cgpu", POOL: "training"})
    expect_labels(bench, "n2", {MODE: "share"})
    assert len(writes) <= fought + 1 <= 5
    assert bench.audit.our_deletions(mark) == []
    states = [is_conflicting(pool) for pool in watch.history]
    assert sum(before != after for before, after in pairwise(states)) == 1


def our_writes(bench: Bench, mark: int) -> list[Call]:
    return [call for call in our_node_writes(bench, mark, ["n1"]) if call.succeeded]


@pytest.mark.usefixtures("operator")
def test_a_rival_that_applies_with_force_is_named(bench: Bench) -> None:
    given_sharing_pool(bench, "Professional", "n1", placement="spread")
    with LabelConflict(bench, "n1", PLACEMENT, "binpack", manager="nfd-master", applies=True):
        conflict = expect_condition(bench, CONFLICTING, "True")
    assert "nfd-master keeps writing" in conflict["message"]


@pytest.mark.usefixtures("operator")
def test_a_rival_in_an_isolation_change_keeps_the_node_out_without_a_restart_storm(
    bench: Bench,
) -> None:
    given_sharing_pool(bench, "Basic", "n1")
    mark = bench.audit.mark()
    with LabelConflict(bench, "n1", ISOLATION, "true") as conflict:
        bench.change_pool(schedule="cgpu")
        message = expect_condition(bench, CONFLICTING, "True")["message"]
        written = conflict.writes
        expect(bench, "the rival goes on", lambda: conflict.writes > written + 20)

    assert ISOLATION in message
    expect_reason(bench, "n1", "LabelConflict")
    assert bench.node("n1")["spec"]["unschedulable"]
    assert len(bench.audit.our_deletions(mark)) <= 3
    bench.annotate(f"{NODES}/n1", {"gpushare.io/retry": "1"})
    expect_pool_ready(bench, nodes=1)
    expect_labels(bench, "n1", {ISOLATION: "false"})
    assert not bench.node("n1")["spec"].get("unschedulable")
    assert len(bench.audit.our_deletions(mark)) <= 4
