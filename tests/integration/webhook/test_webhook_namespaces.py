"""What a namespace's labels, and the installation, say about the pods of a namespace."""

import pytest

from tests.kit.bench import Bench
from tests.kit.cluster.expect import expect, find_refusal
from tests.kit.cluster.namespaces import default_namespace, temporary_namespace
from tests.kit.cluster.pod_admission import (
    decision_of,
    expect_sent,
    given_pools,
    kubectl_create,
    pool_of,
)
from tests.kit.values.manifests import build_pod, build_workload

DEFAULT_POOL = "gpushare.io/default-pool"
ON_NO_POOL = "gpushare.io/on-no-pool"
NOBODYS = build_pod("p", core=30)
"""A pod that only core_mem takes."""


@pytest.fixture
def pools(bench: Bench) -> Bench:
    bench.operators.standard()
    given_pools(bench, training={"schedule": "share"}, isolated={"schedule": "cgpu"})
    return bench


def test_pods_go_to_the_pool_of_their_namespaces_label(pools: Bench) -> None:
    with temporary_namespace(pools, {DEFAULT_POOL: "training"}) as space:
        expect_sent(space, build_pod("p"), "training")
        assert decision_of(space.send(build_pod("p")))["reason"] == "RoutedByNamespace"
        space.label({DEFAULT_POOL: "isolated"})
        expect_sent(space, build_pod("p"), "isolated")


def test_a_pod_that_no_pool_takes_is_created_with_a_warning(pools: Bench) -> None:
    (warning,) = kubectl_create(pools, NOBODYS).warnings
    assert warning.startswith("No pool accepts this pod")
    assert decision_of(default_namespace(pools).send(NOBODYS))["reason"] == "NoEligiblePool"


def test_who_applies_a_workload_reads_what_becomes_of_its_pods(pools: Bench) -> None:
    workload = build_workload("Deployment", "work", pod=build_pod("p"))
    first, *_ = kubectl_create(pools, workload).warnings
    assert first == "Pods of this workload will be assigned to pool isolated (cgpu)"


def test_an_installation_that_denies_leaves_the_choice_to_its_namespaces(bench: Bench) -> None:
    bench.operators.start(env={"GPUSHARE_ON_NO_POOL": "deny"})
    given_pools(bench, training={"schedule": "share"})

    default = default_namespace(bench)
    assert "NoEligiblePool" in find_refusal(lambda: default.send(NOBODYS))
    with temporary_namespace(bench, {ON_NO_POOL: "allow"}) as space:
        expect(bench, "it is created", lambda: not find_refusal(lambda: space.send(NOBODYS)))


def test_the_webhook_learns_of_a_namespace_that_is_as_new_as_its_first_pod(pools: Bench) -> None:
    for _ in range(5):
        with temporary_namespace(pools, {DEFAULT_POOL: "training"}) as space:
            assert pool_of(space.send(build_pod("p"))) == "training"
