"""How an isolation change goes over a pool: its budget, its canaries, and how it stops."""

import time

import pytest

from devcluster.installation import OperatorProcess
from tests.kit.bench import NODES, POOLS, Bench, Json
from tests.kit.cluster.expect import (
    expect,
    expect_condition,
    expect_pool_ready,
    expect_reason,
    find_condition,
    is_observed,
    is_out_of_service,
    read_change,
    read_events,
)
from tests.kit.cluster.operator_processes import read_metric
from tests.kit.cluster.sharing_pools import (
    expect_each_restarted_once,
    given_sharing_pool,
    plugin_names,
)

DISABLED = "cgpu.disable.isolation"
ROLLOUT = "RolloutComplete"
RETRY = "gpushare.io/retry"
HEARD = "gpushare_watch_last_event_timestamp_seconds"
FOUR = ("n1", "n2", "n3", "n4")
QUICK_TO_FAIL = 8


def resume(bench: Bench) -> None:
    bench.annotate(f"{POOLS}/training", {RETRY: f"at {time.time()}"})


def count_isolated(bench: Bench) -> int:
    """Nodes whose labels say that memory is isolated."""
    labels = [node["metadata"]["labels"] for node in bench.call("GET", NODES)["items"]]
    return sum(each.get(DISABLED) == "false" for each in labels)


def test_a_node_that_somebody_cordoned_counts_against_the_budget(
    bench: Bench, operator: OperatorProcess
) -> None:
    given_sharing_pool(bench, "Basic", *FOUR, rollout={"maxUnavailable": 2})
    since = time.time()
    bench.cordon("n4")
    # The watch of pools may tell the operator earlier of what comes next.
    expect(
        bench, "it hears of that", lambda: read_metric(operator, HEARD, resource="nodes") > since
    )
    with bench.watching() as watch:
        bench.change_pool(schedule="cgpu")
        expect_pool_ready(bench, nodes=4)

    assert len(watch.most_at_once(is_out_of_service)) == 2
    assert bench.node("n4")["spec"].get("unschedulable") is True


@pytest.mark.usefixtures("operator")
def test_a_canary_that_fails_halts_the_pool_until_somebody_resumes_it(bench: Bench) -> None:
    rollout = {"canary": 1, "maxUnavailable": 3, "readyTimeoutSeconds": QUICK_TO_FAIL}
    given_sharing_pool(bench, "Basic", *FOUR, rollout=rollout)
    bench.set_faults("n1", plugin_never_ready=True)
    before, mark = plugin_names(bench), bench.audit.mark()

    bench.change_pool(schedule="cgpu")
    assert "0 of 1 nodes" in expect_reason(bench, "n2", "WaitingForCanary")["message"]
    condition = expect_condition(bench, ROLLOUT, "False", "RolloutHalted")
    assert "n1 failed in phase Restarting" in condition["message"]
    told = expect(bench, "an Event", lambda: read_events(bench, bench.pool(), "RolloutHalted"))
    assert {event["type"] for event in told} == {"Warning"}
    assert expect_reason(bench, "n1", "DeadlineExceeded")
    assert expect_reason(bench, "n2", "RolloutHalted")
    bench.set_faults("n1")
    expect(bench, "n1 is done", lambda: read_change(bench.node("n1")) == {} or None)
    assert count_isolated(bench) == 1
    assert find_condition(bench.pool(), ROLLOUT)["reason"] == "RolloutHalted"

    resume(bench)
    expect_pool_ready(bench, nodes=4)
    expect_each_restarted_once(bench, before, mark)
    expect_condition(bench, ROLLOUT, "True", "NothingLeft")


@pytest.mark.usefixtures("operator")
def test_canaries_that_succeed_let_the_others_begin(bench: Bench) -> None:
    given_sharing_pool(bench, "Basic", *FOUR, rollout={"canary": 2, "maxUnavailable": 4})
    for node in FOUR:
        bench.set_faults(node, start_delay_seconds=1)
    with bench.watching() as watch:
        bench.change_pool(schedule="cgpu")
        expect_pool_ready(bench, nodes=4)

    history = watch.history
    others = [is_cordoned(n) and n["metadata"]["name"] in ("n3", "n4") for n in history]
    late = others.index(True)
    assert {n["metadata"]["name"] for n in history[:late] if is_done(n)} == {"n1", "n2"}


def is_cordoned(node: Json) -> bool:
    return bool(node["spec"].get("unschedulable"))


def is_done(node: Json) -> bool:
    """In the new mode, and in service."""
    return node["metadata"]["labels"].get(DISABLED) == "false" and not is_cordoned(node)


@pytest.mark.usefixtures("operator")
def test_with_manual_approval_nothing_begins_before_the_plans_hash_is_agreed_to(
    bench: Bench,
) -> None:
    given_sharing_pool(bench, "Basic", "n1", "n2", "n3")
    bench.change_pool(rollout={"approval": "Manual"})
    mark = bench.audit.mark()
    bench.change_pool(schedule="cgpu")

    expect_condition(bench, ROLLOUT, "False", "WaitingForApproval")
    plan = bench.pool()["status"]["plan"]
    assert plan["summary"] == "share -> cgpu on 3 nodes: the device plugin restarts"
    assert [step["node"] for step in plan["steps"]] == ["n1", "n2", "n3"]
    assert all(step["restartsPlugin"] and not step["reboots"] for step in plan["steps"])
    bench.change_pool(rollout={"approvedPlan": "0123456789ab"})
    expect(bench, "the pool has seen the wrong hash", lambda: is_observed(bench.pool()))
    assert [c for c in bench.audit.our_writes(mark) if c.resource == "nodes"] == []

    bench.change_pool(rollout={"approvedPlan": plan["hash"]})
    expect_pool_ready(bench, nodes=3)
    assert bench.pool()["status"]["plan"]["approved"]["hash"] == plan["hash"]

    bench.change_pool(schedule="share")
    condition = expect_condition(bench, ROLLOUT, "False", "WaitingForApproval")
    assert "cgpu -> share" in condition["message"]
    assert count_isolated(bench) == 3
