"""Findings about Kueue's flavors and queues."""

import asyncio
from typing import Any

import pytest

from gpushare.analysis.doctor.kueue import judge_kueue
from gpushare.analysis.finding import Finding, FindingCode, Severity, Unseen
from gpushare.analysis.kueue.manifests import PoolQueue
from gpushare.analysis.kueue.objects import KueueObjects, parse_kueue
from gpushare.cli.doctor.kueue import read_kueue
from gpushare.kube.errors import ApiError
from tests.kit.values.kueue import (
    GPU_MEM,
    build_cluster_queue,
    build_cohort,
    build_flavor,
    build_local_queue,
    build_quota,
)
from tests.kit.values.manifests import Json
from tests.kit.values.objects import a_pool
from tests.unit.doctor.expect_findings import expect_one, list_codes

WARNING, INFO, OK = Severity.WARNING, Severity.INFO, Severity.OK
TRAINING = PoolQueue(a_pool(), {GPU_MEM: 30})
DEFAULT = {"metadata": {"name": "default", "labels": {"team": "a"}}}


def parse(
    *objects: Json,
    namespaces: tuple[Json, ...] = (DEFAULT,),
) -> KueueObjects:
    kinds = ("ResourceFlavor", "ClusterQueue", "Cohort", "LocalQueue")
    lists = [[each for each in objects if each["kind"] == kind] for kind in kinds]
    return parse_kueue(lists[0], lists[1], lists[2], lists[3], namespaces)


def judge(*objects: Json, pools: tuple[PoolQueue, ...] = (TRAINING,)) -> list[Finding]:
    return list(judge_kueue(parse(*objects), pools))


def quota(units: int, flavor: str = "training") -> Json:
    return build_cluster_queue("team", {flavor: {GPU_MEM: units}})


def test_flavors_of_pools_with_quota_within_them_are_well() -> None:
    found = judge(build_flavor("training", "training"), quota(30), build_local_queue())
    expect_one(found, FindingCode.KUEUE_FITS, OK, "1")
    assert len(found) == 1


def test_a_flavor_of_a_pool_that_is_not_there_is_told() -> None:
    found = judge(build_flavor("old", "gone"))
    expect_one(found, FindingCode.FLAVOR_POOL_MISSING, WARNING, "resourceflavor old", "pool=gone")


def test_a_flavor_that_gives_out_shared_cards_and_selects_no_pool_is_told() -> None:
    anywhere = build_flavor("any")
    found = judge(anywhere, quota(8, "any"))
    expect_one(found, FindingCode.FLAVOR_WITHOUT_POOL, WARNING, "resourceflavor any")
    by_mode = build_flavor("any", **{"ack.node.gpu.schedule": "cgpu"})
    assert list_codes(judge(by_mode, quota(8, "any"))) == ["KueueFits"]
    cpu = build_cluster_queue("team", {"any": {"cpu": 8}})
    assert list_codes(judge(anywhere, cpu)) == ["KueueFits"]


def test_quota_of_all_queues_and_cohorts_above_what_the_pool_has_is_told() -> None:
    flavors = (build_flavor("training", "training"), build_flavor("again", "training"))
    other = build_cluster_queue("other", {"again": {GPU_MEM: 6}})
    cohort = build_cohort("all", {"training": {GPU_MEM: 5}})
    assert list_codes(judge(*flavors, quota(19), other, cohort)) == ["KueueFits"]
    found = judge(*flavors, quota(20), other, cohort)
    told = (
        "pool training",
        "31",
        "has 30",
        "clusterqueue team",
        "clusterqueue other",
        "cohort all",
    )
    expect_one(found, FindingCode.QUOTA_ABOVE_POOL, WARNING, *told)


@pytest.mark.parametrize(("pool", "told"), [("training", False), ("inference", True)])
def test_resource_groups_that_select_two_pools_are_told(pool: str, told: bool) -> None:
    queue = quota(8)
    more = {"coveredResources": ["cpu"], "flavors": [build_quota("more", {"cpu": 8})]}
    queue["spec"]["resourceGroups"].append(more)
    pools = (TRAINING, PoolQueue(a_pool("inference"), {}))
    found = judge(
        build_flavor("training", "training"), build_flavor("more", pool), queue, pools=pools
    )
    assert list_codes(found) == (["PoolsInTwoGroups"] if told else ["KueueFits"])
    if told:
        words = ("clusterqueue team", "inference, training")
        expect_one(found, FindingCode.POOLS_IN_TWO_GROUPS, WARNING, *words)


@pytest.mark.parametrize(
    "pool", [PoolQueue(a_pool(), {}), PoolQueue(a_pool(), {GPU_MEM: 15}, ("gpu-2",))]
)
def test_quota_is_not_judged_while_a_pools_capacity_is_not_known(pool: PoolQueue) -> None:
    found = judge(build_flavor("training", "training"), quota(99), pools=(pool,))
    assert list_codes(found) == ["KueueFits"]


def test_a_pool_that_serves_a_queues_namespace_and_has_no_flavor_is_told() -> None:
    expect_one(
        judge(build_local_queue()),
        FindingCode.POOL_WITHOUT_FLAVOR,
        INFO,
        "pool training",
        "default",
    )
    assert list_codes(judge()) == ["KueueFits"]
    other = {"namespaceSelector": {"matchLabels": {"team": "b"}}}
    pools = (PoolQueue(a_pool(workloads=other), {}),)
    assert list_codes(judge(build_local_queue(), pools=pools)) == ["KueueFits"]


def test_namespaces_that_cannot_be_read_are_not_judged() -> None:
    kueue = parse(build_local_queue(), namespaces=())
    assert list_codes(judge_kueue(kueue, (TRAINING,))) == ["KueueFits"]


class Answers:
    """An API server that answers by path, or refuses with a status."""

    def __init__(self, answers: dict[str, Any]) -> None:
        self._answers = answers

    async def get(self, path: str, **params: str) -> Json:
        answer = self._answers.get(path.removeprefix("apis/kueue.x-k8s.io"), 404)
        if isinstance(answer, int):
            raise ApiError(answer, b'{"message": "no"}', what=f"get {path}")
        return {"metadata": {"resourceVersion": "1"}, **answer}

    async def find(self, path: str, **params: str) -> Json | None:
        try:
            return await self.get(path, **params)
        except ApiError as error:
            if error.is_not_found:
                return None
            raise


SERVED = {"versions": [{"version": "v1beta1"}, {"version": "v1beta2"}]}
LISTS: dict[str, Any] = {
    f"/v1beta2/{kind}": {"items": []} for kind in ("clusterqueues", "cohorts", "localqueues")
}


def read(answers: dict[str, Any]) -> KueueObjects | Unseen | None:
    api: Any = Answers(answers)
    return asyncio.run(read_kueue(api, [DEFAULT]))


def test_a_cluster_without_kueue_has_nothing_to_read() -> None:
    assert read({}) is None


def test_kueues_objects_are_read() -> None:
    flavors = {"items": [build_flavor("training", "training")]}
    found = read({"": SERVED, "/v1beta2/resourceflavors": flavors, **LISTS})
    assert isinstance(found, KueueObjects)
    assert [flavor.pool for flavor in found.flavors] == ["training"]


@pytest.mark.parametrize(
    ("answers", "why"),
    [
        ({"": {"versions": [{"version": "v1beta1"}]}}, "in version v1beta1"),
        ({"": 403}, "a right is missing"),
        ({"": SERVED, "/v1beta2/resourceflavors": 403}, "a right is missing"),
        ({"": SERVED, "/v1beta2/resourceflavors": 500}, "can't be read"),
        ({"": SERVED}, "can't be read"),
    ],
)
def test_what_keeps_kueue_from_being_read_is_told(answers: dict[str, Any], why: str) -> None:
    found = read(answers)
    assert isinstance(found, Unseen)
    assert why in found.why


class _Hanging(Answers):
    async def get(self, path: str, **params: str) -> Json:
        raise TimeoutError


def test_objects_that_are_waited_for_in_vain_do_not_end_the_other_checks() -> None:
    api: Any = _Hanging({"": SERVED})
    found = asyncio.run(read_kueue(api, [DEFAULT]))
    assert isinstance(found, Unseen)
    assert "Kueue's objects can't be read: " in found.why
