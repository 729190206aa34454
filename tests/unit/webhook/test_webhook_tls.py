"""TLS of the running webhook."""

from datetime import UTC, datetime

import aiohttp

from gpushare.certs.issue import issue_identity
from gpushare.webhook.certificates import load_identity
from tests.kit.values.certificates import HOST, build_tls
from tests.kit.values.webhook_server import build_webhook
from tests.unit.webhook.webhook_client import Crowd


async def read_certificate(crowd: Crowd) -> bytes:
    """What is shown on a new connection."""
    _, writer = await crowd.open()
    certificate: bytes = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    return certificate


async def test_a_new_certificate_holds_for_new_connections_and_cuts_none() -> None:
    server, trusting, authority = build_tls()
    webhook = build_webhook()
    async with (
        webhook.listening(server, host="127.0.0.1", port=0) as port,
        aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=trusting, limit=1)) as session,
    ):
        crowd = Crowd(port, trusting)
        assert await crowd.ask(session) == 200
        before = await read_certificate(crowd)
        load_identity(server, issue_identity(authority, (HOST, "127.0.0.1"), datetime.now(UTC)))
        assert await read_certificate(crowd) != before
        assert await crowd.ask(session) == 200
        crowd.disperse()
