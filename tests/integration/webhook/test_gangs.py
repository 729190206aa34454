"""Bursts of pods of one owner before two webhooks that do not confer."""

from collections import Counter
from collections.abc import Iterator

import pytest

from tests.integration.webhook.webhook_replicas import two_webhooks
from tests.kit.bench import POOL, Bench
from tests.kit.cluster.command_line import run_command
from tests.kit.cluster.expect import expect, expect_capacity, expect_pool_ready
from tests.kit.cluster.namespaces import Namespace, temporary_namespace
from tests.kit.cluster.operator_processes import read_metric
from tests.kit.cluster.pod_admission import decision_of
from tests.kit.values.manifests import Json, build_pod, build_pool, build_workload

PODS = 20
PER_CARD = 5
"""Pods of 3 GiB on a card of 15."""


def given_pools(bench: Bench, **cards: int) -> None:
    """Create pools that are equal but for their cards."""
    bench.install("Professional")
    bench.operators.start("controller")
    for pool, number in cards.items():
        bench.add_nodes(f"{pool}1", node_pool=pool, cards=number)
        bench.create_pool(build_pool(pool, node_pool=pool))
    for pool, number in cards.items():
        expect_pool_ready(bench, pool, nodes=1)
        expect_capacity(bench, pool, memoryTotal=15 * number)


@pytest.fixture
def space(bench: Bench) -> Iterator[Namespace]:
    with temporary_namespace(bench) as space:
        yield space


def create_burst(space: Namespace, kind: str) -> list[Json]:
    """Create a workload, and return its pods once all are there."""
    workload = build_workload(kind, "train", replicas=PODS, pod=build_pod("p", gib=3))
    if kind == "Job":
        workload["spec"] |= {"parallelism": PODS, "completions": PODS}
    group, plural = workload["apiVersion"], f"{kind.lower()}s"
    space.bench.call("POST", f"/apis/{group}/namespaces/{space.name}/{plural}", workload)

    def are_there() -> list[Json]:
        pods = space.bench.pods(f"{space.path}/pods")
        return pods if len(pods) == PODS else []

    return expect(space.bench, f"{PODS} pods of the {kind} are created", are_there)


def count_by_pool(pods: list[Json]) -> Counter[str]:
    return Counter(pod["spec"]["nodeSelector"][POOL] for pod in pods)


@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet", "Job"])
def test_a_burst_of_one_owner_goes_to_one_of_two_pools(
    bench: Bench, space: Namespace, kind: str
) -> None:
    given_pools(bench, left=8, right=8)
    with two_webhooks(bench, {}) as webhooks:
        pods = create_burst(space, kind)
        # Which of the two: the webhooks may have heard of the capacity of one before the other's.
        assert list(count_by_pool(pods).values()) == [PODS]
        sent = [read_metric(each, "gpushare_admission_requests_total") for each in webhooks]
    assert sum(sent) == PODS
    # Which of them is asked is the API server's choice: at times one connection is enough for all.
    print(f"pods by webhook: {sent}")


def test_what_one_pool_cannot_take_of_a_burst_goes_to_another_and_explain_says_why(
    bench: Bench, space: Namespace
) -> None:
    given_pools(bench, left=2, right=8)
    with two_webhooks(bench, {}):
        pods = create_burst(space, "Deployment")
    sent = count_by_pool(pods)
    assert sent.keys() == {"left", "right"}
    # Each webhook takes the other's part for as large as its own.
    assert PER_CARD <= sent["left"] <= 2 * PER_CARD + 1
    rest = [pod for pod in pods if pod["spec"]["nodeSelector"][POOL] == "right"]
    assert [decision_of(pod)["lost"] for pod in rest] == [{"GangSplit": ["left"]}] * len(rest)
    ended = run_command(
        *("explain", "pod", rest[0]["metadata"]["name"], "-n", space.name),
        kubeconfig=bench.cluster.kubeconfig,
    )
    assert "left lost by GangSplit" in ended.out
