"""Containers keep what they were admitted with; the pool says which, until they are gone."""

import pytest

from devcluster import names
from devcluster.installation import OperatorProcess
from devcluster.nodes import reboot_node
from tests.kit.bench import PODS, Bench
from tests.kit.cluster.expect import (
    expect,
    expect_condition,
    expect_isolation,
    expect_pool_ready,
    expect_running,
    is_isolated,
    read_events,
)
from tests.kit.cluster.operator_processes import read_metric
from tests.kit.cluster.sharing_pools import given_sharing_pool, place_pod
from tests.kit.values.manifests import build_pod, build_pool


def expect_consistency(bench: Bench, status: str, **counts: int) -> str:
    """The message of IsolationConsistent, once it has this status and the pool these counts."""
    expect_isolation(bench, **counts)
    return str(expect_condition(bench, "IsolationConsistent", status)["message"])


def test_a_pod_that_outlives_a_flip_is_stale_over_all_restarts_until_the_node_boots_anew(
    bench: Bench, operator: OperatorProcess
) -> None:
    given_sharing_pool(bench, "Basic", "n1")
    expect_running(bench, place_pod(bench, "old", "n1"))
    opting_out = {"CGPU_DISABLE": "true"}
    expect_running(bench, place_pod(bench, "careless", "n1", env=opting_out))
    expect_consistency(bench, "True", containers=2, isolated=0, stale=0, optedOut=0)

    bench.change_pool(schedule="cgpu")
    expect_pool_ready(bench, nodes=1)
    message = expect_consistency(bench, "False", containers=2, stale=1, optedOut=1, unknown=0)

    assert "main of Pod default/old is not isolated" in message
    assert "admitted under share, and node n1 is cgpu" in message
    assert not is_isolated(bench.pod("old"))
    told = expect(bench, "it is told", lambda: read_events(bench, bench.pool(), "StaleIsolation"))
    assert told[0]["type"] == "Warning"
    assert read_metric(operator, "gpushare_pool_stale_containers", pool="training") == 1

    bench.annotate(f"{PODS}/old", {names.RESTART_CONTAINER: "1"})
    operator.kill()
    again = bench.operators.restart(operator)
    expect_running(bench, place_pod(bench, "new", "n1"))
    expect_consistency(bench, "False", containers=3, isolated=1, stale=1)
    assert is_isolated(bench.pod("new"))
    expect(
        bench,
        "the new process counts it too",
        lambda: read_metric(again, "gpushare_pool_stale_containers", pool="training") == 1,
    )

    reboot_node(bench.cluster, "n1")
    expect_consistency(bench, "True", containers=0, isolated=0, stale=0, optedOut=0)
    assert bench.pod("old")["status"]["reason"] == "UnexpectedAdmissionError"
    assert is_isolated(expect_running(bench, place_pod(bench, "next", "n1")))
    expect_consistency(bench, "True", containers=1, isolated=1)


@pytest.mark.usefixtures("operator")
def test_of_pods_that_were_there_first_nothing_is_claimed(bench: Bench) -> None:
    bench.install("Basic")
    bench.add_nodes("n1")
    shared = {names.CGPU: "true", names.DISABLE_ISOLATION: "true"}
    bench.label("n1", shared)
    selects = {"kubernetes.io/hostname": "n1"}
    bench.create_pod(build_pod("early", selects=selects))
    expect_running(bench, "early")

    bench.create_pool(build_pool(edition="Basic"))
    expect_pool_ready(bench, nodes=1)
    message = expect_consistency(bench, "Unknown", containers=1, unknown=1, stale=0)
    assert "node n1" in message
    expect_running(bench, place_pod(bench, "later", "n1"))
    expect_consistency(bench, "Unknown", containers=2, unknown=1)
    bench.delete_pod("early")
    expect_consistency(bench, "True", containers=1, unknown=0)
