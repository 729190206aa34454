"""The HTTPS server that the API server asks about pods and workloads."""

import asyncio
import contextlib
import functools
import logging
import math
import ssl
import time
import traceback
from collections.abc import AsyncIterator, Callable

from aiohttp import web

from gpushare.api.podshape import MalformedPodError
from gpushare.names import Reason
from gpushare.observe.metrics import Metrics
from gpushare.webhook import selfcall
from gpushare.webhook.admitter import Admitter, UndecidedError, UnknownNamespaceError
from gpushare.webhook.answer import Answer
from gpushare.webhook.calls import BODY_SECONDS, Calls, CrowdedOutError
from gpushare.webhook.codec import MalformedReviewError
from gpushare.webhook.connections import Connections, Listener
from gpushare.webhook.template import NoTemplateError

log = logging.getLogger(__name__)

PODS_PATH = "/mutate-pods"
WORKLOADS_PATH = "/warn-workloads"
MAX_BODY_BYTES = 8 * 2**20
"""Above what etcd takes of an object (1.5 MiB), twice, and what a review adds to it."""
LINGER_SECONDS = 1.0
"""What is left of a refused body is read for so long, so that its sender sees the answer."""
IDLE_SECONDS = 180.0
"""The API server closes a connection that was idle for 90 s (Go's http.DefaultTransport); one that
is closed here, it may be about to use."""
LOG_SECONDS = 1.0
"""Between two lines about failures of one kind: who sends nonsense must fill no disk."""

_SILENT = logging.Logger("http", logging.CRITICAL + 1)
"""aiohttp answers what is no HTTP with a 400, and logs it with a traceback that quotes it."""


class BodyTooLongError(ValueError):
    """A body of more than 8 MiB."""


class AdmissionServer:
    """Two paths take an AdmissionReview, and one says that it is served.

    A body of more than 8 MiB is a 413, one that takes more than 5 s a 408, and what is no review of
    a pod a 400. Where too many calls wait, the one that has waited longest is a 429. What memory
    does not tell is a 503, so that the webhook's failurePolicy decides: "no pool" out of an empty
    memory would be an answer.
    """

    def __init__(self, admitter: Admitter, metrics: Metrics, max_calls: int) -> None:
        self.calls = Calls(max_calls)
        self.connections = Connections()
        self._answers: dict[str, Callable[[bytes], bytes]] = {
            PODS_PATH: admitter.mutate_pod,
            WORKLOADS_PATH: admitter.warn_of_workload,
        }
        self._wait_for_namespace = admitter.wait_for_namespace
        self._count_failure = functools.cache(metrics.admissions.labels)
        self._observe_seconds = metrics.admission_seconds.observe
        self._logged: dict[Reason, float] = {}

    @contextlib.asynccontextmanager
    async def listening(self, tls: ssl.SSLContext, *, host: str, port: int) -> AsyncIterator[int]:
        """Serve over TLS within the block, which gets the port; at its end, finish the calls in
        hand.

        `port` 0 takes a free one. A certificate loaded into `tls` meanwhile holds for the next
        connection. Raises OSError where the port is taken.
        """
        listener = Listener(
            self.handle,
            self.connections,
            access_log=None,
            logger=_SILENT,
            keepalive_timeout=IDLE_SECONDS,
            lingering_time=LINGER_SECONDS,
            auto_decompress=False,
        )
        runner = web.ServerRunner(listener, shutdown_timeout=1.0)
        await runner.setup()
        try:
            site = web.TCPSite(runner, host, port, ssl_context=tls)
            await site.start()
            try:
                yield runner.addresses[0][1]
            finally:
                await site.stop()
                await self.calls.wait_none()
        finally:
            await runner.cleanup()

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """The answer to any request."""
        response = await self._respond(request)
        if response.status == 200:
            self.connections.note_answer(request.protocol)
        if self.calls.ending:
            response.force_close()
        return response

    async def _respond(self, request: web.BaseRequest) -> web.StreamResponse:
        # The API server adds the call's timeout as a query.
        path = request.raw_path.partition("?")[0]
        answer = self._answers.get(path)
        if answer is None:
            return web.Response(text="ok\n") if path == selfcall.PATH else web.Response(status=404)
        if request.method != "POST":
            return web.Response(status=405, headers={"Allow": "POST"})
        try:
            body = await self._read(request)
            try:
                answered = self._decide(answer, body)
            except UnknownNamespaceError as error:
                await self._wait_for(error.name, len(body))
                answered = self._decide(answer, body)
            return Answer(answered)
        except (MalformedReviewError, MalformedPodError, NoTemplateError) as error:
            return self._fail(400, Reason.MALFORMED_REVIEW, str(error))
        except UndecidedError as error:
            return self._fail(503, error.gap.reason, f"{error}; try again")
        except CrowdedOutError:
            text = "too many calls wait, and this one has waited longest"
            return self._fail(429, Reason.TOO_MANY_CALLS, text)
        except TimeoutError:
            text = f"the body took longer than {BODY_SECONDS:g} s"
            return self._fail(408, Reason.MALFORMED_REVIEW, text)
        except BodyTooLongError:
            text = f"the body is longer than {MAX_BODY_BYTES} bytes"
            return self._fail(413, Reason.MALFORMED_REVIEW, text)
        except (web.RequestPayloadError, ConnectionError):
            return self._fail(400, Reason.MALFORMED_REVIEW, "the body ended too soon")
        except Exception as error:
            # The error's own text may quote the pod.
            where = "".join(traceback.format_tb(error.__traceback__))
            log.error("a decision failed: %s\n%s", type(error).__name__, where)
            return web.Response(status=500, text="internal error; see the webhook's log\n")

    async def _read(self, request: web.BaseRequest) -> bytes:
        """The body. Raises `BodyTooLongError`, what `Calls.waiting` raises, and what a broken
        connection raises."""
        content = request.content
        if content.is_eof():
            # It came with its head, as reviews mostly do.
            return content.read_nowait()
        if (request.content_length or 0) > MAX_BODY_BYTES:
            raise BodyTooLongError
        chunks, length = [], 0
        with self.calls.waiting(content.set_exception) as wait:
            while chunk := await content.readany():
                wait.hold(len(chunk))
                chunks.append(chunk)
                length += len(chunk)
                if length > MAX_BODY_BYTES:
                    raise BodyTooLongError
        return b"".join(chunks)

    async def _wait_for(self, namespace: str, body_bytes: int) -> None:
        """Return when the namespace is known, or when it has been waited for long enough."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(None) as limit:
                with self.calls.waiting(lambda _: limit.reschedule(0)) as wait:
                    wait.hold(body_bytes)
                    await self._wait_for_namespace(namespace)

    def _decide(self, answer: Callable[[bytes], bytes], body: bytes) -> bytes:
        started = time.perf_counter()
        answered = answer(body)
        self._observe_seconds(time.perf_counter() - started)
        return answered

    def _fail(self, status: int, reason: Reason, text: str) -> web.Response:
        self._count_failure(reason).inc()
        now = time.monotonic()
        if now - self._logged.get(reason, -math.inf) >= LOG_SECONDS:
            self._logged[reason] = now
            log.warning("call not answered: %s", text, extra={"reason": reason})
        return web.Response(status=status, text=f"{text}\n")
