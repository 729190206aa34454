"""Serves the page until Ctrl-C."""

import asyncio
import contextlib
import os
import signal
import sys
import webbrowser
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial

from gpushare.api.pruned.cluster import STATE_KINDS, Cluster
from gpushare.cli.cluster.access import Access
from gpushare.cli.cluster.objects import read_cluster
from gpushare.cli.output.answer import print_note, print_text
from gpushare.cli.ui.aside import run_aside
from gpushare.cli.ui.feed import Feed
from gpushare.cli.ui.server import PageServer
from gpushare.cli.ui.use import PrometheusUse, UseFeed
from gpushare.cli.usage.prometheus_options import PrometheusOptions
from gpushare.kube.auth.kubeconfig import find_context
from gpushare.kube.client import ApiClient


class LiveCluster:
    """Reads the cluster, over one connection for as long as that works."""

    def __init__(self, access: Access) -> None:
        self._access = access
        self._api: ApiClient | None = None
        self._connection = contextlib.AsyncExitStack()

    async def read(self) -> Cluster:
        """Read all of it; raises what `Access.read` raises."""
        if self._api is None:
            connected = await self._access.connect()
            self._api = await self._connection.enter_async_context(connected)
        try:
            return await read_cluster(self._api, STATE_KINDS, datetime.now(UTC))
        except Exception:
            # With the next reading the kubeconfig is read again: it may be fixed by then.
            await self.aclose()
            raise

    async def aclose(self) -> None:
        """End the connection; the next reading opens another."""
        self._api = None
        await self._connection.aclose()


def show_page(
    access: Access, port: int, prometheus: PrometheusOptions | None, *, opens_browser: bool
) -> None:
    """Serve the page until Ctrl-C or SIGTERM; with `prometheus`, what pods use is on it. Raises
    what `Access.read` raises at its first reading, and `CommandError` for a port that is not
    available."""
    asyncio.run(_show(access, port, prometheus, opens_browser=opens_browser))


async def _show(
    access: Access, port: int, prometheus: PrometheusOptions | None, *, opens_browser: bool
) -> None:
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    assert task is not None
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, task.cancel)
    with contextlib.suppress(asyncio.CancelledError):
        async with _serving(access, prometheus) as server, server.listening(port) as address:
            print_text(f"{address.page}\n")
            print_note("Press Ctrl-C to stop")
            if opens_browser and _has_desktop():
                # Some browsers have to be waited for.
                await run_aside(partial(webbrowser.open, address.ticket))
            await asyncio.Event().wait()


@contextlib.asynccontextmanager
async def _serving(
    access: Access, prometheus: PrometheusOptions | None
) -> AsyncIterator[PageServer]:
    """Yield the server of a snapshot, or of the cluster, which has been read once."""
    if (snapshot := access.snapshot) is not None:
        cluster = await run_aside(partial(access.read_snapshot, snapshot))
        source, moment = f"snapshot {snapshot.name}", cluster.taken_at
        async with _reading_use(access, prometheus, moment) as use:
            feed = await run_aside(partial(Feed, source, cluster, use=use))
            async with contextlib.aclosing(feed):
                yield PageServer(feed, access.list_options())
        return
    # The context is fixed now: after a switch of the current context this page would show another
    # cluster under the same name.
    found = find_context(access.kubeconfig, access.context)
    access = replace(access, context=found.name if found else None)
    async with (
        contextlib.aclosing(LiveCluster(access)) as live,
        _reading_use(access, prometheus) as use,
    ):
        cluster = await live.read()
        feed = await run_aside(partial(Feed, access.find_source(), cluster, live.read, use))
        async with contextlib.aclosing(feed):
            yield PageServer(feed, access.list_options())


@contextlib.asynccontextmanager
async def _reading_use(
    access: Access, prometheus: PrometheusOptions | None, moment: datetime | None = None
) -> AsyncIterator[UseFeed | None]:
    """Yield what tells of use at `moment`, by default now; None without a Prometheus."""
    if prometheus is None:
        yield None
        return
    async with contextlib.aclosing(PrometheusUse(access, prometheus, moment)) as source:
        yield UseFeed(source.read, is_past=moment is not None)


def _has_desktop() -> bool:
    """Tell whether there is a desktop; without one, a text browser would take over the terminal."""
    if sys.platform in ("darwin", "win32"):
        return True
    return bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))
