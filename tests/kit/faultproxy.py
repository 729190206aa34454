"""A reverse proxy between the operator and the API server, in which a test makes things go wrong.

It speaks TLS with the control plane's own certificate, so a kubeconfig needs only its address.
"""

import asyncio
import re
import ssl
import threading
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self
from urllib.parse import unquote

import aiohttp
from aiohttp import web

from devcluster.cluster import Cluster
from devcluster.kubeconfig import read_own_kubeconfig

_HOP_BY_HOP = frozenset(
    {"host", "connection", "transfer-encoding", "content-length", "content-encoding"}
)
_LONGEST_BODY = 16 * 2**20
_WAIT_SECONDS = 60


@dataclass
class Rule:
    """What happens to the `nth` request whose method and path fit, and to no other."""

    method: str
    path: str
    """A regular expression, searched in path and query."""
    nth: int = 1
    hold: bool = False
    """Kept back until `release`."""
    delay_seconds: float = 0.0
    status: int | None = None
    """Answered so by the proxy; the API server never hears of it."""
    before: Callable[[], object] | None = None
    """Called instead of sending the request on: to kill who sent it."""
    after: Callable[[], object] | None = None
    """Called when the API server has answered, before the answer goes back."""
    seen: int = field(default=0, init=False)
    reached: threading.Event = field(default_factory=threading.Event, init=False)
    _released: threading.Event = field(default_factory=threading.Event, init=False)

    def wait_reached(self) -> None:
        """Until the request is here; AssertionError if it does not come."""
        assert self.reached.wait(_WAIT_SECONDS), f"no {self.method} {self.path} came by"

    def release(self) -> None:
        """Let the request go on."""
        self._released.set()

    def wait_released(self) -> None:
        self._released.wait(_WAIT_SECONDS)


class FaultProxy:
    """The proxy, listening within its block, in a thread of its own."""

    def __init__(self, cluster: Cluster) -> None:
        server = read_own_kubeconfig(cluster.kubeconfig)["clusters"][0]["cluster"]
        pki = cluster.audit_log.parent.parent / "pki"
        self._upstream: str = server["server"]
        self._trust = ssl.create_default_context(cafile=server["certificate-authority"])
        self._tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._tls.load_cert_chain(pki / "admin.crt", pki / "admin.key")
        self._rules: list[Rule] = []
        self._loop = asyncio.new_event_loop()
        self._stopping = asyncio.Event()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run, name="fault proxy", daemon=True)
        self.url = ""
        self.writes: list[tuple[str, str]] = []
        """Method and path of every request that was not a reading one, in order."""

    def add(self, rule: Rule) -> Rule:
        """From now on; rules added earlier are asked first."""
        self._rules.append(rule)
        return rule

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._ready.wait(_WAIT_SECONDS), "the proxy did not start"
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for rule in self._rules:
            rule.release()
        self._loop.call_soon_threadsafe(self._stopping.set)
        self._thread.join(_WAIT_SECONDS)

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._serve())

    async def _serve(self) -> None:
        app = web.Application(client_max_size=_LONGEST_BODY)
        app.router.add_route("*", "/{path:.*}", self._handle)
        connector = aiohttp.TCPConnector(ssl=self._trust, limit=0)
        timeout = aiohttp.ClientTimeout(total=None)
        async with aiohttp.ClientSession(
            connector=connector, timeout=timeout, auto_decompress=False, read_bufsize=2**20
        ) as self._session:
            runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
            await runner.setup()
            await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=self._tls).start()
            self.url = f"https://127.0.0.1:{runner.addresses[0][1]}"
            self._ready.set()
            await self._stopping.wait()
            for connection in runner.server.connections if runner.server else ():
                # Closed politely, it would wait for an operator that may be dead.
                if connection.transport is not None:
                    connection.transport.abort()
            await runner.cleanup()

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        target = unquote(request.path_qs)
        if request.method != "GET":
            self.writes.append((request.method, request.path))
        rule = self._find(request.method, target)
        if rule is None:
            return await self._forward(request, body)
        rule.reached.set()
        if rule.hold:
            await _in_thread(rule.wait_released)
        await asyncio.sleep(rule.delay_seconds)
        if rule.before is not None:
            await _in_thread(rule.before)
            return web.Response(status=503)
        if rule.status is not None:
            return web.json_response({"kind": "Status", "code": rule.status}, status=rule.status)
        return await self._forward(request, body, rule.after)

    def _find(self, method: str, target: str) -> Rule | None:
        for rule in self._rules:
            if rule.method == method and re.search(rule.path, target):
                rule.seen += 1
                if rule.seen == rule.nth:
                    return rule
        return None

    async def _forward(
        self, request: web.Request, body: bytes, after: Callable[[], object] | None = None
    ) -> web.StreamResponse:
        headers = {k: v for k, v in request.headers.items() if k.lower() not in _HOP_BY_HOP}
        url = f"{self._upstream}{request.path_qs}"
        async with self._session.request(
            request.method, url, data=body or None, headers=headers, allow_redirects=False
        ) as answer:
            kept = {k: v for k, v in answer.headers.items() if k.lower() not in _HOP_BY_HOP}
            if encoding := answer.headers.get("Content-Encoding"):
                kept["Content-Encoding"] = encoding
            if after is not None:
                await _in_thread(after)
            response = web.StreamResponse(status=answer.status, headers=kept)
            try:
                await response.prepare(request)
                async for chunk in answer.content.iter_any():
                    await response.write(chunk)
                await response.write_eof()
            except ConnectionError:
                # Who asked is gone: killed, or it has closed its watch.
                return response
        return response


def _in_thread(call: Callable[[], Any]) -> Coroutine[Any, Any, Any]:
    """Run what blocks without stopping the other requests."""
    return asyncio.to_thread(call)
