"""The rights that the chart grants with all its switches on."""

import pytest
import yaml

from devcluster.installation import NAMESPACE, Installation
from tests.integration.install.uninstall_hook import POOLS_GO, render_hook
from tests.kit.bench import Bench
from tests.kit.cluster.rbac_rights import Right, list_rights

READS = {"get", "list", "watch"}


@pytest.fixture(scope="module")
def rights(installed: Bench) -> list[Right]:
    """With controller and webhook as two processes."""
    values = {"eviction.enabled": "true", "admissionPolicy.enabled": "true"}
    installation = Installation(installed.cluster, values, all_in_one=False, teardown_jobs=True)
    return list(list_rights(item for item in yaml.safe_load_all(installation.render()) if item))


def test_none_is_given_by_wildcard(rights: list[Right]) -> None:
    assert rights
    assert not [r for r in rights if "*" in r.verb + r.group + r.resource + r.name]


def test_of_nodes_nothing_is_created_deleted_or_replaced(rights: list[Right]) -> None:
    of_nodes = {(r.resource, r.verb) for r in rights if r.resource.startswith("nodes")}
    assert of_nodes == {("nodes", verb) for verb in (*READS, "patch")}


def test_secrets_are_those_of_the_installation(rights: list[Right]) -> None:
    for right in rights:
        if right.resource == "secrets":
            assert right.namespace == NAMESPACE
            # RBAC can't limit a creation by name.
            assert right.name == "gpushare-webhook-tls" or right.verb == "create"
            assert right.verb not in ("list", "watch", "delete")


def test_of_the_admission_tables_only_the_one_that_is_read_is_changed(rights: list[Right]) -> None:
    of_tables = {(r.verb, r.name) for r in rights if r.resource == "gpushareadmissiontables"}
    assert of_tables == {("create", ""), ("get", "pools"), ("patch", "pools")}


@pytest.mark.parametrize(
    ("resource", "verb"),
    [
        ("", "escalate"), ("", "bind"), ("", "impersonate"), ("", "deletecollection"),
        ("nodes/proxy", ""), ("pods/exec", ""), ("pods/attach", ""), ("pods", "create"),
        ("pods", "patch"), ("pods/ephemeralcontainers", ""), ("serviceaccounts/token", ""),
        ("validatingadmissionpolicies", ""), ("validatingadmissionpolicybindings", ""),
        ("mutatingadmissionpolicies", ""), ("mutatingadmissionpolicybindings", ""),
        ("clusterroles", ""), ("clusterrolebindings", ""), ("daemonsets", "patch"),
    ],
)  # fmt: skip
def test_none_leads_to_more_rights(rights: list[Right], resource: str, verb: str) -> None:
    assert not [r for r in rights if resource in ("", r.resource) and verb in ("", r.verb)]


@pytest.mark.parametrize(
    ("values", "verbs"),
    [(POOLS_GO, {"list", "delete"}), ({}, {"get", "list", "patch"})],
    ids=["pools go", "pools stay"],
)
def test_a_removal_reaches_pools_and_their_table_and_nothing_else(
    installed: Bench, values: dict[str, str], verbs: set[str]
) -> None:
    rights = list(list_rights(render_hook(installed, values)))
    of_table = [r for r in rights if r.resource == "gpushareadmissiontables"]
    assert {(r.name, r.verb) for r in of_table} == {("pools", "get"), ("pools", "delete")}
    of_pools = [r for r in rights if r not in of_table]
    assert {(r.group, r.resource) for r in of_pools} == {("gpushare.io", "gpusharepools")}
    assert {r.verb for r in of_pools} == verbs
    account = f"system:serviceaccount:{NAMESPACE}:gpushare-uninstall"
    assert all(r.users == {account} for r in rights)
