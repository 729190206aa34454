"""`gpushare adopt` and `migrate pools` against a real API server: what they say is what happens."""

import json

import pytest

from devcluster.editions import EDITIONS, Edition
from gpushare.cli.exit_codes import Exit
from tests.integration.nodechange.node_modes import EXPECTED_MODES, expect_offer
from tests.kit.bench import POOL, POOLS, SYSTEM_PODS, VERIFIED, Bench
from tests.kit.cluster.command_line import CommandResult, run_command
from tests.kit.cluster.expect import expect_pool_ready


def run(bench: Bench, *arguments: str) -> CommandResult:
    return run_command(*arguments, kubeconfig=bench.cluster.kubeconfig)


def add_nodes(bench: Bench, edition: Edition, mode: str, *nodes: str, node_pool: str) -> None:
    """Nodes that somebody put into `mode`, and that work."""
    look = EXPECTED_MODES[edition][mode]
    bench.add_nodes(*nodes, labels=look.labels, node_pool=node_pool)
    for node in nodes:
        expect_offer(bench, node, look)


def apply(bench: Bench, manifests: str) -> list[str]:
    """Create the pools, and start the operator; their names."""
    bench.cluster.kubectl("apply", "-f", "-", stdin=manifests)
    bench.operators.standard()
    return [pool["metadata"]["name"] for pool in bench.call("GET", POOLS)["items"]]


def read_system_pods(bench: Bench) -> set[str]:
    return {pod["metadata"]["uid"] for pod in bench.pods(SYSTEM_PODS)}


@pytest.mark.parametrize("edition", EDITIONS)
def test_adopted_pools_change_no_label_and_restart_nothing(bench: Bench, edition: Edition) -> None:
    bench.install(edition)
    for mode in EXPECTED_MODES[edition]:
        node = f"n-{mode.replace('_', '-')}"
        add_nodes(bench, edition, mode, node, node_pool=f"np-{node}")
    labels, plugins, mark = bench.labels(), read_system_pods(bench), bench.audit.mark()

    adopted = run(bench, "adopt", "-o", "yaml")
    assert (adopted.code, adopted.err) == (Exit.OK, "")
    with bench.watching() as recording:
        pools = apply(bench, adopted.out)
        for pool in pools:
            expect_pool_ready(bench, pool, nodes=1)

    assert len(pools) == len(labels)
    after = bench.labels()
    assert {after[node].pop(POOL) for node in after} == set(pools)
    verified = {node: after[node].pop(VERIFIED, None) for node in after}
    assert {node for node, value in verified.items() if value == "true"} == verified.keys() & {
        "n-cgpu", "n-core-mem"
    }  # fmt: skip
    assert after == labels
    # Others of their DaemonSets may have been on their way.
    assert plugins <= read_system_pods(bench)
    written = {call.resource for call in bench.audit.our_writes(mark)}
    assert written.isdisjoint({"pods", "pods/eviction", "daemonsets", "jobs"})
    assert not [node for node in recording.history if node["spec"].get("unschedulable")]
    again = run(bench, "adopt", "-o", "json")
    assert (again.code, json.loads(again.out)["pools"]["items"]) == (Exit.OK, [])


def test_pools_of_a_migration_are_taken_by_the_api_server(bench: Bench) -> None:
    bench.install("Basic")
    add_nodes(bench, "Basic", "cgpu", "n1", node_pool="np1")
    add_nodes(bench, "Basic", "share", "n2", node_pool="np2")
    pools = run(bench, "migrate", "pools", "-o", "yaml").out
    told = bench.cluster.kubectl("apply", "--dry-run=server", "-f", "-", stdin=pools)
    assert len(told.splitlines()) == 2
