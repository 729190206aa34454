"""What the controller's caches do where it lacks a right that it can do without."""

import asyncio
from contextlib import suppress

from gpushare.controller.caches import Caches
from gpushare.observe.metrics import Metrics
from tests.kit.fakeapi import FakeApi

CONFIG_MAPS = "api/v1/namespaces/kube-system/configmaps"
NEEDED = (
    *("api/v1/nodes", "api/v1/pods", "api/v1/namespaces"),
    "apis/apps/v1/namespaces/kube-system/daemonsets",
)


async def test_without_the_right_to_config_maps_all_else_goes_on() -> None:
    fake = FakeApi(*NEEDED)
    fake.forbidden.add(CONFIG_MAPS)
    async with fake.connected() as api:
        caches = Caches(
            api, plugin_namespace="kube-system", on_change=lambda: None, metrics=Metrics()
        )
        running = asyncio.create_task(caches.run())
        async with asyncio.timeout(20):
            await caches.wait_synced()
        assert caches.is_synced
        assert not caches.unhealthy.synced.is_set()
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running
