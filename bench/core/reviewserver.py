"""``python -m bench.core.reviewserver CERTIFICATE POOLS LOG [COMBINATIONS]``: one webhook server.

The server prints its port. With POOLS it is the operator's webhook without an API server, whose
pools publish COMBINATIONS of labels each; without pools it is a bare handler, the floor.
"""

import asyncio
import base64
import os
import ssl
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import orjson
from aiohttp import web

from bench.core.reviews import build_combinations
from gpushare.core.admission.pool_view import PoolView
from gpushare.core.capacity.node_labels import PUBLISHED_KEYS
from gpushare.observe.connections import shrink_read_buffers
from gpushare.observe.logs import configure_logs
from gpushare.settings import Settings
from gpushare.webhook.manager import spare_collector
from tests.kit.values.pool_views import CARD, a_room, a_view
from tests.kit.values.webhook_server import build_memory, build_webhook

_PATH = "/mutate-pods"
_PATCH = base64.b64encode(
    orjson.dumps(
        [{"op": "add", "path": "/spec/nodeSelector", "value": {"gpushare.io/pool": "pool-00"}}]
    )
).decode()
_MAX_BODY_BYTES = 8 * 2**20
_SCHEDULES = ("cgpu", "share", "core_mem")


async def _answer(request: web.Request) -> web.Response:
    """Assign every pod to the same pool, without checks, decisions, counts or logs."""
    review = orjson.loads(await request.read())
    response = {
        "uid": review["request"]["uid"],
        "allowed": True,
        "patchType": "JSONPatch",
        "patch": _PATCH,
    }
    kind = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview"}
    return web.Response(
        body=orjson.dumps({**kind, "response": response}), content_type="application/json"
    )


@asynccontextmanager
async def _serving_floor(tls: ssl.SSLContext) -> AsyncIterator[int]:
    app = web.Application(client_max_size=_MAX_BODY_BYTES)
    app.router.add_post(_PATH, _answer)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls).start()
    try:
        yield runner.addresses[0][1]
    finally:
        await runner.cleanup()


@asynccontextmanager
async def _serving_ours(tls: ssl.SSLContext, pools: int, combinations: int) -> AsyncIterator[int]:
    settings = Settings()
    configure_logs(settings.log_level)
    # Its clock stands, so that what it has heard of is never too old.
    views = (_build_view(number, combinations) for number in range(pools))
    memory = build_memory(views, clock=lambda: 0.0)
    server = build_webhook(memory, replicas=settings.webhook_replicas)
    # As its process does.
    shrink_read_buffers()
    spare_collector()
    async with server.listening(tls, host="127.0.0.1", port=0) as port:
        yield port


def _build_view(number: int, combinations: int) -> PoolView:
    """Build a pool of 400 cards, with a mode by its number."""
    room, published = a_room([(CARD - number % 4, 400)], cards=400), {}
    if combinations:
        listed = build_combinations(number, combinations)
        keys = tuple(sorted(PUBLISHED_KEYS))
        published = {"published_keys": keys, "combinations": listed, "is_open": False}
    name, mode = f"pool-{number:03}", _SCHEDULES[number % 3]
    return a_view(name, mode, nodes=100, priority=100, room=room, **published)


async def _main(certificate: Path, pools: int, log: Path, combinations: int = 0) -> None:
    os.dup2(os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND), sys.stderr.fileno())
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(certificate)
    ours = _serving_ours(tls, pools, combinations)
    async with ours if pools else _serving_floor(tls) as port:
        print(port, flush=True)
        await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(
        _main(Path(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]), *map(int, sys.argv[4:]))
    )
