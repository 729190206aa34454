"""Which pods hold cards, and what each asked for."""

from typing import Any

import pytest

from gpushare.analysis.usage.card_pods import CardPod, list_card_pods
from gpushare.api.k8s.pod_owner import Workload
from gpushare.cli.cluster.snapshot import observe_cluster
from tests.kit.values.card_pods import GIB
from tests.kit.values.found_clusters import build_found_cluster
from tests.kit.values.manifests import Json, build_bound_pod, build_node

STARTED = "2026-01-01T00:00:00Z"
WHOLE = {"nvidia.com/gpu": "1"}


def build_running(*limits: int, card: Json | None = None, **status: Any) -> Json:
    """A pod of a Deployment on n1; `card` are the limits of its only container instead."""
    pod = build_bound_pod("web-7c9d5b8f6d-x2k4z", "n1", *(limits or (4,)))
    if card is not None:
        pod["spec"]["containers"][0]["resources"] = {"limits": card}
    own = {"kind": "ReplicaSet", "name": "web-7c9d5b8f6d", "uid": "rs", "controller": True}
    pod["metadata"] |= {"ownerReferences": [own], "labels": {"pod-template-hash": "7c9d5b8f6d"}}
    pod["status"] |= {"startTime": STARTED, **status}
    return pod


def list_on(pod: Json, **node: Any) -> list[CardPod]:
    given = {"gpus": 1, "total": 15} | node
    cluster = build_found_cluster(nodes=[build_node("n1", **given)], pods=[pod])
    return list(list_card_pods(observe_cluster(cluster), cluster.pods, {"n1": "train"}, None))


def test_a_pod_that_shares_a_card_asked_for_units_of_its_nodes_plugin() -> None:
    [found] = list_on(build_running(4))

    assert (found.asked_bytes, found.card_units, found.is_whole) == (4 * GIB, 15, False)
    assert (found.workload, found.pool) == (Workload("Deployment", "web"), "train")
    assert found.since is not None


def test_a_plugin_that_counts_mib_is_known_by_its_node() -> None:
    [found] = list_on(build_running(2048), total=15360)

    assert found.asked_bytes == 2 * GIB


def build_offering(cards: int, **labels: str) -> Json:
    offers = {"nvidia.com/gpu": str(cards)}
    memory = {"aliyun.accelerator/nvidia_mem": "16130MiB"}
    return {"gpus": None, "total": None, "offers": offers, "labels": memory | labels}


def test_a_whole_card_is_as_large_as_the_label_of_its_node_tells() -> None:
    [found] = list_on(build_running(card=WHOLE), **build_offering(1))

    assert (found.units, found.is_whole) == (15, True)


@pytest.mark.parametrize(
    ("card", "cards", "labels"),
    [
        (WHOLE, 4, {"nvidia.com/gpu.replicas": "4"}),
        (WHOLE, 4, {"nvidia.com/gpu.count": "1"}),
        (WHOLE | {"nvidia.com/gpumem": "3000"}, 1, {}),
    ],
)
def test_a_part_of_a_card_is_no_whole_card(card: Json, cards: int, labels: dict[str, str]) -> None:
    [found] = list_on(build_running(card=card), **build_offering(cards, **labels))

    assert (found.units, found.is_whole) == (0, False)


def test_two_containers_that_ask_are_several() -> None:
    assert [each.is_single for each in list_on(build_running(2, 2))] == [False]


@pytest.mark.parametrize(
    ("status", "is_crashing"),
    [
        ({"state": {"waiting": {"reason": "CrashLoopBackOff"}}}, True),
        ({"lastState": {"terminated": {"exitCode": 137, "reason": "OOMKilled"}}}, True),
        ({"lastState": {"terminated": {"exitCode": 1}}, "restartCount": 5}, True),
        ({"lastState": {"terminated": {"exitCode": 1}}, "restartCount": 1}, False),
        ({"lastState": {"terminated": {"exitCode": 0}}, "restartCount": 5}, False),
    ],
)
def test_a_container_that_fails_again_and_again_crashes(status: Json, is_crashing: bool) -> None:
    pod = build_running(4, containerStatuses=[{"name": "c0", **status}])

    assert [each.is_crashing for each in list_on(pod)] == [is_crashing]


def test_a_pod_whose_node_may_not_be_read_is_listed_as_such() -> None:
    cluster = build_found_cluster(nodes=[], pods=[build_running(4)])

    [found] = list_card_pods(observe_cluster(cluster), cluster.pods, {}, None)

    assert not found.is_node_known


@pytest.mark.parametrize("change", [{"phase": "Succeeded"}, {"phase": "Failed"}])
def test_a_pod_that_has_ended_holds_nothing(change: Json) -> None:
    assert list_on(build_running(4, **change)) == []
