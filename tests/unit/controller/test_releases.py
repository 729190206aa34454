"""What is said of a node that is let go of, when nothing on it will say so any more."""

import asyncio
from typing import Any

import pytest

from gpushare.controller.apply import Applier
from gpushare.controller.caches import Caches
from gpushare.core.actions import ReleaseNode
from gpushare.core.observed import Timing
from gpushare.kube.events import Events
from gpushare.names import Reason
from gpushare.observe.metrics import Metrics
from gpushare.settings import Settings

Json = dict[str, Any]


class Api:
    """An API server with a node that carries nothing of ours."""

    def __init__(self) -> None:
        self.told: list[Json] = []

    async def get(self, path: str) -> Json:
        return {"metadata": {"name": "gpu-1", "uid": "uid-1", "resourceVersion": "1"}}

    async def create(self, path: str, body: Json) -> Json:
        self.told.append(body)
        return {}


@pytest.mark.parametrize("note", ["it stays cordoned: its last change failed", ""])
def test_a_node_that_is_left_cordoned_is_told_of_in_an_event(note: str) -> None:
    async def release(api: Api) -> None:
        metrics = Metrics()
        caches = Caches(
            api,  # type: ignore[arg-type]
            plugin_namespace="kube-system",
            on_change=lambda: None,
            metrics=metrics,
        )
        events = Events(api, "me")  # type: ignore[arg-type]
        applier = Applier(api, caches, Settings(), Timing(), metrics, events)  # type: ignore[arg-type]
        await applier.carry_out(
            ReleaseNode("gpu-1", "uid-1", note=note),
            pool="training",
            reason=Reason.LEAVING,
            is_wanted=lambda: True,
        )
        await asyncio.gather(*events._tasks)

    api = Api()
    asyncio.run(release(api))

    told = [(event["regarding"]["name"], event["note"]) for event in api.told]
    assert [name for name, _ in told] == (["gpu-1"] if note else [])
    assert all(note in text for _, text in told)
