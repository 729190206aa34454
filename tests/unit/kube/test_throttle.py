"""Retry-After is obeyed, by whom it concerns."""

import pytest

from gpushare.kube import retry_after as throttle
from gpushare.kube.retry_after import LONGEST_SECONDS, RetryAfter, parse_retry_after
from tests.kit.values.clock import Clock

NODE = "api/v1/nodes/a"
LEASE = "apis/coordination.k8s.io/v1/namespaces/ns/leases/controller"
EVICTION = "api/v1/namespaces/ns/pods/a/eviction"


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        ("0", 0.0),
        ("7", 7.0),
        ("9" * 400, LONGEST_SECONDS),
        (None, None),
        ("-5", None),
        ("\u00b2", None),
        ("Thu, 01 Jan 2026 12:00:05 GMT", None),
    ],
)
def test_a_header_says_how_long(header: str | None, seconds: float | None) -> None:
    assert parse_retry_after(header) == seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """A clock that is moved by those who wait."""
    clock = Clock()

    async def sleep(seconds: float) -> None:
        clock.now += seconds

    monkeypatch.setattr(throttle.asyncio, "sleep", sleep)  # type: ignore[attr-defined]
    return clock


@pytest.mark.parametrize(
    ("told", "asks", "waits"),
    [
        (("PATCH", NODE), ("PATCH", NODE), True),
        (("PATCH", NODE), ("DELETE", "api/v1/namespaces/ns/pods/a"), True),
        (("PATCH", NODE), ("GET", NODE), False),
        (("PATCH", NODE), ("PUT", LEASE), False),
        (("PUT", LEASE), ("PUT", LEASE), True),
        (("PUT", LEASE), ("PATCH", NODE), False),
        (("POST", EVICTION), ("PATCH", NODE), True),
        (("PATCH", NODE), ("POST", EVICTION), True),
        (("POST", EVICTION), ("POST", EVICTION), True),
        (("GET", "api/v1/nodes"), ("GET", "api/v1/nodes"), True),
        (("GET", "api/v1/nodes"), ("GET", "api/v1/pods"), False),
        (("GET", "api/v1/nodes"), ("PATCH", NODE), False),
    ],
)
async def test_writes_wait_together_and_reads_for_themselves(
    clock: Clock, told: tuple[str, str], asks: tuple[str, str], waits: bool
) -> None:
    held, started = RetryAfter(clock), clock.now
    held.close(*told, 3.0)
    await held.wait(*asks)
    assert clock.now - started == (3.0 if waits else 0.0)


async def test_a_shorter_wish_does_not_cut_a_longer_one_short(clock: Clock) -> None:
    held, started = RetryAfter(clock), clock.now
    for seconds in (3.0, 1.0):
        held.close("PATCH", NODE, seconds)
    await held.wait("PATCH", NODE)
    assert clock.now - started == 3.0


async def test_a_wish_that_comes_while_waiting_is_heard(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    held, started, wishes = RetryAfter(clock), clock.now, [7.0]

    async def sleep(seconds: float) -> None:
        if wishes:
            held.close("PATCH", NODE, wishes.pop())
        clock.now += seconds

    monkeypatch.setattr(throttle.asyncio, "sleep", sleep)  # type: ignore[attr-defined]
    held.close("PATCH", NODE, 3.0)
    await held.wait("PATCH", NODE)
    assert clock.now - started == 7.0
