"""The page's HTTP server: a few files and the state, behind a secret in the path."""

import asyncio
import contextlib
import hmac
import secrets
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from functools import partial
from importlib.resources import files

from aiohttp import web

from gpushare.cli.errors.failures import find_failure, report_failure
from gpushare.cli.exit_codes import CommandError, Exit
from gpushare.cli.ui.aside import run_aside
from gpushare.cli.ui.feed import Feed
from gpushare.cli.ui.guard import HEADERS, find_refusal
from gpushare.cli.ui.peer import is_own
from gpushare.cli.ui.split import tell_split
from gpushare.observe.connections import SILENT

ADDRESS = "127.0.0.1"
TICKET_SECONDS = 60.0
"""A ticket that is unused by then is void."""
_WHERE = "The terminal shows the address of the page"
_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}


@dataclass(frozen=True, slots=True)
class Address:
    """Address of the page."""

    page: str
    """URL for the user who ran the command; it holds the secret."""
    ticket: str
    """Leads to the page, once, and only programs of the same user: the command line by which a
    browser is started can be read by other users of the machine, who may be quicker than it."""


class PageServer:
    """Answers what passes `find_refusal` and knows the secret; all else is a 404 or a refusal.

    `options` of the command line name the cluster of the feed.
    """

    def __init__(self, feed: Feed, options: str = "") -> None:
        self._feed, self._options = feed, options
        self._splitting = asyncio.Lock()
        self._files = dict(_load_files())
        self._secret = secrets.token_urlsafe(24)
        self._ticket: str | None = secrets.token_urlsafe(24)
        self._ticket_ends = time.monotonic() + TICKET_SECONDS
        self._port = 0

    @contextlib.asynccontextmanager
    async def listening(self, port: int) -> AsyncIterator[Address]:
        """Serve within the block. `port` 0 takes a free one. Raises `CommandError` for a port that
        is not available."""
        server = web.Server(self._handle, access_log=None, logger=SILENT)
        runner = web.ServerRunner(server, shutdown_timeout=1.0)
        await runner.setup()
        try:
            try:
                await web.TCPSite(runner, ADDRESS, port).start()
            except OSError as error:
                raise CommandError(
                    Exit.FAILURE,
                    f"port {port} on {ADDRESS} is not available ({error.strerror}). Choose another "
                    "--port, or omit it for a free one",
                ) from error
            self._port = runner.addresses[0][1]
            origin = f"http://{ADDRESS}:{self._port}"
            yield Address(f"{origin}/{self._secret}/", f"{origin}/open/{self._ticket}")
        finally:
            await runner.cleanup()

    async def _handle(self, request: web.BaseRequest) -> web.Response:
        refusal = find_refusal(request.method, request.headers, self._port)
        if refusal is not None:
            status, text = refusal
            response = web.Response(status=status, text=f"{text}\n")
        else:
            response = await self._respond(request)
        response.headers.update(HEADERS)
        return response

    async def _respond(self, request: web.BaseRequest) -> web.Response:
        first, slash, rest = request.path.removeprefix("/").partition("/")
        if first == "open":
            return self._take_ticket(rest, request)
        if not hmac.compare_digest(first.encode(), self._secret.encode()):
            return web.Response(status=404, text=f"Not found. {_WHERE}\n")
        if not slash:
            # The page asks for its files beside itself.
            return self._lead_to_page()
        if rest == "state":
            return self._tell(request)
        if rest == "split":
            return await self._tell_split(request)
        name = rest or "index.html"
        if name not in self._files:
            return web.Response(status=404, text="Not found\n")
        suffix = name[name.rindex(".") :]
        return web.Response(body=self._files[name], headers={"Content-Type": _TYPES[suffix]})

    def _take_ticket(self, shown: str, request: web.BaseRequest) -> web.Response:
        if self._ticket is None or time.monotonic() > self._ticket_ends:
            text = f"This link works once, and was used or has expired. {_WHERE}\n"
            return web.Response(status=410, text=text)
        if not hmac.compare_digest(self._ticket.encode(), shown.encode()):
            return web.Response(status=404, text="Not found\n")
        if not _is_own(request):
            text = f"This link belongs to another user, or its user is unknown. {_WHERE}\n"
            return web.Response(status=403, text=text)
        self._ticket = None
        return self._lead_to_page()

    def _lead_to_page(self) -> web.Response:
        return web.Response(status=303, headers={"Location": f"/{self._secret}/"})

    def _tell(self, request: web.BaseRequest) -> web.Response:
        document, etag = self._feed.tell()
        if any(known.value == etag for known in request.if_none_match or ()):
            response = web.Response(status=304)
        else:
            response = web.Response(body=document, content_type="application/json")
        response.etag = etag
        return response

    async def _tell_split(self, request: web.BaseRequest) -> web.Response:
        # One at a time, whatever number of pages ask: it takes a processor for a while.
        async with self._splitting:
            if request.transport is None:
                return web.Response(status=408, text="Nobody waits for this split any more\n")
            work = partial(tell_split, self._feed.cluster, self._options, dict(request.query))
            try:
                body = await run_aside(work)
            except Exception as error:
                failure = find_failure(error)
                told = " ".join(str(failure or report_failure(error)).split())
                return web.Response(status=400 if failure else 500, text=f"{told}\n")
        return web.Response(body=body, content_type="application/json")


def _is_own(request: web.BaseRequest) -> bool:
    transport = request.transport
    if transport is None:
        return False
    return is_own(transport.get_extra_info("peername"), transport.get_extra_info("sockname"))


def _load_files() -> Iterator[tuple[str, bytes]]:
    for file in files("gpushare.cli.ui").joinpath("static").iterdir():
        if any(file.name.endswith(suffix) for suffix in _TYPES):
            yield file.name, file.read_bytes()
