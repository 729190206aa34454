"""The moment at which a write is held back: the last one before its bytes go to the socket."""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field

import pytest

from gpushare.kube.auth.credentials import Credentials
from gpushare.kube.client import JSON, ApiClient, connect
from gpushare.kube.errors import NotLeaderError
from tests.kit.values.certificates import build_tls
from tests.kit.values.fake_api import be_anybody

PATH = "api/v1/nodes/a"
BODY = {"metadata": {"uid": "1"}}
ANSWER = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"

Write = Callable[[ApiClient], Awaitable[object]]

WRITES: dict[str, Write] = {
    "apply": lambda api: api.apply(PATH, BODY),
    "create": lambda api: api.create("api/v1/nodes", BODY),
    "replace": lambda api: api.replace(PATH, BODY),
    "patch": lambda api: api.patch(PATH, BODY, content_type=JSON),
    "delete": lambda api: api.delete(PATH, uid="1"),
    "a long one": lambda api: api.replace(PATH, {"data": "x" * 900_000}),
}


@dataclass
class Front:
    """What stands in front of an API server: it sees every byte that comes."""

    on_handshake: Callable[[], object] = lambda: None
    """Called while a connection is being opened."""
    hangs_up_on: bytes = b"-"
    """A method; a request of it gets no answer."""
    on_request: Callable[[], object] = lambda: None
    """Called when the head of such a request is there."""
    received: list[bytes] = field(default_factory=list)
    """What came on each connection."""
    tasks: list[asyncio.Task[None]] = field(default_factory=list)
    """One for each connection."""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self.tasks.append(task)
        number = len(self.received)
        self.received.append(b"")
        with contextlib.suppress(ConnectionError):
            while chunk := await reader.read(2**16):
                self.received[number] += chunk
                if chunk.startswith(self.hangs_up_on):
                    self.on_request()
                    break
                if b"\r\n\r\n" in chunk:
                    writer.write(ANSWER)
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()

    @contextlib.asynccontextmanager
    async def connected(self) -> AsyncIterator[ApiClient]:
        tls, trusting, _ = build_tls()

        def note_handshake(_: ssl.SSLObject, name: str | None, context: ssl.SSLContext) -> None:
            self.on_handshake()

        tls.sni_callback = note_handshake
        server = await asyncio.start_server(self.serve, "127.0.0.1", 0, ssl=tls)
        async with server:
            host = f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}"
            async with connect(Credentials(host, trusting, be_anybody)) as api:
                yield api
            # A socket that is still open when the test ends is a warning.
            await asyncio.gather(*self.tasks)


class Held:
    """A Lease that is held until it lapses."""

    is_held = True

    def lapse(self) -> None:
        self.is_held = False

    def fence(self, api: ApiClient) -> ApiClient:
        return api.only_while(lambda: self.is_held)


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
async def test_a_write_whose_lease_lapses_while_it_connects_sends_nothing(write: Write) -> None:
    held = Held()
    front = Front(on_handshake=held.lapse)
    async with front.connected() as api:
        with pytest.raises(NotLeaderError, match="not sent"):
            await write(held.fence(api))
    assert front.received == [b""]


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
async def test_a_write_whose_lease_holds_is_sent(write: Write) -> None:
    front = Front()
    async with front.connected() as api:
        await write(Held().fence(api))
    assert len(front.received) == 1
    assert front.received[0]


async def test_a_write_that_is_sent_again_is_held_back_where_the_lease_lapsed_meanwhile() -> None:
    """aiohttp repeats by itself what a kept connection lost, where that does no harm."""
    held = Held()
    front = Front(hangs_up_on=b"PUT", on_request=held.lapse)
    async with front.connected() as api:
        await api.get(PATH)
        with pytest.raises(NotLeaderError, match="not sent"):
            await held.fence(api).replace(PATH, BODY)
    first, second = front.received
    assert b"PUT" in first
    assert second == b""
