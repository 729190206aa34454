"""Modes of the editions."""

import pytest

from gpushare import names
from gpushare.api.pool import EDITION_SCHEDULES, Edition, Schedule
from gpushare.core.modes import (
    MODES,
    desired_labels,
    find_other_edition_labels,
    find_schedule,
)
from tests.kit.values.objects import a_pool

ALL_MODES = sorted(MODES)


def test_every_mode_that_the_api_offers_is_known() -> None:
    offered = {(e, s) for e, schedules in EDITION_SCHEDULES.items() for s in schedules}
    assert set(MODES) == offered


@pytest.mark.parametrize(("edition", "schedule"), ALL_MODES)
def test_a_modes_labels_are_read_back_as_that_mode(edition: Edition, schedule: Schedule) -> None:
    assert find_schedule(edition, MODES[edition, schedule].labels) == schedule


@pytest.mark.parametrize(("edition", "schedule"), ALL_MODES)
def test_only_the_editions_own_keys_are_written(edition: Edition, schedule: Schedule) -> None:
    own = {
        Edition.PROFESSIONAL: {names.LABEL_SCHEDULE},
        Edition.BASIC: {names.LABEL_CGPU, names.LABEL_CGPU_DISABLE_ISOLATION},
        Edition.OPEN_SOURCE: {names.LABEL_GPUSHARE},
    }
    assert MODES[edition, schedule].labels.keys() <= own[edition]


@pytest.mark.parametrize(
    ("edition", "labels", "schedule"),
    [
        (Edition.BASIC, {"cgpu": "true"}, Schedule.CGPU),
        (Edition.BASIC, {"cgpu": "true", "cgpu.disable.isolation": "True"}, Schedule.CGPU),
        (Edition.PROFESSIONAL, {names.LABEL_SCHEDULE: "egpu"}, "egpu"),
    ],
    ids=["isolated unless said", "only exactly true", "an unknown value as it is"],
)
def test_labels_are_read_as_the_vendors_plugins_read_them(
    edition: Edition, labels: dict[str, str], schedule: str
) -> None:
    assert find_schedule(edition, labels) == schedule


def test_placement_is_written_only_where_the_pool_says_so() -> None:
    with_placement = a_pool(schedule="share", placement="spread")
    assert desired_labels("training", with_placement.spec) == {
        "ack.node.gpu.schedule": "share",
        "ack.node.gpu.placement": "spread",
        "gpushare.io/pool": "training",
    }
    assert names.LABEL_PLACEMENT not in desired_labels("training", a_pool().spec)


@pytest.mark.parametrize(
    ("edition", "found"), [(Edition.PROFESSIONAL, {"cgpu": "true"}), (Edition.BASIC, {})]
)
def test_labels_of_another_edition_are_found_where_they_share_gpus(
    edition: Edition, found: dict[str, str]
) -> None:
    """Its labels of whole cards do no harm."""
    labels = {"cgpu": "true", "gpushare": "false", "ack.node.gpu.schedule": "default"}
    assert find_other_edition_labels(edition, labels) == found


def test_only_core_mem_offers_a_second_resource() -> None:
    second = {mode.schedule: mode.companions for mode in MODES.values() if mode.companions}
    assert second == {Schedule.CORE_MEM: ("aliyun.com/gpu-core.percentage",)}
    core_mem = MODES[Edition.PROFESSIONAL, Schedule.CORE_MEM]
    assert core_mem.resources == ("aliyun.com/gpu-mem", "aliyun.com/gpu-core.percentage")


def test_a_mode_that_offers_nothing_has_no_resources() -> None:
    assert MODES[Edition.PROFESSIONAL, Schedule.DISABLED].resources == ()
