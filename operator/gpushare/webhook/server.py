"""The HTTPS server that the API server asks about pods. It calls nobody: it answers from memory."""

import asyncio
import contextlib
import logging
import ssl
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence

from aiohttp import web

from gpushare.api.namespace import Namespace
from gpushare.api.podrequest import MalformedPodError, parse_pod_request
from gpushare.core.admission import Decision, PoolView, decide
from gpushare.names import Reason
from gpushare.observe.metrics import Metrics
from gpushare.webhook.codec import (
    MalformedReviewError,
    Review,
    build_answer,
    parse_review,
    plan_patch,
)

log = logging.getLogger(__name__)

PATH = "/mutate-pods"
MAX_BODY_BYTES = 8 * 2**20
"""Above what etcd takes of an object (1.5 MiB), and what a review adds to it."""
BODY_SECONDS = 5.0
"""A body comes at once; the API server itself gives up after 3 s."""
DRAIN_SECONDS = 5.0
"""Requests under way get this long when the server stops; the API server waits 3 s for one."""

_LEVELS = {
    Reason.ROUTED: logging.INFO,
    Reason.ROUTED_WITHOUT_ISOLATION: logging.INFO,
    Reason.NO_ELIGIBLE_POOL: logging.WARNING,
    Reason.ISOLATION_UNAVAILABLE: logging.WARNING,
}

Pools = Callable[[], Sequence[PoolView] | None]
"""The pools of the cluster; None until they are known."""


class InFlight:
    """The requests under way.

    Waited for before aiohttp is told to stop: from then on it drops what clients still send of a
    request that has begun.
    """

    def __init__(self) -> None:
        self._count = 0
        self._none = asyncio.Event()
        self._none.set()
        self.stopping = False

    @contextlib.contextmanager
    def one(self) -> Iterator[None]:
        self._count += 1
        self._none.clear()
        try:
            yield
        finally:
            self._count -= 1
            if not self._count:
                self._none.set()

    async def drain(self) -> None:
        """Wait for the end of those that have begun, and close each connection behind its last."""
        self.stopping = True
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._none.wait(), DRAIN_SECONDS)


IN_FLIGHT = web.AppKey("in_flight", InFlight)


def build_app(pools: Pools, metrics: Metrics) -> web.Application:
    """The application: `POST /mutate-pods` takes an AdmissionReview.

    It answers 503 until `pools` are known, so that the webhook's failurePolicy decides: "no pool"
    out of an empty memory would be an answer. What is no review of a pod is a 400.
    """

    async def mutate_pods(request: web.Request) -> web.Response:
        with in_flight.one():
            try:
                async with asyncio.timeout(BODY_SECONDS):
                    body = await request.read()
            except TimeoutError:
                return web.Response(status=408, text="the body took too long\n")
            started = time.perf_counter()
            response, reason = _respond(body, pools())
            metrics.admissions.labels(reason).inc()
            metrics.admission_seconds.observe(time.perf_counter() - started)
        if in_flight.stopping:
            response.force_close()
        return response

    app = web.Application(client_max_size=MAX_BODY_BYTES)
    in_flight = app[IN_FLIGHT] = InFlight()
    app.router.add_post(PATH, mutate_pods)
    return app


@contextlib.asynccontextmanager
async def listening(
    app: web.Application, tls: ssl.SSLContext, *, host: str, port: int
) -> AsyncIterator[int]:
    """Serve `app` over TLS within the block, which gets the port; at its end, finish what is
    under way.

    `port` 0 takes a free one. A certificate loaded into `tls` meanwhile holds for the next
    connection. Raises OSError where the port is taken.
    """
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0)
    await runner.setup()
    try:
        site = web.TCPSite(runner, host, port, ssl_context=tls)
        await site.start()
        try:
            yield runner.addresses[0][1]
        finally:
            await site.stop()
            await app[IN_FLIGHT].drain()
    finally:
        await runner.cleanup()


def _respond(body: bytes, pools: Sequence[PoolView] | None) -> tuple[web.Response, Reason]:
    if pools is None:
        text = "pools are not known yet; try again\n"
        return web.Response(status=503, text=text), Reason.NOT_SYNCED
    try:
        review = parse_review(body)
        decision, patch = _decide(review, pools)
    except (MalformedReviewError, MalformedPodError) as error:
        log.warning("refused a malformed review: %s", error)
        return web.Response(status=400, text=f"{error}\n"), Reason.MALFORMED_REVIEW
    refusal = f"{decision.reason}: {decision.message}" if decision.is_refused else None
    answer = build_answer(review.uid, patch=patch, warnings=decision.warnings, refusal=refusal)
    log.log(
        _LEVELS.get(decision.reason, logging.DEBUG),
        "%s",
        decision.message,
        extra={"namespace": review.namespace, "pool": decision.pool, "reason": decision.reason},
    )
    return web.Response(body=answer, content_type="application/json"), decision.reason


def _decide(review: Review, pools: Sequence[PoolView]) -> tuple[Decision, list[dict[str, object]]]:
    if not review.creates_pod:
        return Decision(Reason.NOT_ROUTED, "not the creation of a pod"), []
    decision = decide(parse_pod_request(review.pod), Namespace(review.namespace), pools)
    if not decision.selector:
        return decision, []
    return decision, plan_patch(review.pod, dict(decision.selector))
