"""A pod that asks for whole cards asks for their memory, or is left as it is, with a reason."""

from copy import deepcopy
from typing import Any

import pytest

from gpushare.core.migration.cards import Cards
from gpushare.core.migration.finding import Code
from gpushare.core.migration.pods import Migrated, Target, migrate_pod
from tests.unit.migration.whole_card_pods import (
    MEMORY,
    WHOLE,
    a_card_node,
    build_gpu_container,
    build_whole_pod,
    see_cards,
)

Json = dict[str, Any]


def migrate(pod: Json, share: int | None = None, cards: Cards | None = None) -> Migrated:
    before = deepcopy(pod)
    migrated = migrate_pod(pod, Target(cards or see_cards(), share))
    assert pod == before
    return migrated


def list_codes(migrated: Migrated) -> list[Code]:
    return [finding.code for finding in migrated.findings]


def limits_of(pod: Json, container: int = 0) -> Json:
    limits: Json = pod["spec"]["containers"][container]["resources"]["limits"]
    return limits


def expect_left(pod: Json, *codes: Code, **how: Any) -> Migrated:
    migrated = migrate(pod, **how)
    assert migrated.raw is pod
    assert list_codes(migrated) == list(codes)
    return migrated


# What it asks for.


def test_it_asks_for_all_of_a_card_where_nothing_else_is_said() -> None:
    migrated = migrate(build_whole_pod())
    assert list(limits_of(migrated.raw).items()) == [("cpu", "1"), (MEMORY, 15)]
    assert migrated.findings == ()


def test_it_asks_for_the_share_that_is_said() -> None:
    assert limits_of(migrate(build_whole_pod(), share=4).raw)[MEMORY] == 4


def test_a_quantity_that_is_text_stays_text() -> None:
    assert limits_of(migrate(build_whole_pod(build_gpu_container("1"))).raw)[MEMORY] == "15"


def test_requests_are_rewritten_with_limits() -> None:
    container = build_gpu_container()
    container["resources"]["requests"] = {WHOLE: 1}
    migrated = migrate(build_whole_pod(container)).raw
    assert migrated["spec"]["containers"][0]["resources"]["requests"] == {MEMORY: 15}


def test_all_else_of_it_stays() -> None:
    sidecar = build_gpu_container(None, "sidecar", ports=[{"containerPort": 80}])
    pod = build_whole_pod(build_gpu_container(), sidecar, hostNetwork=True, custom={"a": [1]})
    expected = deepcopy(pod)
    expected["spec"]["containers"][0]["resources"]["limits"] = {"cpu": "1", MEMORY: 15}
    assert migrate(pod).raw == expected


def test_several_cards_are_several_cards_by_the_label() -> None:
    migrated = migrate(build_whole_pod(build_gpu_container(2), labels={"app": "a"}), share=4)
    assert limits_of(migrated.raw)[MEMORY] == 8
    assert migrated.raw["metadata"]["labels"] == {"app": "a", "aliyun.com/gpu-count": "2"}
    assert list_codes(migrated) == [Code.SEVERAL_CARDS]


def test_each_container_with_a_card_gets_its_own_memory() -> None:
    pod = build_whole_pod(build_gpu_container(), build_gpu_container(1, "second"))
    migrated = migrate(pod, share=7)
    assert [limits_of(migrated.raw, n)[MEMORY] for n in (0, 1)] == [7, 7]
    assert list_codes(migrated) == [Code.SEVERAL_CONTAINERS]


@pytest.mark.parametrize("share", [None, 8])
def test_containers_that_together_are_too_large_for_a_card_are_left(share: int | None) -> None:
    pod = build_whole_pod(build_gpu_container(), build_gpu_container(1, "second"))
    migrated = expect_left(pod, Code.SHARE_TOO_LARGE, share=share)
    (finding,) = migrated.findings
    assert finding.message.endswith("which has 15; --share 7 and less fits")


def test_containers_that_spread_count_for_each_of_their_cards() -> None:
    pod = build_whole_pod(build_gpu_container(2), build_gpu_container(2, "second"))
    expect_left(pod, Code.SHARE_TOO_LARGE, share=8)
    assert limits_of(migrate(pod, share=7).raw)[MEMORY] == 14


@pytest.mark.parametrize(
    "resources", [{"requests": {WHOLE: 1}}, {"requests": {WHOLE: 1}, "limits": {WHOLE: 2}}]
)
def test_requests_that_the_api_server_refuses_are_left(resources: Json) -> None:
    expect_left(build_whole_pod({"name": "c", "resources": resources}), Code.UNREADABLE)


def test_memory_is_given_in_the_plugins_unit() -> None:
    shares = a_card_node("n1", cards=2, offers={MEMORY: 32560})
    cards = see_cards(shares, a_card_node("n2"), unit="MiB")
    assert limits_of(migrate(build_whole_pod(), cards=cards).raw)[MEMORY] == 16280
    assert limits_of(migrate(build_whole_pod(), share=4, cards=cards).raw)[MEMORY] == 4096


@pytest.mark.parametrize("container", [build_gpu_container(None), build_gpu_container(0)])
def test_a_pod_without_gpus_is_the_same_object(container: Json) -> None:
    expect_left(build_whole_pod(container, nodeSelector={"disk": "ssd"}))


def test_a_pod_that_shares_already_stays() -> None:
    pod = build_whole_pod(build_gpu_container(None))
    pod["spec"]["containers"][0]["resources"] = {"limits": {MEMORY: 3}}
    expect_left(pod)


# What it is left with.


def test_a_share_that_is_larger_than_any_card() -> None:
    migrated = expect_left(build_whole_pod(), Code.SHARE_TOO_LARGE, share=16)
    assert "16 GiB is more than any card has that it may get (15)" in migrated.findings[0].message


def test_cards_that_differ() -> None:
    cards = see_cards(a_card_node("n1"), a_card_node("n2", 32510))
    migrated = expect_left(build_whole_pod(), Code.CARDS_DIFFER, cards=cards)
    assert "cards of 15 GiB (1) and 31 GiB (1)" in migrated.findings[0].message


def test_a_share_fits_cards_that_differ() -> None:
    cards = see_cards(a_card_node("n1"), a_card_node("n2", 32510))
    assert limits_of(migrate(build_whole_pod(), 8, cards).raw)[MEMORY] == 8


@pytest.mark.parametrize("gpus", ["one", "1.5", "${GPUS}", True, -1])
def test_a_number_of_cards_that_is_none(gpus: Any) -> None:
    expect_left(build_whole_pod(build_gpu_container(gpus)), Code.UNREADABLE)


def test_what_is_no_pod() -> None:
    expect_left(build_whole_pod(nodeSelector=["gpu"]), Code.UNREADABLE)
    preferred = [{"weight": 1, "preference": "gpu"}]
    affinity = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}
    expect_left(build_whole_pod(affinity=affinity), Code.UNREADABLE)


def test_containers_with_different_numbers_of_cards() -> None:
    pod = build_whole_pod(build_gpu_container(1), build_gpu_container(2, "second"))
    expect_left(pod, Code.UNEVEN_CARDS)


def test_a_label_that_spreads_over_another_number_of_cards() -> None:
    expect_left(build_whole_pod(labels={"aliyun.com/gpu-count": "2"}), Code.UNEVEN_CARDS)


def test_an_init_container_with_a_card() -> None:
    initial = build_gpu_container(1, "warm-up")
    expect_left(build_whole_pod(initContainers=[initial]), Code.INIT_CONTAINER)


@pytest.mark.parametrize("other", [MEMORY, "aliyun.com/gpu"])
def test_whole_cards_and_shared_ones_in_a_pod(other: str) -> None:
    second = build_gpu_container(None, "second", resources={"limits": {other: 1}})
    expect_left(build_whole_pod(build_gpu_container(), second), Code.MIXED_RESOURCES)


@pytest.mark.parametrize(
    ("resource", "code"),
    [
        ("nvidia.com/mig-1g.5gb", Code.MIG_RESOURCE),
        ("nvidia.com/gpu.shared", Code.OTHER_NVIDIA_RESOURCE),
    ],
)
@pytest.mark.parametrize("gpus", [None, 1])
def test_other_resources_of_nvidia(resource: str, code: Code, gpus: int | None) -> None:
    second = build_gpu_container(None, "second", resources={"limits": {resource: 1}})
    expect_left(build_whole_pod(build_gpu_container(gpus), second), code)


# What is to be looked at.


@pytest.mark.parametrize(
    ("more", "code"),
    [
        ({"runtimeClassName": "nvidia"}, Code.RUNTIME_CLASS),
        ({"nodeSelector": {"nvidia.com/gpu.product": "Tesla-T4"}}, Code.NVIDIA_NODE_LABEL),
        ({"nodeSelector": {"gpushare.io/pool": "whole"}}, Code.POOL_NAMED),
    ],
)
def test_what_may_not_carry_over_is_named(more: Json, code: Code) -> None:
    product = {"nvidia.com/gpu.product": "Tesla-T4"}
    cards = see_cards(a_card_node("n1", labels=product))
    migrated = migrate(build_whole_pod(**more), cards=cards)
    assert limits_of(migrated.raw)[MEMORY] == 15
    assert list_codes(migrated) == [code]


def test_a_container_that_names_its_cards_itself() -> None:
    env = [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]
    migrated = migrate(build_whole_pod(build_gpu_container(env=env)))
    assert list_codes(migrated) == [Code.VISIBLE_DEVICES]
    assert list_codes(migrate(migrated.raw)) == [Code.VISIBLE_DEVICES]


def test_a_limit_of_cards_beside_memory() -> None:
    asks = {"limits": {MEMORY: 3, "aliyun.com/gpu-count": 1}}
    expect_left(build_whole_pod(build_gpu_container(None, resources=asks)), Code.CARD_COUNT_LIMIT)
