"""Serving the page until somebody ends it."""

import asyncio
import contextlib
import os
import signal
import sys
import webbrowser
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from gpushare.api.pruned.cluster import Cluster, Kind
from gpushare.cli.cluster.access import Access
from gpushare.cli.output.answer import print_note, print_text
from gpushare.cli.ui.background import run_aside
from gpushare.cli.ui.feed import Feed
from gpushare.cli.ui.server import PageServer
from gpushare.kube.auth.own_credentials import find_own_context
from gpushare.kube.client import ApiClient
from gpushare.kube.resources.clusters import read_cluster

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class LiveCluster:
    """The cluster, over one connection for as long as that works."""

    def __init__(self, access: Access) -> None:
        self._access = access
        self._api: ApiClient | None = None
        self._connection = contextlib.AsyncExitStack()

    async def read(self) -> Cluster:
        """All of it; raises what `Access.read` raises."""
        if self._api is None:
            connected = await self._access.connect()
            self._api = await self._connection.enter_async_context(connected)
        try:
            return await read_cluster(self._api, tuple(Kind), datetime.now(UTC))
        except Exception:
            # With the next reading the kubeconfig is read anew: somebody may have mended it.
            await self.close()
            raise

    async def close(self) -> None:
        """End the connection; the next reading opens another."""
        self._api = None
        await self._connection.aclose()


def show_page(access: Access, port: int, *, opens_browser: bool) -> None:
    """Serve the page until Ctrl-C or SIGTERM. Raises what `Access.read` raises at its first
    reading, and `CommandError` for a port that can't be had."""
    asyncio.run(_show(access, port, opens_browser=opens_browser))


async def _show(access: Access, port: int, *, opens_browser: bool) -> None:
    with contextlib.suppress(asyncio.CancelledError), _cancelled_by_signals():
        async with (
            _reading(access) as feed,
            PageServer(feed).listening(port) as address,
            _following(feed),
        ):
            print_text(f"{address.page}\n")
            print_note("Ctrl-C ends it.")
            if opens_browser and _has_desktop():
                # Some browsers have to be waited for.
                await run_aside(partial(webbrowser.open, address.ticket))
            await asyncio.Event().wait()


@contextlib.contextmanager
def _cancelled_by_signals() -> Iterator[None]:
    """Ctrl-C and SIGTERM cancel what runs in the block."""
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    assert task is not None
    for number in _SIGNALS:
        loop.add_signal_handler(number, task.cancel)
    try:
        yield
    finally:
        for number in _SIGNALS:
            loop.remove_signal_handler(number)


@contextlib.asynccontextmanager
async def _reading(access: Access) -> AsyncIterator[Feed]:
    """The feed of a snapshot, or of the cluster, which has been read once."""
    if access.snapshot is not None:
        yield await _load(access, access.snapshot)
        return
    # Who switches to another context meanwhile is not shown that one's cluster under this name.
    name = find_own_context(access.kubeconfig, access.context)
    access = replace(access, context=name or None)
    live = LiveCluster(access)
    try:
        yield await _begin(access, live)
    finally:
        await live.close()


async def _load(access: Access, snapshot: Path) -> Feed:
    def load() -> Feed:
        return Feed(f"snapshot {snapshot.name}", access.read_snapshot(snapshot))

    return await run_aside(load)


async def _begin(access: Access, live: LiveCluster) -> Feed:
    cluster = await live.read()
    return await run_aside(partial(Feed, access.find_source(), cluster, live.read))


@contextlib.asynccontextmanager
async def _following(feed: Feed) -> AsyncIterator[None]:
    following = asyncio.create_task(feed.follow())
    try:
        yield
    finally:
        following.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await following


def _has_desktop() -> bool:
    """Elsewhere a browser of text would take the terminal over."""
    if sys.platform in ("darwin", "win32"):
        return True
    return bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))
