"""Kopf's own way: its webhook server, its dispatch and a mutating handler, as kopf.run has them."""

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import kopf

# What kopf.run gives to its webhook server is in no public module, and kopf.run itself needs a
# cluster to observe. These are the parts of kopf/_core/reactor/running.py that a review passes.
from kopf._cogs.structs.ephemera import AnyMemo
from kopf._cogs.structs.references import Insights, Resource
from kopf._core.engines.admission import serve_admission_request
from kopf._core.engines.indexing import OperatorIndexers
from kopf._core.reactor.inventory import ResourceMemories

HANDLER = "mutate-pods"


def send(patch: kopf.Patch, **_: Any) -> None:
    """The constant patch of the floor, as a handler of Kopf writes it."""
    patch.spec["nodeSelector"] = {"gpushare.io/pool": "pool-00"}


@asynccontextmanager
async def serving(certificate: Path) -> AsyncIterator[int]:
    """Serve on 127.0.0.1 within the block, which gets the port."""
    # As in `kopf run`: two lines a call.
    kopf.configure(log_format=kopf.LogFormat.JSON)
    logging.getLogger("aiohttp.access").setLevel(logging.INFO)
    registry = kopf.OperatorRegistry()
    kopf.on.mutate("", "v1", "pods", id=HANDLER, operation="CREATE", registry=registry)(send)
    insights = Insights()
    insights.webhook_resources.add(
        Resource("", "v1", "pods", "Pod", namespaced=True, verbs=frozenset({"create", "watch"}))
    )
    answer = partial(
        serve_admission_request,
        settings=kopf.OperatorSettings(),
        registry=registry,
        insights=insights,
        memories=ResourceMemories(),
        memobase=AnyMemo(kopf.Memo()),
        indices=OperatorIndexers().indices,
    )
    server = kopf.WebhookServer(addr="127.0.0.1", certfile=certificate, pkeyfile=certificate)
    configs = server(answer)
    url = (await anext(configs))["url"]
    assert url is not None
    # It serves for as long as somebody iterates.
    yield int(url.rsplit(":", 1)[1].partition("/")[0])
