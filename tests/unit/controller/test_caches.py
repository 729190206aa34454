"""What a pass sees of the caches, however things came, and where a right is missing."""

import asyncio
from contextlib import suppress
from dataclasses import replace
from typing import Any

from gpushare.controller.caches import Caches
from gpushare.core.records import Step
from gpushare.observe.metrics import Metrics
from tests.kit.values.fake_api import FakeApi
from tests.kit.values.manifests import build_bound_pod
from tests.kit.values.node_plans import applied, under_way
from tests.kit.values.objects import MEMORY, a_gpu_pod, a_node

CONFIG_MAPS = "api/v1/namespaces/kube-system/configmaps"
NEEDED = (
    *("api/v1/nodes", "api/v1/pods", "api/v1/namespaces"),
    "apis/apps/v1/namespaces/kube-system/daemonsets",
)


async def test_without_the_right_to_config_maps_all_else_goes_on() -> None:
    fake = FakeApi(*NEEDED)
    fake.forbidden.add(CONFIG_MAPS)
    async with fake.connected() as api:
        metrics = Metrics()
        caches = Caches(
            api, plugin_namespace="kube-system", on_change=lambda: None, metrics=metrics
        )
        running = asyncio.create_task(caches.run())
        async with asyncio.timeout(20):
            await caches.wait_synced()
        assert caches.is_synced
        assert not caches.unhealthy.synced.is_set()
        assert b'{resource="nodes"}' in metrics.generate()
        # What was never heard of is not silent.
        assert b'{resource="configmaps"}' not in metrics.generate()
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running


def _build() -> Caches:
    api: Any = None
    return Caches(api, plugin_namespace="kube-system", on_change=lambda: None, metrics=Metrics())


def _order(*pods: str) -> list[str]:
    """The order in which a pass sees the pods of a node that came in this one."""
    caches = _build()
    for version, name in enumerate(pods, start=1):
        pod = build_bound_pod(name, "gpu-1", 3)
        pod["metadata"]["resourceVersion"] = str(version)
        caches.pods.offer(pod)
    world = caches.observe_world((), frozenset(), (), (), {}, (), {})
    return [pod.name for pod in world.pods["gpu-1"]]


def test_the_pods_of_a_node_are_in_one_order_however_they_came() -> None:
    assert _order("a", "b") == _order("b", "a") == ["a", "b"]


def test_a_zero_counts_for_the_restart_in_which_it_was_seen() -> None:
    caches, zeroed = _build(), []
    restarting = under_way(Step.RESTARTING)
    for records, offered in ((restarting, 0), (restarting, 15), (applied(), 15), (restarting, 15)):
        caches._on_node("gpu-1", None, a_node(records=records, allocatable={MEMORY: offered}))
        world = caches.observe_world((), frozenset(), (), (), {}, (), {})
        zeroed.append("gpu-1" in world.zeroed)
    assert zeroed == [True, True, False, False]


def test_a_pod_that_has_ended_waits_for_no_place() -> None:
    caches = _build()
    waits = a_gpu_pod(node="", phase="Pending")
    caches._on_pod("default/train-1", None, waits)
    assert caches.unplaced
    caches._on_pod("default/train-1", waits, replace(waits, phase="Failed"))
    assert not caches.unplaced
