"""The floor: a bare aiohttp handler that parses the review and gives a constant answer."""

import base64
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import orjson
from aiohttp import web

_PATH = "/mutate-pods"
_PATCH = base64.b64encode(
    orjson.dumps(
        [{"op": "add", "path": "/spec/nodeSelector", "value": {"gpushare.io/pool": "pool-00"}}]
    )
).decode()
_MAX_BODY_BYTES = 8 * 2**20


async def answer(request: web.Request) -> web.Response:
    """Every pod is sent to the same pool; nothing is checked, decided, counted or logged."""
    review = orjson.loads(await request.read())
    response = {
        "uid": review["request"]["uid"],
        "allowed": True,
        "patchType": "JSONPatch",
        "patch": _PATCH,
    }
    envelope = {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "response": response,
    }
    return web.Response(body=orjson.dumps(envelope), content_type="application/json")


@asynccontextmanager
async def serving(tls: ssl.SSLContext) -> AsyncIterator[int]:
    """Serve on 127.0.0.1 within the block, which gets the port."""
    app = web.Application(client_max_size=_MAX_BODY_BYTES)
    app.router.add_post(_PATH, answer)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls).start()
    try:
        yield runner.addresses[0][1]
    finally:
        await runner.cleanup()
