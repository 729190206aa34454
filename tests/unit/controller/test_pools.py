"""The copy of all pools: events, answers and lists, in whichever order they come."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from gpushare import names
from gpushare.api.pool import Pool
from gpushare.api.status import Approval, NodeCounts, PoolPlan, PoolStatus
from gpushare.controller.pool_store import Pools
from gpushare.core.snapshot.node import Timing
from gpushare.kube.errors import ApiError
from gpushare.kube.events import Events
from tests.kit.values.found_clusters import build_found_pool
from tests.kit.values.manifests import Json

READY = PoolStatus(nodes=NodeCounts(matched=3, ready=3))


async def nothing() -> None:
    """What comes while a call is under way."""


class Server:
    """An API server with pools. `meanwhile` happens after a call and before its answer comes."""

    def __init__(self, *pool_names: str) -> None:
        self.version = 0
        self.pools: dict[str, Json] = {}
        self.down = False
        self.meanwhile: Callable[[], Awaitable[None]] = nothing
        for name in pool_names:
            self.store(name)

    def store(self, name: str, **parts: Any) -> Json:
        """Create or change a pool; the object, as an event shows it."""
        self.version += 1
        before = self.pools.get(name) or build_found_pool(name)
        metadata = {
            "finalizers": [names.FINALIZER],
            **before["metadata"],
            **parts.pop("metadata", {}),
            "resourceVersion": str(self.version),
        }
        self.pools[name] = before | parts | {"metadata": metadata}
        return self.pools[name]

    def delete(self, name: str) -> Json:
        """Delete a pool; the object, as the event shows it."""
        gone = self.store(name)
        del self.pools[name]
        return gone

    async def get(self, path: str, **params: str) -> Json:
        if self.down:
            raise ApiError(503, b"{}", what="list")
        answer = {
            "metadata": {"resourceVersion": str(self.version)},
            "items": list(self.pools.values()),
        }
        await self.meanwhile()
        return answer

    async def apply(self, path: str, body: Json) -> Json:
        name = body["metadata"]["name"]
        answer = self.store(name, status=body["status"])
        await self.meanwhile()
        return answer


class Copy(Pools):
    """The copy, which counts how often it asks for a pass."""

    def __init__(self, server: Server) -> None:
        self.wakes = 0
        events: Events = None  # type: ignore[assignment]
        super().__init__(server, events, Timing(), self._wake)  # type: ignore[arg-type]

    def _wake(self) -> None:
        self.wakes += 1

    async def pass_(self) -> list[str]:
        """A pass that lists."""
        self._list_at = 0.0
        await self.refresh()
        return [pool.name for pool in self.all]

    @property
    def only(self) -> Pool:
        (pool,) = self.all
        return pool


async def a_copy(*pool_names: str) -> tuple[Server, Copy]:
    """A server with pools, and a copy that has listed them."""
    server = Server(*pool_names)
    copy = Copy(server)
    await copy.pass_()
    copy.take_changed()
    return server, copy


@pytest.mark.parametrize("is_first", [True, False], ids=["echo first", "answer first"])
async def test_the_echo_of_our_status_causes_no_pass(is_first: bool) -> None:
    server, copy = await a_copy("a")

    async def echo() -> None:
        copy.take(server.pools["a"])

    if is_first:
        server.meanwhile = echo
    await copy.write_status(copy.only, READY)
    await echo()
    assert copy.wakes == 0
    await copy.pass_()
    assert copy.only.status == READY
    assert copy.take_changed() == set()


async def test_a_status_that_somebody_else_wrote_causes_a_pass() -> None:
    server, copy = await a_copy("a")
    await copy.write_status(copy.only, READY)
    copy.take(server.store("a", status={"nodes": {"ready": 7}}))
    assert copy.wakes == 1
    assert copy.take_changed() == {"a"}
    await copy.pass_()
    assert copy.only.status.nodes.ready == 7


async def test_a_spec_that_comes_with_the_answer_to_our_write_causes_a_pass() -> None:
    """Its own event is older than the answer, and would be taken for known."""
    server, copy = await a_copy("a")
    changed = server.store("a", metadata={"generation": 2})
    await copy.write_status(copy.only, READY)
    copy.take(changed)
    assert copy.wakes == 1
    await copy.pass_()
    assert (copy.only.generation, copy.only.status) == (2, READY)


async def test_an_agreement_causes_a_pass_once_it_is_stored() -> None:
    _, copy = await a_copy("a")
    agreed = PoolPlan(hash="1", approved=Approval(hash="1", kinds=("share -> cgpu",)))
    await copy.write_status(copy.only, PoolStatus(plan=agreed))
    assert copy.wakes == 1


async def test_a_pool_changes_for_the_next_pass_only() -> None:
    """A pass goes on with what it began with."""
    server, copy = await a_copy("a")
    copy.take(server.store("b"))
    assert copy.only.name == "a"
    assert await copy.pass_() == ["a", "b"]


async def test_a_deleted_pool_does_not_come_back_by_a_late_answer() -> None:
    server, copy = await a_copy("a")

    async def delete() -> None:
        copy.take(server.delete("a"), deleted=True)

    server.meanwhile = delete
    await copy.write_status(copy.only, READY)
    assert await copy.pass_() == []


async def test_what_events_say_during_a_list_is_newer_than_the_list() -> None:
    server, copy = await a_copy("gone", "changed")

    async def change() -> None:
        server.meanwhile = nothing
        copy.take(server.delete("gone"), deleted=True)
        copy.take(server.store("changed", metadata={"generation": 5}))
        copy.take(server.store("new"))

    server.meanwhile = change
    assert await copy.pass_() == ["changed", "new"]
    assert copy.all[0].generation == 5


async def test_the_successor_under_a_name_is_not_taken_for_the_pool_before() -> None:
    server, copy = await a_copy("a")
    before = server.delete("a")
    after = server.store("a", metadata={"uid": "another"})
    # Kopf takes each object's events in order, and no two objects'.
    copy.take(after)
    copy.take(before, deleted=True)
    await copy.pass_()
    assert copy.only.uid == "another"


async def test_a_list_finds_what_no_event_said_and_names_what_changed() -> None:
    server, copy = await a_copy("changed", "gone", "stays")
    server.delete("gone")
    server.store("changed", metadata={"generation": 2})
    server.store("new")
    assert await copy.pass_() == ["changed", "new", "stays"]
    assert copy.take_changed() == {"changed", "gone", "new"}


async def test_a_later_list_that_fails_holds_no_pass_up_and_is_told_of_when_it_fails_for_long() -> (
    None
):
    server, copy = await a_copy("a")
    server.down = True
    copy.take(server.store("b"))
    assert await copy.pass_() == ["a", "b"]
    assert copy.find_unsynced(-1.0) is not None
    server.down = False
    server.delete("b")
    assert await copy.pass_() == ["a"]
    assert copy.find_unsynced(-1.0) is None


async def test_a_list_of_a_restored_etcd_is_believed_later(monkeypatch: pytest.MonkeyPatch) -> None:
    server, copy = await a_copy("a", "b")
    server.delete("b")
    server.version = 1
    server.store("a", metadata={"generation": 0})
    server.version = 1
    assert await copy.pass_() == ["a", "b"]
    assert copy.must_retry
    monkeypatch.setattr("gpushare.controller.pool_store.BELIEVED_AFTER_SECONDS", 0.0)
    assert await copy.pass_() == ["a"]
    assert copy.only.generation == 0
    assert not copy.must_retry


async def test_a_list_that_fails_is_tried_again_and_told_of_when_it_fails_for_long() -> None:
    server = Server("a")
    copy = Copy(server)
    server.down = True
    for _ in range(2):
        with pytest.raises(ApiError):
            await copy.pass_()
    assert copy.find_unsynced(-1.0) is not None
    assert copy.find_unsynced(60.0) is None
    server.down = False
    assert await copy.pass_() == ["a"]
    assert copy.find_unsynced(-1.0) is None


async def test_a_pool_that_can_not_be_read_any_more_and_its_end_are_taken_in(
    caplog: pytest.LogCaptureFixture,
) -> None:
    server, copy = await a_copy("a")
    copy.tell = lambda *_, **__: None  # type: ignore[method-assign]
    copy.take(server.store("a", spec="none"))
    assert await copy.pass_() == []
    assert [pool.name for pool in copy.unreadable] == ["a"]
    wakes = copy.wakes
    copy.take(server.pools["a"])
    assert copy.wakes == wakes
    copy.take(server.delete("a"), deleted=True)
    await copy.pass_()
    assert copy.unreadable == ()
