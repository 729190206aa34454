"""What the webhook knows, and when it says that it does not."""

import asyncio

import pytest

from gpushare.api.k8s.namespace import Namespace
from gpushare.names import Reason
from gpushare.webhook import cache as memory_module
from gpushare.webhook.cache import NAMESPACES, POOLS, PoolCache, UnknownNamespaceError
from tests.kit.values.clock import Clock
from tests.kit.values.webhook_server import DEFAULT, INFERENCE, TRAINING, build_memory


def test_until_both_watches_have_listed_it_is_not_answered_from() -> None:
    cache = PoolCache(60.0, Clock())
    for unknown, kind in (("gpusharepools", POOLS), ("namespaces", NAMESPACES)):
        unsynced = cache.find_unsynced()
        assert unsynced is not None
        assert (unsynced.reason, unknown in str(unsynced)) == (Reason.NOT_SYNCED, True)
        cache.note_event(kind)
    assert cache.find_unsynced() is None


@pytest.mark.parametrize("silent", [POOLS, NAMESPACES])
def test_a_watch_that_fell_silent_is_not_believed_until_it_is_heard_of_again(silent: str) -> None:
    clock = Clock()
    cache = build_memory(clock=clock)
    clock.now += 61
    cache.note_event(NAMESPACES if silent == POOLS else POOLS)
    unsynced = cache.find_unsynced()
    assert unsynced is not None
    assert unsynced.reason is Reason.STALE_CACHE
    assert str(unsynced).startswith(f"the watch of {silent} has been silent for 61 s")
    cache.note_event(silent)
    assert cache.find_unsynced() is None


def test_pools_and_namespaces_come_and_go() -> None:
    cache = build_memory(pools=())
    cache.put_pool("training", None, TRAINING)
    cache.put_pool("inference", None, INFERENCE)
    assert set(cache.pools) == {TRAINING, INFERENCE}
    cache.put_pool("training", TRAINING, None)
    assert cache.pools == (INFERENCE,)
    assert cache.recall("default") == (DEFAULT, (INFERENCE,))
    cache.put_namespace("default", DEFAULT, None)
    with pytest.raises(UnknownNamespaceError, match="namespace default is not known yet"):
        cache.recall("default")


async def test_a_namespace_that_a_busy_api_server_tells_of_late_is_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cache = build_memory()
    waiting = asyncio.create_task(cache.wait_for_namespace("new"))
    await asyncio.sleep(0)
    loop = asyncio.get_running_loop()
    later = loop.time() + 1.5
    monkeypatch.setattr(loop, "time", lambda: later)
    for _ in range(3):
        await asyncio.sleep(0)
    cache.put_namespace("other", None, Namespace("other"))
    await asyncio.sleep(0)
    assert not waiting.done()
    cache.put_namespace("new", None, Namespace("new"))
    await waiting


async def test_a_namespace_that_does_not_come_is_not_waited_for_for_ever(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(memory_module, "NAMESPACE_SECONDS", 0.01)
    await build_memory().wait_for_namespace("nowhere")
