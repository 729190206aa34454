"""Keeps what NVIDIA's DRA driver gives out, where the API server has resource.k8s.io."""

import asyncio
import logging
from collections import defaultdict
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from gpushare.api.k8s.dynamic_resources import ResourceSlice, allocates_cards, parse_resource_slice
from gpushare.api.k8s.pod import Pod
from gpushare.kube.client import ApiClient
from gpushare.kube.errors import CALL_FAILURES, describe_failure
from gpushare.kube.informer import Informer
from gpushare.kube.resources.dynamic_resources import OF_DRIVER, find_group_path
from gpushare.observe.metrics import Metrics

log = logging.getLogger(__name__)

DISCOVERY_SECONDS = 2.0
REFUSAL_SECONDS = 60.0
SLICE_GRACE_SECONDS = 150.0
"""A ResourceSlice that is gone may come back: the kubelet removes all of them when it starts, and
30 s after their driver left. Longer than two lists that are refused."""


class DynamicResources:
    """The ResourceSlices of the driver, and all ResourceClaims that are allocated.

    `on_change` is called with the name of a node whose slices changed, or a claim of its pods.
    Without the right to list slices none are known; without the right to list claims, each claim
    of a pod may hold cards.
    """

    def __init__(
        self,
        api: ApiClient,
        metrics: Metrics,
        *,
        on_change: Callable[[str], None],
    ):
        self._api = api
        self._metrics = metrics
        self._notify = on_change
        self._looked_for = asyncio.Event()
        """Set once it is known whether the API server serves them."""
        self.slice_informer: Informer[ResourceSlice] | None = None
        self.claim_informer: Informer[bool] | None = None
        self.slices: dict[str, set[str]] = {}
        """Names by node; those that are gone stay for a while."""
        self._slice_timers: dict[str, asyncio.TimerHandle] = {}
        self._claimants: defaultdict[str, dict[str, str]] = defaultdict(dict)
        """Nodes of the pods that have a claim, by the claim's `namespace/name` and by pod."""

    @property
    def informers(self) -> tuple[Informer[Any], ...]:
        """Informers of the resources that the API server serves, once that is known."""
        every = (self.slice_informer, self.claim_informer)
        return tuple(each for each in every if each is not None)

    @property
    def claims(self) -> Mapping[str, bool] | None:
        """Whether each allocated claim holds cards, by `namespace/name`; None where claims cannot
        be read."""
        if self.claim_informer is None:
            return {}
        return self.claim_informer.records if self.claim_informer.synced.is_set() else None

    def note_pod(self, key: str, old: Pod | None, new: Pod | None) -> None:
        """Note which claims a pod has."""
        for claim in old.claims if old is not None else ():
            self._claimants[claim].pop(key, None)
            if not self._claimants[claim]:
                del self._claimants[claim]
        if new is not None:
            for claim in new.claims:
                self._claimants[claim][key] = new.node

    async def run(self) -> None:
        """Keep them up to date where the API server serves them, which is found out once."""
        while True:
            try:
                path = await find_group_path(self._api)
                break
            except CALL_FAILURES as error:
                log.warning(
                    "ResourceSlices and ResourceClaims not looked for: %s", describe_failure(error)
                )
            await asyncio.sleep(DISCOVERY_SECONDS)
        if path is None:
            self._looked_for.set()
            return
        note = self._metrics.observe_watch
        self.slice_informer = Informer(
            self._api,
            f"{path}/resourceslices",
            parse_resource_slice,
            on_change=self._on_slice,
            on_alive=partial(note, "resourceslices"),
            params=OF_DRIVER,
            refusal_seconds=REFUSAL_SECONDS,
        )
        self.claim_informer = Informer(
            self._api,
            f"{path}/resourceclaims",
            allocates_cards,
            on_change=self._on_claim,
            on_alive=partial(note, "resourceclaims"),
            refusal_seconds=REFUSAL_SECONDS,
        )
        self._looked_for.set()
        await asyncio.gather(self.slice_informer.run(), self.claim_informer.run())

    async def wait_tried(self) -> None:
        """Wait until both were listed, or that failed, where they are served."""
        await self._looked_for.wait()
        for informer in self.informers:
            await informer.tried.wait()

    def _on_claim(self, key: str, old: bool | None, new: bool | None) -> None:
        for node in set(self._claimants.get(key, {}).values()):
            self._notify(node)

    def _on_slice(self, key: str, old: ResourceSlice | None, new: ResourceSlice | None) -> None:
        if (timer := self._slice_timers.pop(key, None)) is not None:
            timer.cancel()
        if new is not None:
            self.slices.setdefault(new.node, set()).add(key)
            self._notify(new.node)
        elif old is not None:
            loop = asyncio.get_running_loop()
            self._slice_timers[key] = loop.call_later(
                SLICE_GRACE_SECONDS, self._forget_slice, key, old.node
            )

    def _forget_slice(self, key: str, node: str) -> None:
        del self._slice_timers[key]
        on_node = self.slices[node]
        on_node.discard(key)
        if not on_node:
            del self.slices[node]
        self._notify(node)
