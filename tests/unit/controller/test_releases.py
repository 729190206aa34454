"""What is said of a node that is let go of, when nothing on it will say so any more."""

from typing import Any

import pytest

from gpushare.core.actions import ReleaseNode
from gpushare.names import Reason
from tests.unit.controller.reconcile_loop import carry_out

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
async def test_a_node_that_is_left_cordoned_is_told_of_in_an_event(note: str) -> None:
    api = Api()
    await carry_out(api, ReleaseNode("gpu-1", "uid-1", note=note), reason=Reason.LEAVING)
    told = [(event["regarding"]["name"], event["note"]) for event in api.told]
    assert [name for name, _ in told] == (["gpu-1"] if note else [])
    assert all(note in text for _, text in told)
