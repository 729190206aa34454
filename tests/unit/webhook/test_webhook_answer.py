"""The answer as bytes on a connection."""

import asyncio

import orjson

from tests.kit.values.webhook_server import build_webhook
from tests.unit.webhook.webhook_client import BODY, build_call, crowded


async def read(reader: asyncio.StreamReader) -> tuple[str, dict[str, str], bytes]:
    """The status line, the headers and the body of the next answer."""
    head = await reader.readuntil(b"\r\n\r\n")
    first, *lines = head.decode("ascii").removesuffix("\r\n\r\n").split("\r\n")
    headers = dict(line.split(": ", 1) for line in lines)
    return first, headers, await reader.readexactly(int(headers["Content-Length"]))


async def test_it_is_one_json_document_of_the_length_that_it_says() -> None:
    async with crowded(build_webhook()) as (crowd, _):
        reader, _ = await crowd.begin_call(BODY, len(BODY))
        first, headers, body = await read(reader)
    assert first == "HTTP/1.1 200 OK"
    assert headers["Content-Type"] == "application/json"
    assert orjson.loads(body)["kind"] == "AdmissionReview"


async def test_it_is_the_last_one_where_the_caller_wants_that() -> None:
    async with crowded(build_webhook()) as (crowd, _):
        reader, writer = await crowd.open()
        writer.write(build_call(BODY, "Connection: close"))
        _, headers, _ = await read(reader)
        assert headers["Connection"] == "close"
        assert await reader.read() == b""
