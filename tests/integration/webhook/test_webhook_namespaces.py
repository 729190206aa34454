"""What a namespace's labels, and the installation, say about the pods of a namespace."""

from functools import partial

import pytest

from devcluster.apiserver import ApiError
from tests.kit.bench import Bench
from tests.kit.cluster.expect import expect
from tests.kit.cluster.namespaces import Namespace, default_namespace, temporary_namespace
from tests.kit.cluster.pod_admission import (
    ISOLATION,
    POOL,
    decision_of,
    expect_sent,
    given_pools,
    kubectl_create,
    pool_of,
)
from tests.kit.values.manifests import build_pod

DEFAULT_POOL = "gpushare.io/default-pool"
ON_NO_POOL = "gpushare.io/on-no-pool"
NOBODYS = build_pod("p", core=30)
"""A pod that only core_mem takes."""


@pytest.fixture
def pools(bench: Bench) -> Bench:
    bench.operators.standard()
    given_pools(bench, training={"schedule": "share"}, isolated={"schedule": "cgpu"})
    return bench


def test_pods_go_to_their_namespaces_pool(pools: Bench) -> None:
    with temporary_namespace(pools, {DEFAULT_POOL: "training"}) as space:
        expect_sent(space, build_pod("p"), "training")
        assert decision_of(space.send(build_pod("p")))["reason"] == "RoutedByNamespace"


def test_a_namespace_gets_another_pool_by_its_label(pools: Bench) -> None:
    with temporary_namespace(pools, {DEFAULT_POOL: "training"}) as space:
        expect_sent(space, build_pod("p"), "training")
        space.label({DEFAULT_POOL: "isolated"})
        expect_sent(space, build_pod("p"), "isolated")


def test_a_namespace_that_is_made_anew_is_known_by_its_new_labels(pools: Bench) -> None:
    for pool in ("training", "isolated"):
        with temporary_namespace(pools, {DEFAULT_POOL: pool}, name="made-anew") as space:
            expect_sent(space, build_pod("p"), pool)
        expect(pools, "it is gone", partial(is_gone, space))


def is_gone(space: Namespace) -> bool:
    return not space.bench.cluster.api.exists(space.path)


def test_a_pods_own_word_goes_before_its_namespaces(pools: Bench) -> None:
    with temporary_namespace(pools, {DEFAULT_POOL: "training"}) as space:
        expect_sent(space, build_pod("p"), "training")
        asking = build_pod("p", annotations={POOL: "isolated"})
        assert pool_of(space.send(asking)) == "isolated"


@pytest.mark.parametrize(
    ("pool", "cause"),
    [
        ("missing", "there is no such pool"),
        ("training", "its mode share is not isolated by the kernel"),
    ],
)
def test_a_namespaces_pool_that_cannot_take_a_pod_is_said_and_another_does(
    pools: Bench, pool: str, cause: str
) -> None:
    strict = build_pod("p", annotations={ISOLATION: "required"})
    with temporary_namespace(pools, {DEFAULT_POOL: pool}) as space:

        def said() -> list[str]:
            answer = kubectl_create(pools, strict, f"--namespace={space.name}")
            return [each for each in answer.warnings if f"its namespace's pool {pool}" in each]

        (warning,) = expect(pools, "a warning about its namespace's pool", said)
        assert cause in warning
        assert pool_of(space.send(strict)) == "isolated"


def is_refused(space: Namespace) -> str:
    """What the refusal of a pod that no pool takes says; empty where it is created."""
    try:
        space.send(NOBODYS)
    except ApiError as error:
        return str(error)
    return ""


def test_a_pod_that_no_pool_takes_is_created_with_a_warning(pools: Bench) -> None:
    (warning,) = kubectl_create(pools, NOBODYS).warnings
    assert warning.startswith("not sent to a pool")
    assert decision_of(default_namespace(pools).send(NOBODYS))["reason"] == "NoEligiblePool"


def test_it_is_refused_where_its_namespace_denies_it(pools: Bench) -> None:
    with temporary_namespace(pools, {ON_NO_POOL: "deny"}) as space:
        refusal = expect(pools, "it is refused", lambda: is_refused(space))
        assert "NoEligiblePool" in refusal
        assert "training: its mode share does not serve" in refusal
        assert "isolated: its mode cgpu does not serve" in refusal
        assert "Create a pool with schedule core_mem" in refusal


def test_an_installation_that_denies_leaves_the_choice_to_its_namespaces(bench: Bench) -> None:
    bench.operators.start(env={"GPUSHARE_ON_NO_POOL": "deny"})
    given_pools(bench, training={"schedule": "share"})

    assert "NoEligiblePool" in is_refused(default_namespace(bench))
    with temporary_namespace(bench, {ON_NO_POOL: "allow"}) as space:
        expect(bench, "it is created", lambda: not is_refused(space))


def test_pods_of_a_namespace_that_opts_out_are_left_as_they_are(pools: Bench) -> None:
    with temporary_namespace(pools, {"gpushare.io/inject": "disabled"}) as space:
        created = space.create(build_pod("p"))
        assert "nodeSelector" not in created["spec"]
        assert decision_of(created) == {}


def test_the_webhook_learns_of_a_namespace_that_is_as_new_as_its_first_pod(pools: Bench) -> None:
    for _ in range(5):
        with temporary_namespace(pools, {DEFAULT_POOL: "training"}) as space:
            assert pool_of(space.send(build_pod("p"))) == "training"
