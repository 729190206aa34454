"""The operator's own webhook server, with its pools in memory and no API server behind it."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from gpushare.core.admission import view_pool
from gpushare.observe.connections import shrink_read_buffers
from gpushare.observe.logs import configure_logs
from gpushare.settings import Settings
from gpushare.webhook.memory import NAMESPACES, POOLS, Memory
from gpushare.webhook.role import spare_collector
from tests.bench.admission.pools import build_raw_pool
from tests.kit.webhookserver import build_memory, build_webhook

_ALIVE_SECONDS = 10


@asynccontextmanager
async def serving(tls: ssl.SSLContext, pools: int) -> AsyncIterator[int]:
    """Serve on 127.0.0.1 within the block, which gets the port."""
    settings = Settings()
    configure_logs(settings.log_level)
    views = filter(None, (view_pool(build_raw_pool(number)) for number in range(pools)))
    memory = build_memory(views)
    server = build_webhook(memory, replicas=settings.webhook_replicas)
    # As its process does.
    shrink_read_buffers()
    spare_collector()
    async with (
        server.listening(tls, host="127.0.0.1", port=0) as port,
        asyncio.TaskGroup() as tasks,
    ):
        heard = tasks.create_task(_hear(memory))
        yield port
        heard.cancel()


async def _hear(memory: Memory) -> None:
    """What the watches of a quiet cluster do: they say that they are alive."""
    while True:
        memory.hear_of(POOLS)
        memory.hear_of(NAMESPACES)
        await asyncio.sleep(_ALIVE_SECONDS)
