"""When windows are open, beside an oracle that looks at each minute of each zone's clock."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from gpushare.api.windows import Freeze, MaintenanceWindow, parse_freeze
from gpushare.core.rollout.windows import find_opening, find_opening_for
from tests.kit.values.window_oracle import is_open

NEW_YORK = "America/New_York"
ZONES = ("UTC", "Asia/Shanghai", NEW_YORK, "Europe/Berlin", "Australia/Lord_Howe", "Asia/Kolkata")


def a_window(schedule: str, duration: str, zone: str = "UTC") -> MaintenanceWindow:
    return MaintenanceWindow(schedule=schedule, duration=duration, time_zone=zone)


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).astimezone(UTC)


some_windows = st.lists(
    st.builds(
        a_window,
        st.sampled_from(
            (
                "0 22 * * *",
                "30 2 * * *",
                "30 1 * * SUN",
                "0 */6 * * *",
                "15 3 1 * *",
                "*/30 * * * *",
            )
        ),
        st.sampled_from(("5m", "29m30s", "90m", "4h", "26h")),
        st.sampled_from(ZONES),
    ),
    min_size=1,
    max_size=3,
)
some_moments = st.sampled_from(
    # Around what clocks do in spring and autumn.
    ("2026-03-08T06:00Z", "2026-11-01T04:00Z", "2026-03-29T00:00Z", "2026-10-25T00:00Z")
).flatmap(lambda day: st.integers(-1500, 1500).map(lambda m: at(day) + timedelta(minutes=m)))


@settings(max_examples=150, deadline=None)
@given(windows=some_windows, now=some_moments)
def test_a_window_is_open_when_its_clock_says_so(
    windows: list[MaintenanceWindow], now: datetime
) -> None:
    opening = find_opening(windows, now)
    assert opening is not None
    assert (opening.start <= now) is is_open(windows, now)
    # Nothing opens before, it stays open until its end, and is closed then.
    for share in range(10):
        if now < opening.start:
            assert not is_open(windows, now + share * (opening.start - now) / 10)
        begun = max(now, opening.start)
        assert is_open(windows, begun + share * (opening.end - begun) / 10)
    if opening.end - opening.start < timedelta(days=3):
        # What never ends is joined up to a limit.
        assert not is_open(windows, opening.end)


def test_a_window_in_the_skipped_hour_starts_at_its_end() -> None:
    opening = find_opening([a_window("30 2 * * *", "1h", NEW_YORK)], at("2026-03-08T00:00-05:00"))
    assert opening is not None
    assert (opening.start, opening.end) == (
        at("2026-03-08T03:00-04:00"),
        at("2026-03-08T04:00-04:00"),
    )


def test_a_window_in_the_doubled_hour_starts_once() -> None:
    windows = [a_window("30 1 * * *", "10m", NEW_YORK)]
    first = find_opening(windows, at("2026-11-01T00:00-04:00"))
    assert first is not None
    assert first.start == at("2026-11-01T01:30-04:00")
    second = find_opening(windows, first.end)
    assert second is not None
    assert second.start == at("2026-11-02T01:30-05:00")


@pytest.mark.parametrize(
    ("schedule", "zone", "now"),
    [
        ("30 1 * * *", NEW_YORK, "2026-11-01T06:03Z"),
        ("30 2 * * *", "Europe/Berlin", "2026-10-25T01:10Z"),
        ("45 1 * * *", "Australia/Lord_Howe", "2026-04-04T15:05Z"),
    ],
)
def test_in_the_second_of_two_equal_hours_the_next_window_is_in_the_future(
    schedule: str, zone: str, now: str
) -> None:
    opening = find_opening([a_window(schedule, "5m", zone)], at(now))
    assert opening is not None
    assert opening.start > at(now)


def test_windows_that_overlap_or_touch_are_one() -> None:
    windows = [
        a_window("0 22 * * *", "3h"),
        a_window("0 1 * * *", "3h"),
        a_window("0 3 * * *", "30m"),
    ]
    opening = find_opening(windows, at("2026-05-05T23:00Z"))
    assert opening is not None
    assert (opening.start, opening.end) == (at("2026-05-05T22:00Z"), at("2026-05-06T04:00Z"))


def test_what_would_not_be_done_waits_for_an_opening_that_is_long_enough() -> None:
    windows = [a_window("0 22 * * *", "10m"), a_window("0 3 * * SAT", "2h")]
    now = at("2026-05-05T22:05Z")
    assert (found := find_opening_for(windows, now, timedelta(minutes=5)))
    assert found.start <= now
    assert (found := find_opening_for(windows, now, timedelta(minutes=6)))
    assert found.start == at("2026-05-06T22:00Z")
    assert (found := find_opening_for(windows, now, timedelta(minutes=30)))
    assert found.start == at("2026-05-09T03:00Z")
    assert find_opening_for(windows, now, timedelta(hours=3)) is None


@pytest.mark.parametrize(
    "fault",
    [
        {"schedule": "0 0 30 2 *"},
        {"timeZone": "localtime"},
        {"schedule": "0 0 * *"},
        {"schedule": "@daily"},
        {"schedule": "0 25 * * *"},
        {"duration": "0m"},
        {"duration": ""},
        {"duration": "1d"},
        {"timeZone": "Mars/Phobos"},
        {"timeZone": "../../etc/localtime"},
    ],
)
def test_a_window_that_never_opens_is_refused(fault: dict[str, str]) -> None:
    window = {"schedule": "0 0 * * *", "duration": "1h", "timeZone": "UTC"}
    MaintenanceWindow.model_validate(window)
    with pytest.raises(ValidationError):
        MaintenanceWindow.model_validate(window | fault)


@pytest.mark.parametrize("schedule", ["0 2 */2 * SAT", "0 2 1-7 * */3"])
def test_days_that_cron_and_a_cronjob_understand_differently_are_refused(schedule: str) -> None:
    with pytest.raises(ValidationError, match="A CronJob starts where either matches"):
        a_window(schedule, "1h")


@pytest.mark.parametrize("schedule", ["0 2 */2 * *", "0 2 * * */3", "0 2 1-7 * SAT"])
def test_days_that_both_understand_alike_are_taken(schedule: str) -> None:
    assert a_window(schedule, "1h").schedule == schedule


@pytest.mark.parametrize("until", ["tomorrow", "2027", "4711.5", "-1", "2027-01-01T00:00"])
def test_a_freeze_whose_end_cannot_be_read_holds(until: str) -> None:
    raw = {"metadata": {"name": "gpushare-freeze"}, "data": {"until": until}}
    freeze = parse_freeze(raw)
    assert freeze is not None
    assert freeze.holds(at("2999-01-01T00:00Z"))


def test_a_freeze_of_all_pools_is_read_from_its_config_map_alone() -> None:
    data = {"reason": "two\nlines", "until": "2027-01-01T00:00Z"}
    freeze = parse_freeze({"metadata": {"name": "gpushare-freeze"}, "data": data})
    assert freeze == Freeze(reason="two lines", until=at("2027-01-01T00:00Z"))
    assert parse_freeze({"metadata": {"name": "other"}}) is None
    assert parse_freeze({"metadata": {"name": "gpushare-freeze"}}) == Freeze(
        reason="no reason is given"
    )
