"""The second look: what is bound by then decides."""

from datetime import UTC, datetime
from typing import Any

import pytest

from gpushare import names
from gpushare.core.actions import LookAgain
from gpushare.core.records import Step
from gpushare.names import Reason
from gpushare.settings import Settings
from tests.kit.values.node_plans import OURS, SHARE, under_way
from tests.unit.controller.reconcile_loop import carry_out

Json = dict[str, Any]
LATE: Json = {
    "metadata": {"namespace": "default", "name": "late", "uid": "1"},
    "spec": {
        "nodeName": "gpu-1",
        "containers": [{"resources": {"limits": {"aliyun.com/gpu-mem": "3"}}}],
    },
    "status": {"phase": "Pending"},
}


class Api:
    """A cordoned node, and what its pods are each time they are read."""

    def __init__(self, *looks: list[Json], unschedulable: bool = True):
        self.looks = list(looks)
        self.unschedulable = unschedulable
        self.applied: list[Json] = []

    async def get(self, path: str, **params: str) -> Json:
        if path == "api/v1/pods":
            assert params == {"fieldSelector": "spec.nodeName=gpu-1"}
            return {"items": self.looks.pop(0)}
        records = under_way(Step.CORDONED).annotations()
        labels = {**SHARE, **OURS}
        fields: Json = {"f:metadata": {"f:labels": {f"f:{key}": {} for key in labels}}}
        entry = {"manager": names.FIELD_MANAGER, "operation": "Apply", "fieldsV1": fields}
        metadata = {
            "name": "gpu-1",
            "uid": "1",
            "resourceVersion": "8",
            "labels": labels,
            "annotations": records,
            "managedFields": [entry],
        }
        return {"metadata": metadata, "spec": {"unschedulable": self.unschedulable}}

    async def apply(self, path: str, body: Json) -> Json:
        self.applied.append(body)
        return {**body, "metadata": {**body["metadata"], "resourceVersion": "9"}}


async def _look(api: Api, *, wanted: bool = True) -> list[Json]:
    settings = Settings(second_look_seconds=0)
    action, reason = LookAgain("gpu-1"), Reason.CORDONED
    await carry_out(api, action, reason=reason, settings=settings, wanted=wanted)
    return api.applied


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
