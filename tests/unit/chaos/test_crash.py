"""Which writes the crash matrix counts, and by what it knows them."""

import json

import pytest

from tests.chaos.crash import Write
from tests.kit.cluster.fault_proxy import Request

PLUGINS = {"gpushare-device-plugin-ds-x7k2p": "n1"}
APPLY = "/api/v1/nodes/n1?fieldManager=gpushare-operator&force=true"
POD = "/api/v1/namespaces/kube-system/pods/gpushare-device-plugin-ds-x7k2p"
POOL = "/apis/gpushare.io/v1alpha1/gpusharepools/training"
LABELLED = Write("n1", "nodes", "PATCH", "Labelled")


def build_request(method: str, target: str, *, step: str = "") -> Request:
    notes = {"gpushare.io/change": json.dumps({"phase": step})} if step else {}
    return Request(0.0, method, target, json.dumps({"metadata": {"annotations": notes}}).encode())


@pytest.mark.parametrize(
    ("request_", "write"),
    [
        (build_request("PATCH", APPLY, step="Labelled"), LABELLED),
        (build_request("PATCH", APPLY), Write("n1", "nodes", "PATCH", "")),
        (Request(0.0, "DELETE", POD), Write("n1", "pods", "DELETE", "Restarting")),
        (Request(0.0, "PATCH", POOL), Write("training", "gpusharepools", "PATCH", "")),
    ],
    ids=["apply", "end", "deletion", "pool"],
)
def test_a_write_is_known_by_its_object_and_step(request_: Request, write: Write) -> None:
    assert Write.parse(request_, PLUGINS) == write


@pytest.mark.parametrize(
    ("method", "target"),
    [
        ("GET", APPLY),
        ("PATCH", "/apis/gpushare.io/v1alpha1/gpusharepools/training/status?force=true"),
        ("POST", "/api/v1/namespaces/default/events"),
        ("PATCH", "/apis/events.k8s.io/v1/namespaces/default/events/n1.17"),
        ("PUT", "/apis/coordination.k8s.io/v1/namespaces/gpushare-system/leases/controller"),
        ("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"),
    ],
)
def test_readings_leases_events_and_statuses_do_not_count(method: str, target: str) -> None:
    assert Write.parse(Request(0.0, method, target), PLUGINS) is None
