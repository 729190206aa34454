"""An API server with the webhook's configuration."""

from collections.abc import AsyncIterator

import pytest

from tests.unit.webhook.webhook_certificate import TlsApi, build_fake_api


@pytest.fixture
async def fake() -> AsyncIterator[TlsApi]:
    fake = build_fake_api()
    async with fake.connected() as fake.api:
        yield fake
