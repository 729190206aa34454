"""Granted minus used is what nobody needed, and nothing else."""

from dataclasses import replace

import pytest

from tests.kit.cluster.audit_log import THIEF, Call, find_held_back, find_missing_rights
from tests.kit.cluster.rbac_rights import Right, find_used, list_rights
from tests.kit.values.manifests import Json
from tests.unit.kit.calls import a_call

RULES = [
    {"apiGroups": [""], "resources": ["nodes"], "verbs": ["get", "patch"]},
    {"apiGroups": ["apps"], "resources": ["x"], "resourceNames": ["a", "b"], "verbs": ["get"]},
]


def build_objects(kind: str, rules: list[Json], **metadata: str) -> list[Json]:
    subject = {"kind": "ServiceAccount", "name": "gpushare-controller"}
    return [
        {"kind": "Service", "metadata": {"name": "s"}},
        {"kind": kind, "metadata": {"name": "r", **metadata}, "rules": rules},
        {
            "kind": f"{kind}Binding",
            "metadata": {"name": "any", **metadata},
            "roleRef": {"kind": kind, "name": "r"},
            "subjects": [{**subject, "namespace": "gpushare-system"}],
        },
    ]


def find_used_of(rights: list[Right], *calls: Call) -> list[str]:
    return sorted(map(str, find_used(rights, calls)))


@pytest.mark.parametrize(
    "other",
    [
        a_call("get", "nodes/status"),
        a_call("get", "nodes", group="metrics.k8s.io"),
        a_call("list", "nodes"),
        a_call("get", "nodes", user="kwok-admin"),
        a_call("get", "nodes", agent=THIEF),
    ],
    ids=["subresource", "group", "verb", "user", "thief"],
)
def test_a_call_of_another_kind_uses_no_right(other: Call) -> None:
    assert find_used_of(list(list_rights(build_objects("ClusterRole", RULES))), other) == []


def test_a_role_of_a_namespace_counts_only_there() -> None:
    rights = list(list_rights(build_objects("Role", RULES[:1], namespace="kube-system")))
    assert find_used_of(rights, a_call("get", "nodes", namespace="default")) == []
    assert find_used_of(rights, a_call("get", "nodes", namespace="kube-system")) == [
        "Role r in kube-system: get nodes"
    ]


def test_what_the_charts_policies_refuse_us_is_found_and_what_they_refuse_a_thief_is_not() -> None:
    said = "nodes 'n1' is forbidden: ValidatingAdmissionPolicy 'gpushare-controller-nodes' denied"
    ours = replace(a_call("patch", "nodes", name="n1"), message=said, code=403)
    others = replace(ours, message="ValidatingAdmissionPolicy 'under-maintenance' denied it")
    assert find_held_back([ours]) == {f"patch nodes n1: {said}"}
    assert find_held_back([replace(ours, agent=THIEF), others]) == set()


def test_what_nobody_may_create_in_a_namespace_that_ends_is_no_right_that_is_missing() -> None:
    lacking = replace(a_call("create", "events", namespace="a"), message="not allowed", code=403)
    ending = replace(lacking, message="namespace a ... because it is being terminated")
    assert find_missing_rights([ending]) == set()
    assert len(find_missing_rights([lacking])) == 1
