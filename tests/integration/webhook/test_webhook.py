"""Pods that ask for shared GPU are sent to a pool when they are created."""

import pytest

from devcluster.installation import OperatorProcess
from tests.kit.bench import POOL, Bench
from tests.kit.cluster.expect import (
    expect,
    expect_bound,
    expect_isolated,
    expect_pool_ready,
    expect_running,
    find_refusal,
)
from tests.kit.cluster.sharing_pools import given_sharing_pool
from tests.kit.values.manifests import Json, build_pod, build_pool


@pytest.fixture
def pools(bench: Bench, operator: OperatorProcess) -> OperatorProcess:
    """`training` shares n1, `isolated` isolates n2, and a node in no pool offers nothing better."""
    given_sharing_pool(bench, "Professional", "n1")
    bench.add_nodes("n2", node_pool="np2")
    bench.create_pool(build_pool("isolated", schedule="cgpu", node_pool="np2"))
    expect_pool_ready(bench, "isolated", nodes=1)
    return operator


def selector_of(bench: Bench, pod: Json) -> Json:
    """The node selector that the pod has once it is created."""
    selector: Json = bench.pod(bench.create_pod(pod))["spec"].get("nodeSelector", {})
    return selector


@pytest.mark.usefixtures("pools")
def test_a_pod_that_chose_no_pool_is_sent_to_one_and_scheduled_there(bench: Bench) -> None:
    assert selector_of(bench, build_pod("p")) == {POOL: "isolated"}
    assert expect_bound(bench, "p") == "n2"
    expect_isolated(expect_running(bench, "p"))


@pytest.mark.usefixtures("pools")
def test_a_pod_whose_annotations_are_full_is_sent_to_a_pool_as_any(bench: Bench) -> None:
    full = {"example.com/template": "x" * (2**18 - 100)}
    assert selector_of(bench, build_pod("p", annotations=full)) == {POOL: "isolated"}


@pytest.mark.usefixtures("pools")
def test_a_pod_that_requires_isolation_is_sent_to_it_or_refused(bench: Bench) -> None:
    pod = build_pod("p", annotations={"gpushare.io/isolation": "required"})
    assert selector_of(bench, pod)[POOL] == "isolated"
    bench.delete_pool("isolated")

    def refusal() -> str:
        # Until the webhook has heard that the pool is gone, pods are still sent there.
        bench.delete_pod("p")
        return find_refusal(lambda: bench.create_pod(pod))

    assert "IsolationUnavailable: " in expect(bench, "it is refused", refusal)
