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
from tests.kit.values import a_pool

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


def test_a_basic_node_without_the_isolation_label_is_isolated() -> None:
    assert find_schedule(Edition.BASIC, {"cgpu": "true"}) == Schedule.CGPU


def test_only_exactly_true_switches_isolation_off() -> None:
    labels = {"cgpu": "true", "cgpu.disable.isolation": "True"}
    assert find_schedule(Edition.BASIC, labels) == Schedule.CGPU


def test_an_unknown_value_is_reported_as_it_is() -> None:
    assert find_schedule(Edition.PROFESSIONAL, {names.LABEL_SCHEDULE: "egpu"}) == "egpu"


def test_placement_is_written_only_where_the_pool_says_so() -> None:
    with_placement = a_pool(schedule="share", placement="spread")
    assert desired_labels("training", with_placement.spec) == {
        "ack.node.gpu.schedule": "share",
        "ack.node.gpu.placement": "spread",
        "gpushare.io/pool": "training",
    }
    assert names.LABEL_PLACEMENT not in desired_labels("training", a_pool().spec)


def test_labels_of_another_edition_that_share_gpus_are_found() -> None:
    labels = {"cgpu": "true", "gpushare": "false", "ack.node.gpu.schedule": "share"}
    assert find_other_edition_labels(Edition.PROFESSIONAL, labels) == {"cgpu": "true"}


def test_another_editions_whole_card_labels_do_no_harm() -> None:
    labels = {"ack.node.gpu.schedule": "default", "gpushare": "false"}
    assert find_other_edition_labels(Edition.BASIC, labels) == {}


def test_only_core_mem_offers_a_second_resource() -> None:
    second = {mode.schedule: mode.companions for mode in MODES.values() if mode.companions}
    assert second == {Schedule.CORE_MEM: ("aliyun.com/gpu-core.percentage",)}
    core_mem = MODES[Edition.PROFESSIONAL, Schedule.CORE_MEM]
    assert core_mem.resources == ("aliyun.com/gpu-mem", "aliyun.com/gpu-core.percentage")


def test_a_mode_that_offers_nothing_has_no_resources() -> None:
    assert MODES[Edition.PROFESSIONAL, Schedule.DISABLED].resources == ()
