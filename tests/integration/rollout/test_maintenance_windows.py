"""Changes begin only inside the pool's windows, by the API server's own log of who wrote when."""

import json
from collections.abc import Collection
from datetime import UTC, datetime, timedelta

import pytest

from devcluster.installation import OperatorProcess
from tests.kit.bench import POOLS, Bench, Json
from tests.kit.cluster.command_line import CommandResult, run_command
from tests.kit.cluster.expect import (
    expect,
    expect_condition,
    expect_pool_ready,
    expect_reason,
    expect_running,
    expect_step,
    find_refusal,
    read_change,
    read_events,
)
from tests.kit.cluster.sharing_pools import (
    expect_each_restarted_once,
    given_sharing_pool,
    place_pod,
    plugin_names,
)

ROLLOUT = "RolloutComplete"
TWELVE = tuple(f"n{number:02}" for number in range(1, 13))
WINDOW_SECONDS = 19
"""Two changes of 7.5 s, one after the other, fit well, also on a busy machine, and three do not."""
EVERY_MINUTE = {
    "schedule": "* * * * *",
    "duration": f"{WINDOW_SECONDS}s",
    "timeZone": "Asia/Shanghai",
}
NEVER_SOON = {"schedule": "0 0 29 2 *", "duration": "1h"}
FREEZE = "/api/v1/namespaces/gpushare-system/configmaps/gpushare-freeze"


def run(bench: Bench, *arguments: str) -> CommandResult:
    return run_command(*arguments, kubeconfig=bench.cluster.kubeconfig)


def read(bench: Bench, *arguments: str) -> Json:
    ended = run(bench, *arguments, "-o", "json")
    assert (ended.code, ended.err) == (0, ""), ended
    found: Json = json.loads(ended.out)
    return found


def list_starts(bench: Bench, mark: int, nodes: Collection[str]) -> dict[str, datetime]:
    """When the operator's first write reached each node, which is its cordon."""
    starts: dict[str, datetime] = {}
    for call in bench.audit.our_writes(mark):
        if call.resource == "nodes" and call.name in nodes and call.succeeded:
            starts.setdefault(call.name, call.received_at)
    return starts


def is_inside(moment: datetime) -> bool:
    return moment.second + moment.microsecond / 1e6 <= WINDOW_SECONDS


@pytest.mark.long
@pytest.mark.timeout(600)
def test_a_rollout_over_windows_begins_nothing_outside_and_ends_no_sooner_than_foretold(
    bench: Bench,
) -> None:
    # As a command assumes it that finds no Deployment.
    bench.operators.start(env={"GPUSHARE_RECHECK_SECONDS": "2"})
    given_sharing_pool(bench, "Basic", *TWELVE, rollout={"maxUnavailable": 6})
    for node in TWELVE:
        bench.set_faults(node, start_delay_seconds=5)
    bench.change_pool(schedule="cgpu")
    expect_pool_ready(bench, nodes=12, within=180)
    before = plugin_names(bench)

    bench.change_pool(rollout={"windows": [EVERY_MINUTE], "maxUnavailable": 2})
    expect(bench, "no window is open", lambda: not is_inside(datetime.now(UTC)))
    mark = bench.audit.mark()
    bench.change_pool(schedule="share")
    condition = expect_condition(bench, ROLLOUT, "False", "WaitingForWindow")
    assert "Asia/Shanghai" in condition["message"]
    (plan,) = read(bench, "plan", "pool", "training")["pools"]
    expect_pool_ready(bench, nodes=12, within=420)
    ended_at = datetime.now(UTC)

    starts = list_starts(bench, mark, TWELVE)
    assert starts.keys() == set(TWELVE)
    outside = {node: at for node, at in starts.items() if not is_inside(at)}
    assert outside == {}
    # More than the three that it takes at least, where the machine is busy.
    assert len({at.replace(second=0, microsecond=0) for at in starts.values()}) >= 3
    expect_each_restarted_once(bench, before, mark)
    foretold = datetime.fromisoformat(plan["calendar"]["doneAt"])
    longest = timedelta(seconds=plan["expectedSeconds"] / 6 + 2)
    print(f"foretold {foretold}, done {ended_at}, a node takes {longest}")
    assert ended_at >= foretold - longest
    told = read_events(bench, bench.pool(), "WindowClosed")
    assert told
    assert "of 12 nodes are done" in told[0]["note"]


@pytest.mark.usefixtures("operator")
def test_a_node_that_waits_for_pods_is_uncordoned_when_the_window_closes(bench: Bench) -> None:
    rollout = {"windows": [EVERY_MINUTE], "workloads": "CordonAndWait", "readyTimeoutSeconds": 8}
    given_sharing_pool(bench, "Professional", "n1", rollout=rollout)
    expect_running(bench, place_pod(bench, "busy", "n1"))
    bench.change_pool(schedule="cgpu")
    expect_step(bench, "n1", "Cordoned")
    expect(bench, "it is let go", lambda: not read_change(bench.node("n1")) or None)
    assert not bench.node("n1")["spec"].get("unschedulable")
    expect_reason(bench, "n1", "WaitingForWindow")
    bench.delete_pod("busy")
    expect_pool_ready(bench, nodes=1, within=90)


@pytest.mark.usefixtures("operator")
def test_a_plan_that_is_started_now_waits_for_no_window_and_the_next_one_does(
    bench: Bench,
) -> None:
    given_sharing_pool(bench, "Basic", "n1", "n2", rollout={"windows": [NEVER_SOON]})
    mark = bench.audit.mark()
    bench.change_pool(schedule="cgpu")
    expect_condition(bench, ROLLOUT, "False", "WaitingForWindow")
    plan = bench.pool()["status"]["plan"]["hash"]
    outdated = run(bench, "start-now", "training", "--plan", "0123456789ab")
    assert (outdated.code, outdated.out) == (12, "")
    assert list_starts(bench, mark, ("n1", "n2")) == {}

    started = run(bench, "start-now", "training", "--plan", plan)
    assert started.code == 0, started
    expect_pool_ready(bench, nodes=2)
    told = expect(bench, "an Event", lambda: read_events(bench, bench.pool(), "StartedNow"))
    assert "gpushare-cli" in told[0]["note"]
    expect(bench, "it is over", lambda: not bench.pool()["status"]["startedNow"].get("kinds"))

    # The same kind of change, and so the same hash, is another plan.
    bench.change_pool(schedule="share")
    expect_condition(bench, ROLLOUT, "False", "WaitingForWindow")
    bench.change_again(schedule="cgpu")
    expect_pool_ready(bench, nodes=2)
    mark = bench.audit.mark()
    bench.change_again(schedule="share")
    expect_condition(bench, ROLLOUT, "False", "WaitingForWindow")
    assert list_starts(bench, mark, ("n1", "n2")) == {}


@pytest.mark.usefixtures("operator")
def test_a_freeze_of_all_pools_lets_nothing_begin_until_it_is_lifted(bench: Bench) -> None:
    given_sharing_pool(bench, "Basic", "n1", "n2")
    frozen = run(bench, "freeze", "--all", "--reason", "incident 4711", "-n", "gpushare-system")
    assert frozen.code == 0, frozen
    expect(bench, "it is seen", lambda: bench.pool()["status"].get("window") or None)
    mark = bench.audit.mark()
    bench.change_pool(schedule="cgpu")
    condition = expect_condition(bench, ROLLOUT, "False", "RolloutFrozen")
    assert "incident 4711" in condition["message"]
    bench.add_nodes("n3")
    expect_reason(bench, "n3", "RolloutFrozen")
    assert list_starts(bench, mark, ("n1", "n2")) == {}

    lifted = run(bench, "unfreeze", "--all", "-n", "gpushare-system")
    assert lifted.code == 0, lifted
    expect_pool_ready(bench, nodes=3)
    assert not bench.cluster.api.exists(FREEZE)


def test_windows_that_can_not_be_read_let_nothing_begin(
    bench: Bench, operator: OperatorProcess
) -> None:
    given_sharing_pool(bench, "Basic", "n1")
    wrong = {**NEVER_SOON, "duration": "1d"}
    send = {"spec": {"rollout": {"windows": [wrong]}}}
    refusal = find_refusal(lambda: bench.call("PATCH", f"{POOLS}/training", send))
    assert "duration" in refusal
    mark = bench.audit.mark()
    impossible = {**NEVER_SOON, "schedule": "0 0 30 2 *"}
    bench.change_pool(schedule="cgpu", rollout={"windows": [impossible]})
    condition = expect_condition(bench, "Ready", "False", "SpecInvalid")
    assert "0 0 30 2 *" in condition["message"]
    assert list_starts(bench, mark, ("n1",)) == {}
