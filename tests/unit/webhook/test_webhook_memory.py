"""What the webhook knows, and when it says that it does not."""

import asyncio

import pytest

from gpushare.api.namespace import Namespace
from gpushare.names import Reason
from gpushare.webhook import memory as memory_module
from gpushare.webhook.memory import NAMESPACES, POOLS, Memory
from tests.kit.values.clock import Clock
from tests.kit.values.webhook_server import DEFAULT, INFERENCE, TRAINING, build_memory


def find_reason(memory: Memory) -> Reason | None:
    gap = memory.find_gap()
    return None if gap is None else gap.reason


def test_until_both_watches_have_listed_it_is_not_answered_from() -> None:
    memory = Memory(60.0, Clock())
    assert find_reason(memory) is Reason.NOT_SYNCED
    memory.hear_of(POOLS)
    gap = memory.find_gap()
    assert gap is not None
    assert (gap.reason, gap.message) == (Reason.NOT_SYNCED, "namespaces are not known yet")
    memory.hear_of(NAMESPACES)
    assert memory.find_gap() is None


@pytest.mark.parametrize("silent", [POOLS, NAMESPACES])
def test_a_watch_that_fell_silent_is_not_believed_until_it_is_heard_of_again(silent: str) -> None:
    clock = Clock()
    memory = build_memory(clock=clock)
    clock.now += 61
    memory.hear_of(NAMESPACES if silent == POOLS else POOLS)
    gap = memory.find_gap()
    assert gap is not None
    assert gap.reason is Reason.STALE_CACHE
    assert gap.message.startswith(f"{silent} were last heard of 61 s ago")
    memory.hear_of(silent)
    assert memory.find_gap() is None


def test_pools_and_namespaces_come_and_go() -> None:
    memory = build_memory(pools=())
    memory.put_pool("training", None, TRAINING)
    memory.put_pool("inference", None, INFERENCE)
    assert set(memory.pools) == {TRAINING, INFERENCE}
    memory.put_pool("training", TRAINING, None)
    assert memory.pools == (INFERENCE,)
    assert memory.find_namespace("default") == DEFAULT
    memory.put_namespace("default", DEFAULT, None)
    assert memory.find_namespace("default") is None


async def test_a_namespace_that_a_busy_api_server_tells_of_late_is_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    memory = build_memory()
    waiting = asyncio.create_task(memory.wait_for_namespace("new"))
    await asyncio.sleep(0)
    loop = asyncio.get_running_loop()
    later = loop.time() + 1.5
    monkeypatch.setattr(loop, "time", lambda: later)
    for _ in range(3):
        await asyncio.sleep(0)
    memory.put_namespace("other", None, Namespace("other"))
    await asyncio.sleep(0)
    assert not waiting.done()
    memory.put_namespace("new", None, Namespace("new"))
    await waiting


async def test_a_namespace_that_does_not_come_is_not_waited_for_for_ever(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(memory_module, "NAMESPACE_SECONDS", 0.01)
    await build_memory().wait_for_namespace("nowhere")
