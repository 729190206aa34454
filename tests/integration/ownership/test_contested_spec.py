"""Two writers that own one pool and keep replacing each other's mode."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

from tests.kit.bench import POOLS, Bench, Json
from tests.kit.cluster.background_thread import Background
from tests.kit.cluster.command_line import run_command
from tests.kit.cluster.expect import (
    expect,
    expect_condition,
    expect_pool_ready,
    expect_quiet,
    expect_reason,
    read_change,
    read_events,
)
from tests.kit.cluster.operator_processes import read_metric
from tests.kit.cluster.sharing_pools import given_sharing_pool
from tests.kit.values.manifests import build_pool

FIRST, SECOND = "argocd-controller", "kustomize-controller"
PERIOD_SECONDS = 2.0
"""A whole change takes less, so that each flip could begin the next one."""


def is_at_rest(bench: Bench, node: str) -> bool:
    return not read_change(bench.node(node))


def write_mode(bench: Bench, manager: str, schedule: str) -> None:
    path = f"{POOLS}/training?fieldManager={manager}"
    bench.call("PATCH", path, {"spec": {"schedule": schedule}})


class Flips(Background):
    """Within its block two managers write each its mode, one after the other."""

    def __init__(self, bench: Bench) -> None:
        super().__init__("flips")
        self._bench, self.writes = bench, 0

    def _run(self) -> None:
        while True:
            is_first = self.writes % 2 == 0
            manager, schedule = (FIRST, "cgpu") if is_first else (SECOND, "share")
            write_mode(self._bench, manager, schedule)
            self.writes += 1
            if self._leaving.wait(PERIOD_SECONDS):
                return


@contextmanager
def flipped(bench: Bench) -> Iterator[Flips]:
    with Flips(bench) as flips:
        yield flips


def test_a_flipped_pool_is_held_and_names_both_writers(bench: Bench) -> None:
    operator = bench.operators.start()
    given_sharing_pool(bench, "Basic", "n1", "n2", rollout={"maxUnavailable": 2})
    mark = bench.audit.mark()
    with flipped(bench) as flips:
        condition = expect_condition(bench, "RolloutComplete", "False", "SpecContested")
        expect(bench, "they go on", lambda: flips.writes >= 12 or None)
    for word in (FIRST, SECOND, "retry pool/training", "share", "cgpu"):
        assert word in condition["message"]
    expect_condition(bench, "Ready", "False", "SpecContested")
    # Of two nodes: the first two or three changes came before anybody could tell.
    assert len(bench.audit.our_deletions(mark)) <= 2 * 3
    assert len(bench.pool()["status"]["specChanges"]) == 5
    told = read_events(bench, bench.pool(), "SpecContested")
    assert len(told) == 1
    assert told[0]["type"] == "Warning"
    assert read_metric(operator, "gpushare_pool_contested", pool="training") == 1

    # Whatever was cordoned or begun meanwhile is over.
    for node in ("n1", "n2"):
        expect(bench, f"{node} is at rest", partial(is_at_rest, bench, node))
        assert not bench.node(node)["spec"].get("unschedulable")


def test_a_contest_outlives_the_process_and_ends_by_a_retry(bench: Bench) -> None:
    first = bench.operators.start()
    given_sharing_pool(bench, "Basic", "n1")
    with flipped(bench):
        expect_condition(bench, "RolloutComplete", "False", "SpecContested")
    expect(bench, "n1 is at rest", partial(is_at_rest, bench, "n1"))
    # Which of the flips were carried out before they counted as such depends on the machine.
    isolates = bench.node("n1")["metadata"]["labels"]["cgpu.disable.isolation"] == "false"
    write_mode(bench, FIRST, "share" if isolates else "cgpu")
    expect_reason(bench, "n1", "SpecContested")
    first.kill()
    bench.operators.start()
    mark = bench.audit.mark()
    expect_quiet(bench, "nothing begins", lambda: bench.audit.our_deletions(mark))
    expect_reason(bench, "n1", "SpecContested")

    kubeconfig = bench.cluster.kubeconfig
    explained = run_command("explain", "pool", "training", kubeconfig=kubeconfig)
    assert FIRST in explained.out
    planned = run_command("plan", "pool", "training", kubeconfig=kubeconfig)
    assert "SpecContested" in planned.out
    assert run_command("retry", "pool/training", kubeconfig=kubeconfig).code == 0
    expect_pool_ready(bench, nodes=1)
    disables = "true" if isolates else "false"
    assert bench.node("n1")["metadata"]["labels"]["cgpu.disable.isolation"] == disables


def test_a_single_revert_is_carried_out(bench: Bench) -> None:
    bench.operators.start()
    given_sharing_pool(bench, "Basic", "n1")
    for schedule in ("cgpu", "share"):
        bench.change_pool(schedule=schedule)
        expect_pool_ready(bench, nodes=1)


def find_sample(bench: Bench, pool: str) -> Json:
    """What the pool's status says of n1; empty where it is ready."""
    samples = bench.pool(pool)["status"].get("samples", [])
    return next((each for each in samples if each["node"] == "n1"), {})


def has_come(bench: Bench, pool: str) -> bool:
    """Whether n1 is the pool's and ready, or its change waits."""
    status = bench.pool(pool).get("status", {})
    if status.get("nodes", {}).get("matched") != 1:
        return False
    is_held = find_sample(bench, pool).get("reason") == "RestartLimit"
    return is_held or status["nodes"]["ready"] == 1


def labels_say(bench: Bench, schedule: str) -> bool:
    isolates = bench.node("n1")["metadata"]["labels"]["cgpu.disable.isolation"] == "false"
    return isolates is (schedule == "cgpu")


def test_a_node_that_is_moved_between_two_pools_again_and_again_keeps_its_plugin(
    bench: Bench,
) -> None:
    bench.operators.start()
    bench.install("Basic")
    bench.add_nodes("n1")
    for name, schedule in (("one", "share"), ("other", "cgpu")):
        nodes = {"selector": {"matchLabels": {"team": name}}}
        bench.create_pool(build_pool(name, edition="Basic", schedule=schedule, nodes=nodes))
    mark = bench.audit.mark()
    for pool in ["one", "other"] * 6:
        bench.label("n1", {"team": pool})
        expect(bench, f"n1 comes to {pool}", partial(has_come, bench, pool))
    # The plugin's first pod came with the first label, and was not deleted.
    assert 2 <= len(bench.audit.our_deletions(mark)) <= 5
    last = "other" if labels_say(bench, "share") else "one"
    bench.label("n1", {"team": last})
    expect(bench, "it is held", lambda: find_sample(bench, last).get("reason") == "RestartLimit")
    assert "retry node/n1" in find_sample(bench, last)["message"]
    retried = run_command("retry", "node/n1", kubeconfig=bench.cluster.kubeconfig)
    assert retried.code == 0, retried
    expect_pool_ready(bench, last, nodes=1)
