"""People change what the rollout is about, or what it works on, in the middle of it."""

import pytest

from tests.chaos.rollout import BUDGET, Rollout, standing_rollout
from tests.kit.bench import NODES, POOLS, Bench
from tests.kit.cluster.expect import expect_gone
from tests.kit.values.manifests import build_pool

POOL_PATH = f"{POOLS}/training"


def change_mind(rollout: Rollout) -> None:
    """There and back again, faster than a node can follow."""
    rollout.begin()
    rollout.let_pass(1.0)
    rollout.begin()


def narrow_budget(rollout: Rollout) -> None:
    rollout.bench.change_pool(rollout={"maxUnavailable": 1})
    rollout.let_pass(1.0)
    rollout.bench.change_pool(rollout={"maxUnavailable": "50%"})


def label_pool(rollout: Rollout) -> None:
    labels = {"edited": str(rollout.chance.random())}
    rollout.bench.call("PATCH", POOL_PATH, {"metadata": {"labels": labels}})


@pytest.mark.chaos
def test_a_pool_may_be_edited_in_mid_rollout(bench: Bench) -> None:
    bench.operators.start("controller")
    with standing_rollout(bench, seed=10) as rollout:
        for _ in range(10):
            rollout.begin_and_wait()
            for edit in (change_mind, narrow_budget, label_pool):
                rollout.let_pass(0.5)
                edit(rollout)
            rollout.expect_over(within=60)


@pytest.mark.chaos
@pytest.mark.parametrize("seed", range(5))
def test_a_pool_that_is_deleted_in_mid_rollout_leaves_no_node_half_way(
    bench: Bench, seed: int
) -> None:
    bench.operators.start("controller")
    with standing_rollout(bench, seed=seed) as rollout:
        rollout.begin_and_wait()
        rollout.let_pass(2.0)
        bench.delete_pool()
        expect_gone(bench, POOL_PATH)
        for name in rollout.members:
            node = bench.node(name)
            assert not node["spec"].get("unschedulable"), name
            left = [k for k in node["metadata"]["annotations"] if k.startswith("gpushare.io/")]
            assert not left, (name, left)

        bench.create_pool(
            build_pool(edition="Basic", schedule="cgpu", rollout={"maxUnavailable": BUDGET})
        )
        rollout.expect_over(within=60)


@pytest.mark.chaos
@pytest.mark.parametrize("rounds", [1, 8])
def test_nodes_may_come_and_go_and_fail_in_mid_rollout(bench: Bench, rounds: int) -> None:
    bench.operators.start("controller")
    with standing_rollout(bench, seed=rounds) as rollout:
        for number in range(rounds):
            rollout.begin_and_wait()
            failing, leaving = rollout.chance.sample(sorted(rollout.members), 2)
            bench.set_faults(failing, not_ready=True)
            rollout.let_pass(1.0)
            bench.call("DELETE", f"{NODES}/{leaving}")
            rollout.members.remove(leaving)
            rollout.let_pass(1.0)
            bench.add_nodes(f"late-{number}")
            rollout.members.add(f"late-{number}")
            rollout.let_pass(2.0)
            bench.set_faults(failing)
            rollout.expect_over()
