"""Serves the proxy, over TLS with the control plane's own certificate, so that a kubeconfig needs
only the proxy's address."""

import asyncio
import contextlib
import re
import socket
import ssl
import threading
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from http import HTTPStatus
from typing import Self
from urllib.parse import unquote

import aiohttp
import orjson
from aiohttp import web
from yarl import URL

from devcluster.cluster import Cluster
from devcluster.kubeconfig import read_own_kubeconfig
from tests.kit.cluster.fault_proxy.rule import Request, Rule

_HOP_BY_HOP = frozenset(
    {"host", "connection", "transfer-encoding", "content-length", "content-encoding"}
)
_LONGEST_BODY = 16 * 2**20
_LONGEST_LINE = 2**20
_WAIT_SECONDS = 60
_BACKLOG = 128


@dataclass(eq=False)
class _Exchange:
    """A request that is being processed."""

    request: web.Request
    body: bytes
    received: Request
    silent: bool = False

    def reset(self) -> web.Response:
        """Reset the connection; the returned response is never sent."""
        if self.request.transport is not None:
            self.request.transport.abort()
        return web.Response()


class FaultProxy:
    """The proxy, which listens within its block in a thread."""

    def __init__(self, cluster: Cluster) -> None:
        server = read_own_kubeconfig(cluster.kubeconfig)["clusters"][0]["cluster"]
        pki = cluster.audit_log.parent.parent / "pki"
        self._upstream = URL(server["server"])
        self._trust = ssl.create_default_context(cafile=server["certificate-authority"])
        self._tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._tls.load_cert_chain(pki / "admin.crt", pki / "admin.key")
        self._rules: list[Rule] = []
        self._open: set[_Exchange] = set()
        self._loop = asyncio.new_event_loop()
        self._stopping = asyncio.Event()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run, name="fault proxy", daemon=True)
        self.url = ""
        self.requests: list[Request] = []
        """All requests, in order."""

    def add(self, rule: Rule) -> Rule:
        """Add a rule; earlier rules are applied first."""
        self._rules.append(rule)
        return rule

    def remove_all(self) -> None:
        """Remove all rules."""
        for rule in self._rules:
            rule.remove()
        self._rules = []

    def cut(self, path: str) -> None:
        """Reset the connections of matching open requests, mostly watches."""
        self._on_open(path, _Exchange.reset)

    def silence(self, path: str) -> None:
        """Stop the answers of matching open requests, also their ends. The connections stay, as if
        nothing happened."""

        def hush(exchange: _Exchange) -> None:
            exchange.silent = True

        self._on_open(path, hush)

    def matching(self, method: str, path: str, *, since: int = 0) -> list[Request]:
        """List the matching requests, from the `since`-th of all on."""
        return [request for request in self.requests[since:] if request.fits(method, path)]

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._ready.wait(_WAIT_SECONDS), "the proxy did not start"
        return self

    def __exit__(self, *raised: object) -> None:
        self.remove_all()
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
            connector=connector, timeout=timeout, auto_decompress=False, read_bufsize=_LONGEST_LINE
        ) as self._session:
            runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
            await runner.setup()
            async with self._accept(runner.server):
                self._ready.set()
                await self._stopping.wait()
            for connection in runner.server.connections if runner.server else ():
                # Closed politely, it would wait for an operator that may be dead.
                if connection.transport is not None:
                    connection.transport.abort()
            await runner.cleanup()

    @contextlib.asynccontextmanager
    async def _accept(self, server: web.Server | None) -> AsyncIterator[None]:
        """Listen within the block; close connections in their TLS handshake at its end. A site of
        aiohttp continues with them, and the loop would end with open sockets."""
        assert server is not None, "the runner is set up"
        loop, shaking = asyncio.get_running_loop(), set[asyncio.Task[None]]()

        async def shake_hands(accepted: socket.socket) -> None:
            # Who hangs up meanwhile is a client that was killed.
            with contextlib.suppress(OSError):
                await loop.connect_accepted_socket(server, accepted, ssl=self._tls)

        def accept() -> None:
            with contextlib.suppress(OSError):
                accepted, _ = listening.accept()
                accepted.setblocking(False)
                task = loop.create_task(shake_hands(accepted))
                shaking.add(task)
                task.add_done_callback(shaking.discard)
                task.add_done_callback(lambda task: accepted.close() if task.cancelled() else None)

        with socket.create_server(("127.0.0.1", 0), backlog=_BACKLOG) as listening:
            listening.setblocking(False)
            self.url = f"https://127.0.0.1:{listening.getsockname()[1]}"
            loop.add_reader(listening, accept)
            try:
                yield
            finally:
                loop.remove_reader(listening)
                for task in shaking:
                    task.cancel()
                await asyncio.gather(*shaking, return_exceptions=True)

    def _on_open(self, path: str, act: Callable[[_Exchange], object]) -> None:
        async def act_on_all() -> None:
            for exchange in list(self._open):
                if re.search(path, exchange.received.target):
                    act(exchange)

        asyncio.run_coroutine_threadsafe(act_on_all(), self._loop).result(_WAIT_SECONDS)

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        arrived, body = time.monotonic(), await request.read()
        received = Request(arrived, request.method, unquote(request.path_qs), body)
        self.requests.append(received)
        exchange = _Exchange(request, body, received)
        rule = next((rule for rule in list(self._rules) if rule.takes(received)), Rule("", ""))
        self._open.add(exchange)
        try:
            return await self._follow(rule, exchange)
        except ConnectionError:
            # Who asked is gone: killed, or it has closed its watch.
            return exchange.reset()
        finally:
            self._open.discard(exchange)

    async def _follow(self, rule: Rule, exchange: _Exchange) -> web.StreamResponse:
        if rule.hold:
            await asyncio.shield(asyncio.wrap_future(rule.released))
        if rule.before is not None:
            await asyncio.to_thread(rule.before)
            return exchange.reset()
        if rule.status is not None:
            return web.Response(
                status=rule.status,
                headers={"Content-Type": "application/json", **rule.headers},
                body=_build_status(rule.status) if rule.body is None else rule.body,
            )
        if rule.cut == "request":
            return exchange.reset()
        if rule.stall:
            await self._stopping.wait()
            return exchange.reset()
        return await self._forward(rule, exchange)

    async def _forward(self, rule: Rule, exchange: _Exchange) -> web.StreamResponse:
        request = exchange.request
        url = self._upstream.join(URL(request.path_qs, encoded=True))
        async with self._session.request(
            request.method,
            url.update_query(rule.query) if rule.query else url,
            data=exchange.body or None,
            headers={k: v for k, v in request.headers.items() if k.lower() not in _HOP_BY_HOP},
            allow_redirects=False,
        ) as answer:
            rule.answered = answer.status
            if rule.after is not None:
                await asyncio.to_thread(rule.after)
            if rule.cut == "answer":
                await answer.read()
                return exchange.reset()
            kept = {k: v for k, v in answer.headers.items() if k.lower() not in _HOP_BY_HOP}
            if encoding := answer.headers.get("Content-Encoding"):
                kept["Content-Encoding"] = encoding
            response = web.StreamResponse(status=answer.status, headers=kept)
            await response.prepare(request)
            exchange.silent |= rule.mute
            async for part in _read(answer, rule):
                if not exchange.silent:
                    await response.write(part)
            if exchange.silent:
                await self._stopping.wait()
            await response.write_eof()
        return response


async def _read(answer: aiohttp.ClientResponse, rule: Rule) -> AsyncIterator[bytes]:
    """Yield the answer as it arrives; by lines if the rule alters them, until it is removed."""
    if rule.alter is None:
        async for part in answer.content.iter_any():
            yield part
        return
    async for line in answer.content:
        altered = line if rule.removed else rule.alter(line)
        if altered is not None:
            yield altered


def _build_status(code: int) -> bytes:
    """Build a Status object as the API server does, with the `reason` that clients check."""
    reasons = {HTTPStatus.GONE: "Expired", HTTPStatus.TOO_MANY_REQUESTS: "TooManyRequests"}
    reason = reasons.get(HTTPStatus(code), HTTPStatus(code).phrase.replace(" ", ""))
    return orjson.dumps(
        {
            "kind": "Status",
            "apiVersion": "v1",
            "status": "Failure",
            "code": code,
            "reason": reason,
            "message": f"the proxy of the test answers {code}",
        }
    )
