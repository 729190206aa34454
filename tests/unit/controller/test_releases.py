"""What is said of a node that is let go of, when nothing on it will say so any more."""

import pytest

from gpushare.core.snapshot.actions import ReleaseNode
from gpushare.kube.resources.nodes import PATH as NODES
from gpushare.names import Reason
from tests.unit.controller.reconcile_loop import LoopApi, carry_out


@pytest.mark.parametrize("note", ["it stays cordoned: its last change failed", ""])
async def test_a_node_that_is_left_cordoned_is_told_of_in_an_event(note: str) -> None:
    api, path = LoopApi(), f"{NODES}/gpu-1"
    api.objects[path] = {"metadata": {"name": "gpu-1", "uid": "uid-1", "resourceVersion": "1"}}
    await carry_out(api, ReleaseNode("gpu-1", "uid-1", note=note), reason=Reason.RELEASING)
    told = [(event["regarding"]["name"], event["note"]) for event in api.created]
    assert [name for name, _ in told] == (["gpu-1"] if note else [])
    assert all(note in text for _, text in told)
