"""The second look: what is bound by then decides."""

from datetime import UTC, datetime

import pytest

from gpushare import names
from gpushare.core.snapshot.actions import RecheckPods
from gpushare.kube.resources.nodes import PATH as NODES
from gpushare.names import Reason
from gpushare.settings import Settings
from tests.kit.values.manifests import Json, build_bound_pod
from tests.kit.values.node_plans import OURS, SHARE
from tests.unit.controller.reconcile_loop import LoopApi, build_cordoned, carry_out

LATE = build_bound_pod("late", "gpu-1", 3, phase="Pending")


class Api(LoopApi):
    """A cordoned node, and what its pods are each time they are read."""

    def __init__(self, *looks: list[Json], unschedulable: bool = True):
        super().__init__()
        self.looks = list(looks)
        node = build_cordoned("gpu-1", {**SHARE, **OURS}, unschedulable=unschedulable)
        self.objects[f"{NODES}/gpu-1"] = node

    async def get(self, path: str, **params: str) -> Json:
        if path != "api/v1/pods":
            return await super().get(path)
        assert params == {"fieldSelector": "spec.nodeName=gpu-1"}
        return {"items": self.looks.pop(0)}


async def _look(api: Api, *, wanted: bool = True) -> list[Json]:
    settings = Settings(recheck_seconds=0)
    action, reason = RecheckPods("gpu-1"), Reason.CORDONED
    await carry_out(api, action, reason=reason, settings=settings, wanted=wanted)
    return [body for _, body in api.bodies]


@pytest.mark.parametrize("looks", [([LATE],), ([], [LATE])])
async def test_a_pod_in_either_look_makes_the_node_let_go(looks: tuple[list[Json], ...]) -> None:
    (written,) = await _look(Api(*looks))
    assert "spec" not in written
    assert written["metadata"]["labels"][names.LABEL_SCHEDULE] == "share"


async def test_two_looks_without_a_pod_lead_to_the_labels_under_the_cordon() -> None:
    api = Api([], [])
    before = datetime.now(UTC).isoformat(timespec="milliseconds")
    (written,) = await _look(api)
    assert api.looks == []
    assert written["spec"] == {"unschedulable": True}
    assert written["metadata"]["labels"][names.LABEL_SCHEDULE] == "cgpu"
    change = written["metadata"]["annotations"][names.ANNOTATION_CHANGE]
    assert change.split('"labelledAt":"')[1] >= before


@pytest.mark.parametrize(("wanted", "cordoned"), [(False, True), (True, False)])
async def test_what_changed_during_the_looks_is_decided_anew(wanted: bool, cordoned: bool) -> None:
    assert await _look(Api([], [], unschedulable=cordoned), wanted=wanted) == []
