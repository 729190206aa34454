"""The lock: one holder at a time, by every holder's own clock."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta

import pytest

from gpushare.kube.errors import ApiError
from gpushare.kube.leaderelection import LeaderElectionConfig, LeaderElector, LeaseLostError
from gpushare.settings import LONGEST_LEASE_SECONDS
from tests.kit.values.clock import Clock
from tests.kit.values.manifests import Json


class Store:
    """A Lease in an API server, with its optimistic locking."""

    def __init__(self) -> None:
        self.lease: Json | None = None
        self.version = 0
        self.down = False
        self.meanwhile: dict[str, Callable[[], Awaitable[object]]] = {}
        """What happens once during a call: before a reading, and before or after a write."""

    def _check(self) -> None:
        if self.down:
            raise ApiError(503, b"{}", what="lease")

    async def _wait(self, call: str) -> None:
        if call in self.meanwhile:
            await self.meanwhile.pop(call)()

    async def find(self, path: str) -> Json | None:
        self._check()
        await self._wait("get")
        if self.lease is None:
            return None
        return {**self.lease, "spec": dict(self.lease["spec"]), "version": self.version}

    async def get(self, path: str) -> Json:
        lease = await self.find(path)
        assert lease is not None
        return lease

    async def create(self, path: str, body: Json) -> None:
        self._check()
        if self.lease is not None:
            raise ApiError(409, b"{}", what="lease")
        self.lease = body
        await self._wait("create")

    async def replace(self, path: str, body: Json) -> None:
        self._check()
        await self._wait("before replace")
        if body["version"] != self.version:
            raise ApiError(409, b"{}", what="lease")
        self.version += 1
        self.lease = body
        await self._wait("replace")

    @property
    def holder(self) -> str:
        assert self.lease is not None
        holder: str = self.lease["spec"]["holderIdentity"]
        return holder


CLOCK = Clock()


def _lease(store: Store, identity: str) -> LeaderElector:
    terms = LeaderElectionConfig("ns", "lock", identity, duration_seconds=10, renew_seconds=0.001)
    return LeaderElector(store, terms, clock=CLOCK)  # type: ignore[arg-type]


async def _hold() -> tuple[Store, LeaderElector]:
    """A Lease, and its holder."""
    store = Store()
    lease = _lease(store, "a")
    await lease.acquire()
    return store, lease


async def _hold_lost() -> tuple[Store, LeaderElector]:
    """A Lease that another took over from its holder."""
    store, lease = await _hold()
    assert store.lease is not None
    store.lease["spec"]["holderIdentity"] = "b"
    return store, lease


async def test_one_that_could_not_use_it_leaves_it_to_others_until_it_can() -> None:
    store, gaps = Store(), iter(["pods are not known", "pods are not known", None])
    told: list[Json | None] = []

    def find_unsynced() -> str | None:
        told.append(store.lease)
        return next(gaps)

    lease = _lease(store, "a")
    await lease.acquire(find_unsynced)
    assert told == [None, None, None]
    assert store.holder == "a"


async def test_a_slow_answer_does_not_cut_the_holders_time_short() -> None:
    store, holder = await _hold()
    other = _lease(store, "b")

    async def renew() -> None:
        CLOCK.now += 5
        assert await holder._try()

    store.meanwhile["get"] = renew
    assert not await other._try()
    CLOCK.now += 6
    assert holder.is_held
    assert not await other._try()


async def test_a_holder_whose_answer_was_slow_stops_before_others_may_follow() -> None:
    store, holder = await _hold()
    other = _lease(store, "b")

    async def look() -> None:
        assert not await other._try()
        CLOCK.now += 4

    store.meanwhile["replace"] = look
    assert await holder._try()
    CLOCK.now += 3
    assert not holder.is_held
    CLOCK.now += 3
    assert await other._try()


@pytest.mark.parametrize("hours", [-1, 1])
async def test_the_time_that_another_replicas_clock_shows_neither_ends_its_term_nor_extends_it(
    hours: int,
) -> None:
    store, holder = await _hold()
    other = _lease(store, "b")
    for seconds in (1, 9, 9):
        assert await holder._try()
        assert store.lease is not None
        wrong = datetime.now(UTC) + timedelta(hours=hours, seconds=CLOCK.now)
        store.lease["spec"]["renewTime"] = wrong.isoformat()
        assert not await other._try()
        CLOCK.now += seconds
    CLOCK.now += 1
    assert await other._try()


async def test_a_restarted_process_of_the_same_name_takes_its_own_back_at_once() -> None:
    store, _ = await _hold()
    assert await _lease(store, "a")._try()


async def test_two_who_try_at_once_do_not_both_win() -> None:
    store = Store()
    await _lease(store, "old").acquire()
    one, two = _lease(store, "one"), _lease(store, "two")
    assert not await one._try()
    assert not await two._try()
    CLOCK.now += 10
    assert [await one._try(), await two._try()] == [True, False]


async def test_a_released_lease_is_free_at_once() -> None:
    store, lease = await _hold()
    await lease.release()
    assert not lease.is_held
    assert await _lease(store, "b")._try()


async def test_a_renewal_that_comes_in_between_does_not_keep_the_lease() -> None:
    store, lease = await _hold()

    async def renew() -> None:
        store.version += 1

    store.meanwhile["before replace"] = renew
    await lease.release()
    assert store.holder == ""


async def test_a_stop_does_not_wait_for_an_api_server_that_does_not_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("gpushare.kube.leaderelection.RELEASE_SECONDS", 0.01)
    store, lease = await _hold()
    store.meanwhile["get"] = asyncio.Event().wait
    await lease.release()
    assert not lease.is_held


@pytest.mark.parametrize("is_taken_over", [False, True])
async def test_a_claim_that_was_stored_but_not_answered_is_released_too(
    is_taken_over: bool,
) -> None:
    has_stored = asyncio.Event()

    async def answer_late() -> None:
        has_stored.set()
        await asyncio.Event().wait()

    store = Store()
    store.meanwhile["replace" if is_taken_over else "create"] = answer_late
    if is_taken_over:
        store.lease = {"spec": {"holderIdentity": "", "renewTime": "before"}}
    lease = _lease(store, "a")
    claiming = asyncio.create_task(lease.acquire())
    await has_stored.wait()
    assert store.holder == "a"
    claiming.cancel()
    await asyncio.gather(claiming, return_exceptions=True)
    await lease.release()
    assert store.holder == ""


async def test_nobody_waits_for_ever_however_long_a_lease_says_that_it_lasts() -> None:
    store = Store()
    spec = {"holderIdentity": "ghost", "leaseDurationSeconds": 2**31 - 1, "renewTime": "once"}
    store.lease = {"spec": spec}
    lease = _lease(store, "a")
    assert not await lease._try()
    CLOCK.now += LONGEST_LEASE_SECONDS - 1
    assert not await lease._try()
    CLOCK.now += 1
    assert await lease._try()


async def test_a_count_of_transitions_that_can_not_grow_keeps_nobody_out() -> None:
    store = Store()
    store.lease = {"spec": {"holderIdentity": "", "leaseTransitions": 2**31 - 1}}
    assert await _lease(store, "a")._try()
    assert store.lease["spec"]["leaseTransitions"] == 2**31 - 1


async def test_what_another_holds_is_not_released() -> None:
    store, lease = await _hold_lost()
    await lease.release()
    assert store.holder == "b"


async def test_a_holder_ends_when_another_took_over() -> None:
    _, lease = await _hold_lost()
    with pytest.raises(LeaseLostError, match="another controller"):
        await lease.keep()


async def test_a_holder_ends_when_it_could_not_renew_in_time() -> None:
    store, lease = await _hold()
    store.down = True
    CLOCK.now += 7
    with pytest.raises(LeaseLostError, match="7 s"):
        await lease.keep()


async def test_a_holder_ends_when_its_time_is_over_though_the_lease_is_still_its_own() -> None:
    store, lease = await _hold()

    async def write() -> None:
        store.version += 1
        CLOCK.now += 7

    store.meanwhile["before replace"] = write
    with pytest.raises(LeaseLostError):
        await lease.keep()


async def test_a_lease_goes_by_that_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = {time.CLOCK_BOOTTIME: 100.0}
    monkeypatch.setattr(time, "clock_gettime", seconds.__getitem__)
    terms = LeaderElectionConfig("ns", "lock", "a", duration_seconds=10, renew_seconds=0.001)
    lease = LeaderElector(Store(), terms)  # type: ignore[arg-type]
    await lease.acquire()
    seconds[time.CLOCK_BOOTTIME] += 6.9
    assert lease.is_held
    seconds[time.CLOCK_BOOTTIME] += 0.1
    assert not lease.is_held
