"""Modes of the editions, and the transitions between them."""

import pytest

from gpushare import names
from gpushare.api.pool import EDITION_SCHEDULES, Edition, Schedule
from gpushare.core.modes import (
    MODES,
    desired_labels,
    find_other_edition_labels,
    find_schedule,
)
from gpushare.core.transitions import TRANSITIONS, Outcome, find_transition
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


@pytest.mark.parametrize(("edition", "of", "to"), sorted(TRANSITIONS))
def test_a_plugin_is_restarted_exactly_where_it_serves_both_modes(
    edition: Edition, of: Schedule, to: Schedule
) -> None:
    transition = TRANSITIONS[edition, of, to]
    if transition.refusal is None:
        plugins = {MODES[edition, of].plugin, MODES[edition, to].plugin}
        stays = len(plugins) == 1 and plugins != {""}
        assert (transition.outcome is Outcome.APPLY_AND_RESTART) is stays


@pytest.mark.parametrize(("edition", "of", "to"), sorted(TRANSITIONS))
def test_every_transition_has_a_reason_and_a_source(
    edition: Edition, of: Schedule, to: Schedule
) -> None:
    transition = TRANSITIONS[edition, of, to]
    assert transition.message
    assert transition.source


@pytest.mark.parametrize("of", ["cgpu", "core_mem"])
def test_leaving_isolation_for_share_needs_a_teardown_on_professional(of: str) -> None:
    transition = find_transition(Edition.PROFESSIONAL, of, Schedule.SHARE)
    assert transition.outcome is Outcome.REQUIRES_TEARDOWN


@pytest.mark.parametrize(
    ("of", "to"), [("cgpu", "core_mem"), ("core_mem", "cgpu"), ("egpu", "share")]
)
def test_a_pair_that_is_not_documented_needs_a_person(of: str, to: str) -> None:
    transition = find_transition(Edition.PROFESSIONAL, of, Schedule(to))
    assert transition.outcome is Outcome.REQUIRES_PERSON
    assert repr(of) in transition.message
