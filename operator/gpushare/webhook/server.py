"""Serves AdmissionReviews of pods and workloads over HTTPS."""

import asyncio
import contextlib
import logging
import math
import ssl
import time
import traceback
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass

from aiohttp import web
from prometheus_client import Counter

from gpushare.api.k8s.pod_shape import MalformedPodError
from gpushare.names import Reason
from gpushare.observe.connections import Connections, Listener
from gpushare.observe.metrics import Metrics
from gpushare.webhook import readiness as readiness_call
from gpushare.webhook.cache import UndecidedError, UnknownNamespaceError
from gpushare.webhook.calls import BODY_SECONDS, Calls, CrowdedOutError
from gpushare.webhook.codec import MalformedReviewError
from gpushare.webhook.handler import AdmissionHandler, Answered

log = logging.getLogger(__name__)

PODS_PATH = "/mutate-pods"
WORKLOADS_PATH = "/warn-workloads"
MAX_BODY_BYTES = 8 * 2**20
"""Limit of a body: more than two objects of etcd's limit (1.5 MiB) and the rest of a review."""
LINGER_SECONDS = 1.0
"""Time for which the rest of a refused body is read, so that its sender gets the answer."""
IDLE_SECONDS = 180.0
"""Time until an idle connection is closed. The API server closes its own after 90 s (Go's
http.DefaultTransport), and may be about to use one that is closed here."""
LOG_SECONDS = 1.0
"""Time between two lines about failures of one kind, so that invalid calls do not fill the disk."""


class BodyTooLongError(ValueError):
    """The body is longer than 8 MiB."""


@dataclass(frozen=True)
class Question:
    """The handler and the metric of a path."""

    answer: Callable[[bytes], Answered]
    asked: Counter
    """Counts the path's calls by reason."""


class AdmissionServer:
    """Serves two paths for AdmissionReviews, and one for the check that the server is reachable.

    A body of more than 8 MiB is a 413, one that takes more than 5 s a 408, and an invalid review a
    400. Where too many calls wait, the one that has waited for longest is a 429. Where the cache
    can't answer it is a 503, so that the webhook's failurePolicy decides: "no pool" from an empty
    cache would be a wrong answer.
    """

    def __init__(self, handler: AdmissionHandler, metrics: Metrics, max_calls: int) -> None:
        self.calls = Calls(max_calls)
        self.connections = Connections()
        self._questions = {
            PODS_PATH: Question(handler.mutate_pod, metrics.admissions),
            WORKLOADS_PATH: Question(handler.warn_of_workload, metrics.workload_admissions),
        }
        self._wait_for_namespace = handler.wait_for_namespace
        self._observe_seconds = metrics.admission_seconds.observe
        self._logged: dict[Reason, float] = {}

    @contextlib.asynccontextmanager
    async def listening(self, tls: ssl.SSLContext, *, host: str, port: int) -> AsyncIterator[int]:
        """Serve over TLS within the block, which gets the port; then finish the calls under way.

        `port` 0 takes a free one. A certificate that is loaded into `tls` later is served to the
        next connection. Raises OSError where the port is taken.
        """
        listener = Listener(
            self.handle,
            self.connections,
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
        """Answer any request."""
        response = await self._respond(request)
        if response.status == 200:
            self.connections.note_answer(request.protocol)
        if self.calls.ending:
            response.force_close()
        return response

    async def _respond(self, request: web.BaseRequest) -> web.StreamResponse:
        # The API server adds the call's timeout as a query.
        path = request.raw_path.partition("?")[0]
        question = self._questions.get(path)
        if question is None:
            return (
                web.Response(text="ok\n")
                if path == readiness_call.PATH
                else web.Response(status=404)
            )
        if request.method != "POST":
            return web.Response(status=405, headers={"Allow": "POST"})
        return await self._answer(question, request)

    async def _answer(self, question: Question, request: web.BaseRequest) -> web.StreamResponse:
        try:
            document = await self._decide(question, request)
            return web.Response(body=document, content_type="application/json")
        except (MalformedReviewError, MalformedPodError) as error:
            return self._fail(question, 400, Reason.MALFORMED_REVIEW, str(error))
        except UndecidedError as error:
            return self._fail(question, 503, error.reason, f"{error}. Try again")
        except CrowdedOutError:
            text = "too many calls are waiting, and this one has waited longest"
            return self._fail(question, 429, Reason.TOO_MANY_CALLS, text)
        except TimeoutError:
            text = f"the body took longer than {BODY_SECONDS:g} s"
            return self._fail(question, 408, Reason.MALFORMED_REVIEW, text)
        except BodyTooLongError:
            text = f"the body is longer than {MAX_BODY_BYTES} bytes"
            return self._fail(question, 413, Reason.MALFORMED_REVIEW, text)
        except (web.RequestPayloadError, ConnectionError):
            return self._fail(question, 400, Reason.MALFORMED_REVIEW, "the body ended too soon")
        except Exception as error:
            _log_failure("a decision", error)
            question.asked.labels(Reason.INTERNAL_ERROR).inc()
            return web.Response(status=500, text="internal error; see the webhook's log\n")

    async def _decide(self, question: Question, request: web.BaseRequest) -> bytes:
        """Return the answer's body; time it from the received body on, since receiving depends on
        the sender."""
        body = await self._read(request)
        started = time.perf_counter()
        answered: Answered | None = None
        try:
            try:
                answered = question.answer(body)
            except UnknownNamespaceError as error:
                await self._wait_for(error.name, len(body))
                answered = question.answer(body)
            return answered.body
        finally:
            seconds = time.perf_counter() - started
            # In the next iteration of the loop: in this one the answer is written.
            asyncio.get_running_loop().call_soon(self._account, seconds, answered)

    def _account(self, seconds: float, answered: Answered | None) -> None:
        try:
            self._observe_seconds(seconds)
            if answered is not None:
                answered.account()
        except Exception as error:
            _log_failure("counting a decision", error)

    async def _read(self, request: web.BaseRequest) -> bytes:
        """Read the body. Raises `BodyTooLongError`, and errors of `Calls.waiting` and of a broken
        connection."""
        content = request.content
        if content.is_eof():
            # The body came with the headers, as reviews mostly do.
            return content.read_nowait()
        if (request.content_length or 0) > MAX_BODY_BYTES:
            raise BodyTooLongError
        chunks, length = [], 0
        with self.calls.waiting(content.set_exception) as wait:
            while chunk := await content.readany():
                self.calls.hold(wait, len(chunk))
                chunks.append(chunk)
                length += len(chunk)
                if length > MAX_BODY_BYTES:
                    raise BodyTooLongError
        return b"".join(chunks)

    async def _wait_for(self, namespace: str, body_bytes: int) -> None:
        """Return when the namespace is known, or the wait was ended."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(None) as limit:
                with self.calls.waiting(lambda _: limit.reschedule(0)) as wait:
                    self.calls.hold(wait, body_bytes)
                    await self._wait_for_namespace(namespace)

    def _fail(self, question: Question, status: int, reason: Reason, text: str) -> web.Response:
        question.asked.labels(reason).inc()
        now = time.monotonic()
        if now - self._logged.get(reason, -math.inf) >= LOG_SECONDS:
            self._logged[reason] = now
            log.warning("call not answered: %s", text, extra={"reason": reason})
        return web.Response(status=status, text=f"{text}\n")


def _log_failure(what: str, error: Exception) -> None:
    """Log an error's type and traceback, not its text, which may quote the pod."""
    where = "".join(traceback.format_tb(error.__traceback__))
    log.error("%s failed: %s\n%s", what, type(error).__name__, where)
