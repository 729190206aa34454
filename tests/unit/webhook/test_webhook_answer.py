"""The answer as bytes on a connection, which the webhook writes without aiohttp's help."""

import asyncio
import re
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime

import orjson
import pytest

from gpushare.webhook.server import PODS_PATH
from tests.kit.values.certificates import build_tls
from tests.kit.values.manifests import build_gpu_pod, build_review, encode
from tests.kit.values.webhook_server import build_webhook

BODY = encode(build_review(build_gpu_pod()))


@dataclass
class Line:
    """A connection with the webhook, byte by byte."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    def ask(self, version: str = "1.1", *fields: str) -> None:
        head = (f"POST {PODS_PATH} HTTP/{version}", "Host: x", f"Content-Length: {len(BODY)}")
        call = "\r\n".join((*head, *fields, "", "")).encode() + BODY
        self.writer.write(call)

    async def read(self) -> tuple[str, dict[str, str], bytes]:
        """The status line, the headers and the body of the next answer."""
        head = await self.reader.readuntil(b"\r\n\r\n")
        first, *lines = head.decode("ascii").removesuffix("\r\n\r\n").split("\r\n")
        headers = dict(line.split(": ", 1) for line in lines)
        return first, headers, await self.reader.readexactly(int(headers["Content-Length"]))

    async def is_closed(self) -> bool:
        return await self.reader.read() == b""


@pytest.fixture
async def line() -> AsyncIterator[Line]:
    tls, trusting, _ = build_tls()
    async with build_webhook().listening(tls, host="127.0.0.1", port=0) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=trusting)
        yield Line(reader, writer)
        writer.transport.abort()


async def test_it_is_one_json_document_of_the_length_that_it_says(line: Line) -> None:
    line.ask()
    first, headers, body = await line.read()
    assert first == "HTTP/1.1 200 OK"
    assert set(headers) == {"Content-Type", "Content-Length", "Date"}
    assert headers["Content-Type"] == "application/json"
    assert re.fullmatch(r"\w{3}, \d\d \w{3} \d{4} \d\d:\d\d:\d\d GMT", headers["Date"])
    assert abs(parsedate_to_datetime(headers["Date"]) - datetime.now(UTC)) < timedelta(minutes=1)
    assert orjson.loads(body)["kind"] == "AdmissionReview"


@pytest.mark.parametrize(
    ("version", "fields"),
    [("1.1", ("Connection: close",)), ("1.0", ()), ("1.0", ("Connection: keep-alive",))],
)
async def test_it_is_the_last_one_where_the_caller_or_its_version_wants_that(
    line: Line, version: str, fields: tuple[str, ...]
) -> None:
    line.ask(version, *fields)
    _, headers, _ = await line.read()
    assert headers["Connection"] == "close"
    assert await line.is_closed()
