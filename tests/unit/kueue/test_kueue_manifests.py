"""Kueue's flavors and queues for pools: what `render kueue` prints."""

import re
from typing import Any

import pytest

from gpushare.analysis.kueue.manifests import (
    MOST_FLAVORS,
    PoolQueue,
    build_flavor,
    build_local_queues,
    build_manifests,
    format_amount,
    measure_pool,
)
from gpushare.api.k8s.node import Node
from gpushare.api.k8s.resources.host import HostResources
from gpushare.api.pool import Pool
from gpushare.cli.render.kueue import list_notes
from tests.kit.values.manifests import Json
from tests.kit.values.objects import MEMORY, a_node, a_pool, a_snapshot

SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
CORE = "aliyun.com/gpu-core.percentage"


def measure(pool: Pool, *nodes: Node) -> PoolQueue:
    snapshot = a_snapshot(pools=(pool,), nodes=nodes)
    return measure_pool(pool, [node.name for node in nodes], snapshot)


def offering(name: str = "gpu-1", memory: int = 15, **more: Any) -> Node:
    return a_node(name, allocatable={MEMORY: memory}, **more)


def queues_of(*pools: PoolQueue) -> dict[str, Json]:
    found = (each for each in build_manifests(pools) if each["kind"] == "ClusterQueue")
    return {each["metadata"]["name"]: each["spec"] for each in found}


def quotas_of(queue: Json) -> dict[str, dict[str, str]]:
    (group,) = queue["resourceGroups"]
    for flavor in group["flavors"]:
        assert [each["name"] for each in flavor["resources"]] == group["coveredResources"]
    return {
        flavor["name"]: {each["name"]: each["nominalQuota"] for each in flavor["resources"]}
        for flavor in group["flavors"]
    }


def test_the_flavor_of_a_pool_selects_it_and_gives_its_tolerations() -> None:
    pool = a_pool(workloads={"tolerations": [{"key": "gpu", "operator": "Exists"}]})
    flavor = build_flavor(pool)
    assert (flavor["apiVersion"], flavor["kind"]) == ("kueue.x-k8s.io/v1beta2", "ResourceFlavor")
    assert flavor["metadata"] == {"name": "training"}
    assert flavor["spec"] == {
        "nodeLabels": {"gpushare.io/pool": "training"},
        "tolerations": [{"key": "gpu", "operator": "Exists"}],
    }
    assert "tolerations" not in build_flavor(a_pool())["spec"]


def test_more_tolerations_than_kueue_takes_are_left_out_and_told() -> None:
    tolerations = [{"key": f"k{n}", "operator": "Exists"} for n in range(10)]
    queue = measure(a_pool(workloads={"tolerations": tolerations}), offering())
    assert len(build_flavor(queue.pool)["spec"]["tolerations"]) == 8
    assert any("the last 2 are left out" in note for note in list_notes(queue))


def test_quota_is_what_the_nodes_offer_for_the_mode_and_their_cpu_and_memory() -> None:
    host = HostResources(8000, 32)
    first = a_node("a", allocatable={MEMORY: 15, CORE: 100}, host=host)
    second = a_node("b", allocatable={MEMORY: 30, CORE: 200}, host=host)
    by_mode = {
        "cgpu": {MEMORY: "45", "cpu": "16", "memory": "62Gi"},
        "core_mem": {MEMORY: "45", CORE: "300", "cpu": "16", "memory": "62Gi"},
    }
    for mode, quota in by_mode.items():
        queue = measure(a_pool(schedule=mode), first, second)
        assert quotas_of(queues_of(queue)["training"]) == {"training": quota}
        assert list(list_notes(queue)) == []


def test_a_node_that_offers_nothing_now_is_told_and_gives_no_quota() -> None:
    queue = measure(a_pool(), offering("a"), a_node("b", host=HostResources(8000, 32)))
    assert queue.quota == {MEMORY: 15}
    assert any("1 nodes that offer nothing now: b" in note for note in list_notes(queue))


@pytest.mark.parametrize("nodes", [(), (a_node("b", host=HostResources(8000, 32)),)])
def test_a_pool_without_known_capacity_has_a_flavor_and_no_queue(nodes: tuple[Node, ...]) -> None:
    queue = measure(a_pool(), *nodes)
    assert [each["kind"] for each in build_manifests([queue])] == ["ResourceFlavor"]
    assert any("its quota is not known" in note for note in list_notes(queue))


def test_unknown_cpu_of_nodes_is_no_quota_and_told() -> None:
    queue = measure(a_pool(), offering())
    assert quotas_of(queues_of(queue)["training"]) == {"training": {MEMORY: "15"}}
    assert any("requests cpu or memory" in note for note in list_notes(queue))


def test_pools_of_the_same_edition_and_mode_lend_each_other_and_others_do_not() -> None:
    pools = [
        a_pool("one"),
        a_pool("two"),
        a_pool("other-mode", schedule="share"),
        a_pool("other-edition", edition="Basic"),
        a_pool("for-others", workloads={"namespaceSelector": {"matchLabels": {"team": "a"}}}),
    ]
    found = queues_of(*(measure(pool, offering()) for pool in pools))
    assert {name: set(quotas_of(queue)) for name, queue in found.items()} == {
        "one": {"one", "two"},
        "two": {"one", "two"},
        "other-mode": {"other-mode"},
        "other-edition": {"other-edition"},
        "for-others": {"for-others"},
    }
    assert quotas_of(found["one"])["two"] == {MEMORY: "0"}
    assert found["one"]["cohortName"] == "gpushare-professional-cgpu"
    assert found["other-mode"]["cohortName"] == "gpushare-professional-share"
    assert found["other-edition"]["cohortName"] == "gpushare-basic-cgpu"
    assert found["one"]["namespaceSelector"] == {}
    assert found["for-others"]["namespaceSelector"] == {"matchLabels": {"team": "a"}}


@pytest.mark.parametrize(
    ("edition", "more"),
    [
        ("Professional", {"schedule": "core_mem"}),
        ("OpenSource", {"schedule": "share"}),
        ("NVIDIA", {"schedule": "", "nvidia": {"config": "MPS_4..x"}}),
    ],
)
def test_names_of_cohorts_are_valid(edition: str, more: dict[str, Any]) -> None:
    name = PoolQueue(a_pool(edition=edition, **more), {}).cohort
    assert SUBDOMAIN.fullmatch(name), name


def test_a_queue_has_no_more_flavors_than_kueue_takes() -> None:
    queues = [measure(a_pool(f"pool-{n}"), offering()) for n in range(MOST_FLAVORS + 6)]
    assert all(len(quotas_of(each)) == MOST_FLAVORS for each in queues_of(*queues).values())


def test_a_namespace_gets_a_local_queue_of_each_pool_that_serves_it() -> None:
    selector = {"namespaceSelector": {"matchLabels": {"team": "a"}}}
    one, two = (
        measure(a_pool("one"), offering()),
        measure(a_pool("two", workloads=selector), offering()),
    )
    unknown = measure(a_pool("unknown"))
    namespaces = {"team-a": {"team": "a"}, "team-b": {}}
    found = list(build_local_queues([one, two, unknown], namespaces))
    assert [each["metadata"] for each in found] == [
        {"name": "one", "namespace": "team-a"},
        {"name": "two", "namespace": "team-a"},
        {"name": "one", "namespace": "team-b"},
    ]
    assert {each["kind"] for each in found} == {"LocalQueue"}
    assert [each["spec"]["clusterQueue"] for each in found] == ["one", "two", "one"]


@pytest.mark.parametrize(
    ("resource", "amount", "text"),
    [
        (MEMORY, 0, "0"),
        (MEMORY, 30, "30"),
        (MEMORY, 1000, "1k"),
        (MEMORY, 1500, "1500"),
        ("cpu", 16000, "16"),
        ("cpu", 3920, "3920m"),
        ("cpu", 2_000_000, "2k"),
        ("memory", 62, "62Gi"),
        ("memory", 1024, "1Ti"),
        ("memory", 1536, "1536Gi"),
    ],
)
def test_amounts_are_written_as_the_api_server_writes_them(
    resource: str, amount: int, text: str
) -> None:
    assert format_amount(resource, amount) == text
