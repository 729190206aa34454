"""Serving the page until somebody ends it."""

import asyncio
import contextlib
import os
import signal
import sys
import webbrowser
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime

from gpushare.api.cluster import Cluster, Kind
from gpushare.cli.access import Access
from gpushare.cli.output import print_remark, print_text
from gpushare.cli.ui.feed import Feed
from gpushare.cli.ui.server import PageServer
from gpushare.cli.ui.state import build_state
from gpushare.kube.client import ApiServer
from gpushare.kube.clusters import read_cluster

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class LiveCluster:
    """The cluster, over one connection for as long as that works."""

    def __init__(self, access: Access) -> None:
        self._access = access
        self._api: ApiServer | None = None

    async def read(self) -> Cluster:
        """All of it; raises what `Access.read` raises."""
        if self._api is None:
            self._api = await self._access.connect()
        try:
            return await read_cluster(self._api, tuple(Kind), datetime.now(UTC))
        except Exception:
            # With the next reading the kubeconfig is read anew: somebody may have mended it.
            await self.close()
            raise

    async def close(self) -> None:
        """End the connection; the next reading opens another."""
        if self._api is not None:
            api, self._api = self._api, None
            await api.__aexit__(None, None, None)


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
            print_remark("Ctrl-C ends it.")
            if opens_browser and _has_desktop():
                await asyncio.to_thread(webbrowser.open, address.ticket)
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
        cluster = access.read_snapshot(access.snapshot)
        yield Feed(f"snapshot {access.snapshot.name}", cluster, build_state(cluster))
        return
    live = LiveCluster(access)
    try:
        cluster = await live.read()
        yield Feed(access.find_source(), cluster, build_state(cluster), live.read)
    finally:
        await live.close()


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
