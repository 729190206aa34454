"""A pod that asks for whole cards asks for their memory, or is left as it is, with a reason."""

from typing import Any

import pytest

from gpushare.analysis.migration.cards import Cards
from gpushare.analysis.migration.finding import Migrated, MigrationCode
from gpushare.analysis.migration.pods import Target, migrate_pod
from tests.unit.migration.whole_card_pods import (
    MEMORY,
    WHOLE,
    Json,
    a_card_node,
    build_gpu_container,
    build_whole_pod,
    see_cards,
)

COUNT = "aliyun.com/gpu-count"
UNLIKE = see_cards(a_card_node("n1"), a_card_node("n2", 32510))


def migrate(pod: Json, share: int | None = None, cards: Cards | None = None) -> Migrated:
    return migrate_pod(pod, Target(cards or see_cards(), share))


def list_codes(migrated: Migrated) -> list[MigrationCode]:
    return [finding.code for finding in migrated.findings]


def list_limits(migrated: Migrated) -> list[Json]:
    return [each["resources"]["limits"] for each in migrated.raw["spec"]["containers"]]


def second(gpus: int | None = 1, **limits: int) -> Json:
    more = {"resources": {"limits": limits}} if limits else {}
    return build_gpu_container(gpus, "second", **more)


def pair(gpus: int = 1) -> Json:
    """A pod of two containers that ask for so many cards each."""
    return build_whole_pod(build_gpu_container(gpus), second(gpus))


def test_it_asks_for_all_of_a_card_where_nothing_else_is_said() -> None:
    migrated = migrate(build_whole_pod())
    assert list(list_limits(migrated)[0].items()) == [("cpu", "1"), (MEMORY, 15)]
    assert migrated.findings == ()


def test_a_quantity_that_is_text_stays_text() -> None:
    (limits,) = list_limits(migrate(build_whole_pod(build_gpu_container("1"))))
    assert limits[MEMORY] == "15"


def test_requests_are_rewritten_with_limits() -> None:
    container = build_gpu_container()
    container["resources"]["requests"] = {WHOLE: 1}
    (migrated,) = migrate(build_whole_pod(container)).raw["spec"]["containers"]
    assert migrated["resources"]["requests"] == {MEMORY: 15}


def test_several_cards_are_several_cards_by_the_label() -> None:
    migrated = migrate(build_whole_pod(build_gpu_container(2), labels={"app": "a"}), share=4)
    assert list_limits(migrated)[0][MEMORY] == 8
    assert migrated.raw["metadata"]["labels"] == {"app": "a", COUNT: "2"}
    assert list_codes(migrated) == [MigrationCode.SEVERAL_CARDS]


@pytest.mark.parametrize(("gpus", "memory"), [(1, 7), (2, 14)])
def test_each_container_with_cards_gets_its_own_memory(gpus: int, memory: int) -> None:
    migrated = migrate(pair(gpus), share=7)
    assert [limits[MEMORY] for limits in list_limits(migrated)] == [memory, memory]
    assert MigrationCode.SEVERAL_CONTAINERS in list_codes(migrated)


def test_memory_is_given_in_the_plugins_unit() -> None:
    shares = a_card_node("n1", cards=2, offers={MEMORY: 32560})
    cards = see_cards(shares, a_card_node("n2"), unit="MiB")
    for share, mib in ((None, 16280), (4, 4096)):
        assert list_limits(migrate(build_whole_pod(), share, cards))[0][MEMORY] == mib


def test_a_share_fits_cards_that_differ() -> None:
    assert list_limits(migrate(build_whole_pod(), 8, UNLIKE))[0][MEMORY] == 8


def asking(**resources: Json) -> Json:
    return build_whole_pod(build_gpu_container(None, resources=resources))


def beside(gpus: int | None, resource: str) -> Json:
    """A pod that asks for so many cards, and for another resource."""
    return build_whole_pod(build_gpu_container(gpus), second(None, **{resource: 1}))


PREFERRED = {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "preference": "x"}]}
MIG, SHARED = "nvidia.com/mig-1g.5gb", "nvidia.com/gpu.shared"
LEFT: list[tuple[Json, MigrationCode | None]] = [
    (build_whole_pod(second(None), nodeSelector={"disk": "ssd"}), None),
    (build_whole_pod(build_gpu_container(0)), None),
    (asking(limits={MEMORY: 3}), None),
    # The API server refuses such requests.
    (asking(requests={WHOLE: 1}), MigrationCode.UNREADABLE),
    (asking(requests={WHOLE: 1}, limits={WHOLE: 2}), MigrationCode.UNREADABLE),
    *(
        (build_whole_pod(build_gpu_container(gpus)), MigrationCode.UNREADABLE)
        for gpus in ("one", "1.5", "${GPUS}", True, -1)
    ),
    *((asking(limits={MEMORY: units}), MigrationCode.UNREADABLE) for units in ("0.5", "-1")),
    (build_whole_pod(nodeSelector=["gpu"]), MigrationCode.UNREADABLE),
    (build_whole_pod(affinity={"nodeAffinity": PREFERRED}), MigrationCode.UNREADABLE),
    (build_whole_pod(build_gpu_container(1), second(2)), MigrationCode.UNEVEN_CARDS),
    (build_whole_pod(labels={COUNT: "2"}), MigrationCode.UNEVEN_CARDS),
    (build_whole_pod(initContainers=[second()]), MigrationCode.INIT_CONTAINER),
    (beside(1, MEMORY), MigrationCode.MIXED_RESOURCES),
    (beside(1, "aliyun.com/gpu"), MigrationCode.MIXED_RESOURCES),
    *((beside(gpus, MIG), MigrationCode.MIG_RESOURCE) for gpus in (None, 1)),
    *((beside(gpus, SHARED), MigrationCode.OTHER_NVIDIA_RESOURCE) for gpus in (None, 1)),
    (asking(limits={MEMORY: 3, COUNT: 1}), MigrationCode.CARD_COUNT_LIMIT),
]


@pytest.mark.parametrize(("pod", "code"), LEFT)
def test_a_pod_is_left_as_it_is(pod: Json, code: MigrationCode | None) -> None:
    migrated = migrate(pod)
    assert migrated.raw is pod
    assert list_codes(migrated) == ([code] if code else [])


@pytest.mark.parametrize(
    ("pod", "share", "cards", "code", "told"),
    [
        (build_whole_pod(), 16, None, MigrationCode.SHARE_TOO_LARGE, "--share 15 "),
        # Containers share a card, or each of their cards.
        (pair(), None, None, MigrationCode.SHARE_TOO_LARGE, "--share 7 "),
        (pair(), 8, None, MigrationCode.SHARE_TOO_LARGE, "--share 7 "),
        (pair(2), 8, None, MigrationCode.SHARE_TOO_LARGE, "--share 7 "),
        (build_whole_pod(), None, UNLIKE, MigrationCode.CARDS_DIFFER, "15 GiB (1) and 31 GiB (1)"),
    ],
)
def test_a_pod_whose_memory_no_card_has_is_left_and_told_why(
    pod: Json, share: int | None, cards: Cards | None, code: MigrationCode, told: str
) -> None:
    migrated = migrate(pod, share, cards)
    assert migrated.raw is pod
    (finding,) = migrated.findings
    assert finding.code is code
    assert told in finding.message


@pytest.mark.parametrize(
    ("more", "code"),
    [
        ({"runtimeClassName": "nvidia"}, MigrationCode.RUNTIME_CLASS),
        ({"nodeSelector": {"nvidia.com/gpu.product": "Tesla-T4"}}, MigrationCode.NVIDIA_NODE_LABEL),
        ({"nodeSelector": {"gpushare.io/pool": "whole"}}, MigrationCode.POOL_NAMED),
    ],
)
def test_what_may_not_carry_over_is_named(more: Json, code: MigrationCode) -> None:
    product = {"nvidia.com/gpu.product": "Tesla-T4"}
    cards = see_cards(a_card_node("n1", labels=product))
    migrated = migrate(build_whole_pod(**more), cards=cards)
    assert list_limits(migrated)[0][MEMORY] == 15
    assert list_codes(migrated) == [code]


def test_a_container_that_names_its_cards_itself() -> None:
    env: Any = [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]
    migrated = migrate(build_whole_pod(build_gpu_container(env=env)))
    assert list_codes(migrated) == [MigrationCode.VISIBLE_DEVICES]
    assert list_codes(migrate(migrated.raw)) == [MigrationCode.VISIBLE_DEVICES]
