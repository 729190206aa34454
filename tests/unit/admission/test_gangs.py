"""Pods of one gang go to one pool, whichever webhook they come to."""

import json
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpushare.api.k8s.pod_shape import parse_pod_shape
from gpushare.core.admission.decision import AdmissionDecision
from gpushare.core.admission.gangs import MEMORY_SECONDS, MOST_GANGS, Gang, Gangs, read_gang
from tests.kit.values.gang_bursts import GIB, Burst
from tests.kit.values.manifests import build_pod, build_preference
from tests.kit.values.pool_views import Json

POD_GROUP = "scheduling.x-k8s.io/pod-group"
KOORDINATOR = "gang.scheduling.koordinator.sh"


def a_replica(owner: str = "ReplicaSet", uid: str = "trainer", **more: Any) -> Json:
    return build_pod("", gib=GIB, owner=owner, uid=uid, **more)


def a_sized(size: int | None = None, name: str = "train") -> Json:
    sizes = {} if size is None else {f"{KOORDINATOR}/total-number": str(size)}
    return build_pod("", gib=GIB, annotations={f"{KOORDINATOR}/name": name, **sizes})


def _create(burst: Burst, pod: Json, calls: Sequence[int]) -> list[AdmissionDecision]:
    return [burst.create(pod, webhook) for webhook in calls]


def _lost(decision: AdmissionDecision) -> Any:
    return json.loads(decision.annotation)["lost"]


def test_eight_replicas_that_one_of_two_equal_pools_can_take_all_go_there() -> None:
    burst = Burst({"a": 8, "b": 8})
    _create(burst, a_replica(), [0, 1] * 4)
    assert burst.got == {"a": 8}


def test_pods_without_an_owner_are_still_spread_when_in_doubt() -> None:
    burst = Burst({"a": 8, "b": 8})
    _create(burst, build_pod("", gib=GIB), [0, 1] * 4)
    assert burst.got.keys() == {"a", "b"}
    assert burst.pending == 0


_CALLS = st.lists(st.sampled_from([0, 1]), min_size=1, max_size=40)
_TOLD = st.sets(st.integers(0, 39), max_size=5)
"""After which pods new figures come."""


@given(
    calls=_CALLS,
    told=_TOLD,
    restarts=_TOLD,
    spare=st.integers(0, 20),
    fuller=st.integers(0, 10),
)
def test_a_burst_of_one_owner_goes_to_one_pool_though_webhooks_restart(
    calls: list[int], told: set[int], restarts: set[int], spare: int, fuller: int
) -> None:
    room = 2 * len(calls) + spare
    burst = Burst({"a": room, "b": room + fuller})
    for index, webhook in enumerate(calls):
        burst.create(a_replica(), webhook)
        if index in told:
            burst.tell()
        if index in restarts:
            burst.restart(index % 2)
    assert burst.got == {"a": len(calls)}


@given(calls=_CALLS, told=_TOLD, others=st.tuples(st.integers(1, 99), st.integers(1, 99)))
def test_a_declared_gang_begins_where_it_has_room_whether_its_size_is_told_or_not(
    calls: list[int], told: set[int], others: tuple[int, int]
) -> None:
    for size in (None, 2 * len(calls) + 4):
        room = 4 * len(calls) + 8
        burst = Burst({"a": others[0] % room + 1, "b": room, "c": others[1] % room + 1})
        for index, webhook in enumerate([0, 1, *calls]):
            burst.create(a_sized(size), webhook)
            if index > 0 and index in told:
                burst.tell()
        assert len(burst.got) == 1


@given(calls=_CALLS, told=_TOLD, places=st.integers(1, 40))
def test_no_more_of_a_gang_than_one_pod_for_another_webhook_waits_while_a_pool_has_room(
    calls: list[int], told: set[int], places: int
) -> None:
    burst = Burst({"a": places, "b": places + 6 * len(calls)})
    for index, webhook in enumerate(calls):
        burst.create(a_replica(), webhook)
        if index in told:
            burst.tell()
    assert burst.pending <= 1
    assert burst.pools["a"].got >= min(places, len(calls)) / 2


def test_the_rest_of_a_gang_goes_elsewhere_and_it_is_said() -> None:
    burst = Burst({"a": 12, "b": 30})
    decisions = _create(burst, a_replica(), [0, 1] * 10)
    assert (burst.got, burst.pending) == ({"a": 12, "b": 8}, 0)
    for decision in decisions[12:]:
        assert _lost(decision) == {"GangSplit": ["a"]}
        assert decision.message == (
            "Assigned to pool b (cgpu), apart from pods of its gang in pool a"
        )
        assert decision.warnings == (f"{decision.message}, which may have no room",)
    assert not any(decision.warnings for decision in decisions[:12])


def test_a_gang_that_is_known_to_be_too_large_for_any_pool_is_told_so_at_once() -> None:
    burst = Burst({"a": 4, "b": 12})
    first, second = _create(burst, a_sized(16), [0, 0])
    assert _lost(first) == {"GangTooLarge": ["a"]}
    assert first.warnings == (
        "Assigned to pool b (cgpu), which has room for 12 of the 16 pods of its gang. The others "
        "may go to other pools",
    )
    assert (second.pool, second.warnings) == ("b", ())


def test_the_fullest_pool_with_room_for_all_of_a_gang_of_known_size_gets_it() -> None:
    burst = Burst({"small": 4, "right": 9, "large": 40})
    (decision,) = _create(burst, a_sized(9), [0])
    assert (decision.pool, decision.warnings) == ("right", ())
    assert _lost(decision) == {"GangTooLarge": ["small"], "LessFull": ["large"]}


def test_one_pod_of_an_owner_goes_to_the_fullest_pool_like_any_other() -> None:
    assert Burst({"small": 1, "large": 40}).create(a_replica(), 0).pool == "small"


@pytest.mark.parametrize(
    ("better", "pod"),
    [
        ({"priority": 500}, a_replica()),
        ({}, a_replica(affinity=build_preference((9, "gpushare.io/pool", "In", "better")))),
    ],
    ids=["priority", "preference"],
)
def test_priority_and_preference_go_before_the_gang(better: Json, pod: Json) -> None:
    burst = Burst({"a": 20, "better": 20}, better=better)
    burst.pools["better"].got = 20
    burst.tell()
    assert burst.create(pod, 0).pool == "a"
    burst.pools["better"].got = 0
    burst.tell()
    assert burst.create(pod, 0).pool == "better"


def test_isolation_goes_before_the_gang() -> None:
    burst = Burst({"shared": 20, "z": 20}, shared={"schedule": "share"})
    assert burst.create(a_replica(env={"CGPU_DISABLE": "true"}), 0).pool == "shared"
    decision = burst.create(a_replica(), 0)
    assert (decision.pool, _lost(decision)) == ("z", {"NotIsolated": ["shared"]})


def test_a_fuller_pool_loses_to_that_of_the_gang_and_the_reason_says_so() -> None:
    burst = Burst({"a": 20, "b": 20})
    assert burst.create(a_replica(), 0).pool == "a"
    burst.pools["b"].got = 12
    burst.tell()
    decision = burst.create(a_replica(), 0)
    assert (decision.pool, _lost(decision)) == ("a", {"GangElsewhere": ["b"]})


def test_another_owner_of_the_same_moment_is_not_drawn_along() -> None:
    burst = Burst({"a": 20, "b": 20})
    _create(burst, a_replica(uid="one"), [0])
    burst.pools["b"].got = 12
    burst.tell()
    assert burst.create(a_replica(uid="two"), 0).pool == "b"


@pytest.mark.parametrize(
    ("pod", "gang"),
    [
        (a_replica("Job", "1"), Gang("1")),
        (build_pod("", owner="Job"), None),
        (build_pod(""), None),
        (build_pod("", labels={POD_GROUP: "g"}), Gang(f"{POD_GROUP}/g", None)),
        (a_replica(labels={POD_GROUP: "g"}), Gang(f"{POD_GROUP}/g", None)),
        (build_pod("", labels={POD_GROUP: ""}), None),
        (a_sized(4, "g"), Gang(f"{KOORDINATOR}/name/g", 4)),
        (a_sized(0, "g"), Gang(f"{KOORDINATOR}/name/g", None)),
        (build_pod("", schedulingGroup={"podGroupName": "g"}), Gang("PodGroup/g", None)),
        (build_pod("", schedulingGroup={}), None),
        (
            build_pod(
                "",
                labels={"leaderworkerset.sigs.k8s.io/group-key": "k"},
                annotations={"leaderworkerset.sigs.k8s.io/size": "3"},
            ),
            Gang("leaderworkerset.sigs.k8s.io/group-key/k", 3),
        ),
        (
            build_pod("", annotations={"scheduling.k8s.io/group-name": "podgroup-1"}),
            Gang("scheduling.k8s.io/group-name/podgroup-1", None),
        ),
        (
            a_replica("Job", labels={"jobset.sigs.k8s.io/jobset-uid": "u"}),
            Gang("jobset.sigs.k8s.io/jobset-uid/u", None),
        ),
    ],
)
def test_what_a_gang_is_read_from(pod: Json, gang: Gang | None) -> None:
    assert read_gang(parse_pod_shape(pod)) == gang


def test_a_size_of_any_length_is_no_error() -> None:
    burst = Burst({"a": 8})
    for size in ("9" * 10_000, "9" * 18, "-1", "x"):
        annotations = {f"{KOORDINATOR}/name": "g", f"{KOORDINATOR}/total-number": size}
        assert burst.create(build_pod("", gib=GIB, annotations=annotations), 0).pool == "a"


def test_the_latest_gangs_are_remembered_for_ten_minutes_without_their_texts() -> None:
    gangs = Gangs()
    for index in range(MOST_GANGS + 1):
        gangs.note(Gang(f"{index}" * 100), "default", "a", 0.0)
    last = Gang(f"{MOST_GANGS}" * 100)
    assert gangs.recall(last, "default", MEMORY_SECONDS) == Gang(last.key, pools=("a",))
    assert gangs.recall(last, "default", MEMORY_SECONDS + 1) == last
    assert gangs.recall(last, "other", 0.0) == last
    first = Gang("0" * 100)
    assert gangs.recall(first, "default", 0.0) == first


def test_of_a_gang_the_last_pools_are_remembered_each_once() -> None:
    gangs, gang = Gangs(), Gang("g")
    for pool in ("a", "b", "a", "c", "d", "e", "f"):
        recalled = gangs.recall(gang, "default", 0.0)
        assert recalled is not None
        gangs.note(recalled, "default", pool, 0.0)
    assert gangs.recall(gang, "default", 0.0) == Gang("g", pools=("c", "d", "e", "f"))


def test_a_job_uses_one_of_two_node_groups_whichever_has_room_for_it() -> None:
    """github.com/volcano-sh/volcano/issues/3712: 8 free nodes in one InfiniBand cluster, 4 in the
    other; the pods of a job that needs 6 were put on both."""
    burst = Burst({"ib1": 16, "ib2": 4})
    pod = build_pod("", gib=GIB, annotations={"scheduling.k8s.io/group-name": "train"})
    _create(burst, pod, [0, 1, 1, 0, 1, 0])
    assert burst.got == {"ib1": 6}


def test_later_workers_follow_the_first_ones_though_other_pools_score_the_same() -> None:
    """github.com/volcano-sh/volcano/issues/4343: the third worker was put into another group of
    nodes, because all of them scored the same."""
    burst = Burst({"s0": 8, "s1": 8, "s2": 8})
    for webhook in (0, 1, 0, 1):
        burst.create(a_replica("Job"), webhook)
        burst.tell()
    assert burst.got == {"s0": 4}


def test_workers_of_a_ray_cluster_stay_in_one_domain_as_it_grows() -> None:
    """github.com/ray-project/kuberay/issues/4843: workers are spread over NVLink domains instead of
    being kept in one."""
    burst = Burst({"nvl1": 24, "nvl2": 24})
    _create(burst, a_replica("RayCluster"), [0, 1] * 3)
    burst.tell()
    burst.pools["nvl2"].got = 10
    burst.tell()
    _create(burst, a_replica("RayCluster"), [1, 0] * 3)
    assert burst.got == {"nvl1": 12, "nvl2": 10}
