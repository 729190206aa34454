"""Several webhooks behind one address, as a Service has them."""

import asyncio
import contextlib
import itertools
from collections.abc import Iterator, Mapping, Sequence

from devcluster.installation import OperatorProcess
from devcluster.ports import is_free
from devcluster.relay import relay
from tests.kit.bench import Bench
from tests.kit.cluster.background_thread import Background
from tests.kit.cluster.operator_processes import wait_ready


class Forwarder(Background):
    """Listens on 127.0.0.1:`port` within its block; new connections go to the others in turn."""

    def __init__(self, port: int, backends: Sequence[int]) -> None:
        super().__init__("forwarder")
        self._port = port
        self._turns = itertools.cycle(backends)

    def _run(self) -> None:
        asyncio.run(self._serve())

    async def _serve(self) -> None:
        async with asyncio.TaskGroup() as tasks:

            def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
                forwarding.append(tasks.create_task(self._forward(reader, writer)))

            forwarding: list[asyncio.Task[None]] = []
            server = await asyncio.start_server(accept, "127.0.0.1", self._port)
            await asyncio.to_thread(self._leaving.wait)
            server.close()
            for task in forwarding:
                task.cancel()

    async def _forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.closing(writer), contextlib.suppress(OSError):
            connection = await asyncio.open_connection("127.0.0.1", next(self._turns))
            await relay((reader, writer), connection)


@contextlib.contextmanager
def two_webhooks(bench: Bench, env: Mapping[str, str]) -> Iterator[Sequence[OperatorProcess]]:
    """Run two `gpushare webhook` that the API server reaches by the configuration's address; the
    block begins when both are ready."""
    # From the end of the block of ports: probes take theirs from its beginning.
    free = [port for port in reversed(bench.cluster.ports.spare) if is_free(port)][:2]
    processes = [
        bench.operators.start(
            "webhook",
            identity=f"webhook-{port}",
            env={"GPUSHARE_WEBHOOK_PORT": str(port), **env},
            wait=False,
        )
        for port in free
    ]
    try:
        with Forwarder(bench.cluster.ports.webhook, free):
            for process in processes:
                wait_ready(process)
            yield processes
    finally:
        for process in processes:
            process.kill()
