"""An API server with the webhook's configuration."""

from collections.abc import AsyncIterator

import pytest

from gpushare.kube.client import ApiServer
from tests.kit.values.fake_api import FakeApi
from tests.kit.values.webhook_certificate import build_fake_api


@pytest.fixture
def fake() -> FakeApi:
    return build_fake_api()


@pytest.fixture
async def api(fake: FakeApi) -> AsyncIterator[ApiServer]:
    async with fake.connected() as connected:
        yield connected
