"""Who wrote a part of an object, by its managedFields."""

from typing import Any

import pytest

from gpushare.api.field_managers import find_writers

ARGO = {"annotations": {"argocd.argoproj.io/tracking-id": "team-a:gpushare.io/GPUSharePool:/t"}}
FLUX = {"labels": {"kustomize.toolkit.fluxcd.io/name": "team-b"}}


def an_entry(manager: str, time: str, *fields: str) -> dict[str, Any]:
    spec: dict[str, Any] = {f"f:{field}": {} for field in fields}
    return {"manager": manager, "time": time, "fieldsV1": {"f:spec": spec}}


def test_of_several_owners_of_a_field_the_latest_wrote_it() -> None:
    first = an_entry("kubectl", "2026-01-02T03:04:05Z", "schedule", "nodes")
    later = an_entry("terraform", "2026-01-02T04:04:05Z", "schedule")
    for entries in ([first, later], [later, first]):
        writers = find_writers({"managedFields": entries})
        assert writers == {"schedule": "terraform", "nodes": "kubectl"}


@pytest.mark.parametrize(
    ("manager", "marks", "writer"),
    [
        ("argocd-controller", ARGO, "argocd-controller (team-a)"),
        ("kustomize-controller", FLUX, "kustomize-controller (team-b)"),
        ("argocd-controller", {}, "argocd-controller"),
        ("kubectl-edit", {**ARGO, **FLUX}, "kubectl-edit"),
    ],
)
def test_a_deployment_tool_is_named_with_its_application(
    manager: str, marks: dict[str, Any], writer: str
) -> None:
    meta = {"managedFields": [an_entry(manager, "2026-01-02T03:04:05Z", "schedule")], **marks}
    assert find_writers(meta) == {"schedule": writer}


@pytest.mark.parametrize("entry", [{}, {"manager": "x"}, {"fieldsV1": {"f:status": {}}}])
def test_an_entry_without_a_spec_names_nobody(entry: dict[str, Any]) -> None:
    assert find_writers({"managedFields": [entry]}) == {}
