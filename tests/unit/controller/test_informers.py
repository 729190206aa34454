"""What a pass sees of the caches, however things came, and where a right is missing."""

import asyncio
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest

from gpushare.api.k8s.dynamic_resources import ResourceSlice
from gpushare.controller.informers import Informers
from gpushare.core.records.change_record import ChangePhase
from gpushare.observe.metrics import Metrics
from gpushare.settings import Settings
from tests.kit.values.fake_api import FakeApi
from tests.kit.values.manifests import build_bound_pod
from tests.kit.values.node_plans import applied, under_way
from tests.kit.values.objects import MEMORY, a_gpu_pod, a_node

NEEDED = (
    *("api/v1/nodes", "api/v1/pods", "api/v1/namespaces"),
    "apis/apps/v1/namespaces/kube-system/daemonsets",
    "api/v1/namespaces/gpushare-system/configmaps",
)


async def test_without_the_right_to_config_maps_all_else_goes_on() -> None:
    fake = FakeApi(*NEEDED)
    fake.forbidden.add("api/v1/namespaces/kube-system/configmaps")
    async with fake.connected() as api:
        metrics = Metrics()
        informers = Informers(api, Settings(), on_change=lambda: None, metrics=metrics)
        running = asyncio.create_task(informers.run())
        await informers.wait_synced()
        assert informers.find_unlisted() is None
        assert not informers.unhealthy.synced.is_set()
        assert b'{resource="nodes"}' in metrics.generate()
        # What was never heard of is not silent.
        assert b'{resource="configmaps"}' not in metrics.generate()
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running


SLICES = "apis/resource.k8s.io/v1/resourceslices"


@pytest.mark.parametrize("may_list", [True, False])
async def test_slices_are_watched_where_they_are_served_and_all_goes_on_without_the_right(
    may_list: bool,
) -> None:
    fake = FakeApi(*NEEDED, "api/v1/namespaces/kube-system/configmaps", SLICES)
    fake.put("apis/resource.k8s.io", {"versions": [{"version": "v1"}]})
    if not may_list:
        fake.forbidden.add(SLICES)
    async with fake.connected() as api:
        informers = Informers(api, Settings(), on_change=lambda: None, metrics=Metrics())
        running = asyncio.create_task(informers.run())
        await informers.wait_synced()
        slices = informers.dynamic.slice_informer
        assert slices is not None
        assert slices.synced.is_set() is may_list
        assert informers.dynamic.claims is None
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running


async def test_a_slice_that_is_gone_counts_for_a_while_as_it_may_come_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("gpushare.controller.dynamic_resources.SLICE_GRACE_SECONDS", 0.01)
    informers, found = _build(), ResourceSlice("gpu-1-a", "gpu-1")
    informers.dynamic._on_slice("gpu-1-a", None, found)
    informers.dynamic._on_slice("gpu-1-a", found, None)
    assert informers.take_changed() == {"gpu-1"}
    assert set(informers.observe().resource_slices["gpu-1"]) == {"gpu-1-a"}
    await asyncio.sleep(0.05)
    assert informers.take_changed() == {"gpu-1"}
    assert not informers.observe().resource_slices


async def test_a_slice_that_goes_again_counts_from_then_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    informers, found = _build(), ResourceSlice("gpu-1-a", "gpu-1")
    monkeypatch.setattr("gpushare.controller.dynamic_resources.SLICE_GRACE_SECONDS", 0.01)
    informers.dynamic._on_slice("gpu-1-a", found, None)
    monkeypatch.setattr("gpushare.controller.dynamic_resources.SLICE_GRACE_SECONDS", 600.0)
    informers.dynamic._on_slice("gpu-1-a", None, found)
    informers.dynamic._on_slice("gpu-1-a", found, None)
    await asyncio.sleep(0.05)
    assert informers.observe().resource_slices == {"gpu-1": {"gpu-1-a"}}


CLAIMS = "apis/resource.k8s.io/v1/resourceclaims"


async def test_what_a_claim_was_given_is_known_of_its_pod_and_its_node_is_decided_anew() -> None:
    fake = FakeApi(*NEEDED, "api/v1/namespaces/kube-system/configmaps", SLICES, CLAIMS)
    fake.put("apis/resource.k8s.io", {"versions": [{"version": "v1"}]})
    async with fake.connected() as api:
        informers = Informers(api, Settings(), on_change=lambda: None, metrics=Metrics())
        pod = a_gpu_pod(requests={}, claims=("default/claim",))
        informers._on_pod("default/train-1", None, pod)
        running = asyncio.create_task(informers.run())
        await informers.wait_synced()
        assert informers.observe().pods["gpu-1"][0].has_claimed_cards is None
        informers.take_changed()
        result = {"driver": "gpu.nvidia.com"}
        status = {"allocation": {"devices": {"results": [result]}}}
        meta = {"name": "claim", "namespace": "default", "resourceVersion": "7"}
        assert informers.dynamic.claim_informer is not None
        informers.dynamic.claim_informer.offer({"metadata": meta, "status": status})
        assert informers.take_changed() == {"gpu-1"}
        assert informers.observe().pods["gpu-1"][0].has_claimed_cards
        informers._on_pod("default/train-1", pod, None)
        assert not informers.dynamic._claimants
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running


def _build() -> Informers:
    api: Any = None
    return Informers(api, Settings(), on_change=lambda: None, metrics=Metrics())


def _order(*pods: str) -> list[str]:
    """The order in which a pass sees the pods of a node that came in this one."""
    informers = _build()
    for version, name in enumerate(pods, start=1):
        pod = build_bound_pod(name, "gpu-1", 3)
        pod["metadata"]["resourceVersion"] = str(version)
        informers.pods.offer(pod)
    snapshot = informers.observe()
    return [pod.name for pod in snapshot.pods["gpu-1"]]


def test_the_pods_of_a_node_are_in_one_order_however_they_came() -> None:
    assert _order("a", "b") == _order("b", "a") == ["a", "b"]


def test_a_zero_counts_for_the_restart_in_which_it_was_seen() -> None:
    informers, zeroed = _build(), []
    restarting = under_way(ChangePhase.RESTARTING)
    for records, offered in ((restarting, 0), (restarting, 15), (applied(), 15), (restarting, 15)):
        informers._on_node("gpu-1", None, a_node(records=records, allocatable={MEMORY: offered}))
        snapshot = informers.observe()
        zeroed.append("gpu-1" in snapshot.zeroed)
    assert zeroed == [True, True, False, False]


def test_a_pod_that_has_ended_waits_for_no_place() -> None:
    informers = _build()
    waits = a_gpu_pod(node="", phase="Pending")
    informers._on_pod("default/train-1", None, waits)
    assert informers.unschedulable_pods
    informers._on_pod("default/train-1", waits, replace(waits, phase="Failed"))
    assert not informers.unschedulable_pods


def test_a_change_of_a_node_that_is_not_relevant_is_taken_in_and_told_to_nobody() -> None:
    api: Any = None
    told: list[str] = []
    informers = Informers(
        api,
        Settings(),
        on_change=lambda: told.append("change"),
        is_relevant=lambda old, new: False,
        metrics=Metrics(),
    )
    for version in ("1", "2"):
        meta = {"name": "gpu-1", "uid": "1", "resourceVersion": version, "labels": {"v": version}}
        informers.nodes.offer({"metadata": meta})
    assert told == ["change"]
    assert informers.nodes.records["gpu-1"].labels == {"v": "2"}
