"""Who holds the Lease: one that knows the cluster, and nobody else."""

from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from devcluster.kubeconfig import read_own_kubeconfig, write_service_account
from tests.kit.bench import Bench
from tests.kit.cluster.expect import expect
from tests.kit.cluster.operator_processes import CONTROLLER_LEASE, QUICK

Json = dict[str, Any]

_ACCOUNT = "half-a-controller"
_USER = f"system:serviceaccount:default:{_ACCOUNT}"
_RBAC = "/apis/rbac.authorization.k8s.io/v1"
_CONTROLLERS = "gpushare-controller"
LEASE_SECONDS = float(QUICK["GPUSHARE_LEASE_DURATION_SECONDS"])


@pytest.fixture
def half_a_right(bench: Bench) -> Iterator[Mapping[str, str]]:
    """Settings with the token of an account that may do all that a controller may, but to list
    pods."""
    accounts = "/api/v1/namespaces/default/serviceaccounts"
    bench.call("POST", accounts, {"metadata": {"name": _ACCOUNT}})
    role: Json = bench.call("GET", f"{_RBAC}/clusterroles/{_CONTROLLERS}")
    rules = [rule for rule in role["rules"] if "pods" not in rule["resources"]]
    bench.call("POST", f"{_RBAC}/clusterroles", {"metadata": {"name": _ACCOUNT}, "rules": rules})
    made = [f"{accounts}/{_ACCOUNT}", f"{_RBAC}/clusterroles/{_ACCOUNT}"]
    bindings: list[Json] = [
        *bench.call("GET", f"{_RBAC}/clusterrolebindings")["items"],
        *bench.call("GET", f"{_RBAC}/rolebindings")["items"],
    ]
    made += [
        _bind(bench, binding)
        for binding in bindings
        if any(subject["name"] == _CONTROLLERS for subject in binding.get("subjects", ()))
    ]
    token = bench.call("POST", f"{accounts}/{_ACCOUNT}/token", {"spec": {}})["status"]["token"]
    folder = bench.cluster.logs.parent / _ACCOUNT
    yield write_service_account(read_own_kubeconfig(bench.cluster.kubeconfig), folder, token=token)
    for path in made:
        bench.call("DELETE", path)


def _bind(bench: Bench, binding: Json) -> str:
    """Bind to our account what `binding` binds to the controller's; the path of what was made."""
    namespace = binding["metadata"].get("namespace")
    ref = binding["roleRef"]
    is_copied = ref["kind"] == "ClusterRole" and ref["name"] == _CONTROLLERS
    name = f"{_ACCOUNT}-{ref['name']}"
    folder = (
        f"{_RBAC}/namespaces/{namespace}/rolebindings"
        if namespace
        else f"{_RBAC}/clusterrolebindings"
    )
    body = {
        "metadata": {"name": name},
        "roleRef": {**ref, "name": _ACCOUNT} if is_copied else ref,
        "subjects": [{"kind": "ServiceAccount", "name": _ACCOUNT, "namespace": "default"}],
    }
    bench.call("POST", folder, body)
    return f"{folder}/{name}"


def read_holder(bench: Bench) -> str:
    holder: str = bench.call("GET", CONTROLLER_LEASE)["spec"]["holderIdentity"]
    return holder


def test_a_replica_that_may_not_list_pods_leaves_the_lease_to_one_that_may(
    bench: Bench, half_a_right: Mapping[str, str]
) -> None:
    mark = bench.audit.mark()
    bench.operators.start("controller", identity="half", env=half_a_right, wait=False)

    def is_refused() -> bool:
        calls = [call for call in bench.audit.calls(mark) if call.user == _USER]
        return any(c.resource == "pods" and c.code == 403 for c in calls) and any(
            # It is done with all else: Kopf comes last.
            c.resource == "gpusharepools" and c.verb == "watch"
            for c in calls
        )

    expect(bench, "it is refused the pods", is_refused)
    whole = bench.operators.start("controller", identity="whole")
    expect(
        bench,
        "the other holds the Lease",
        lambda: read_holder(bench) == whole.identity,
        within_seconds=LEASE_SECONDS,
    )
    claims = [
        call
        for call in bench.audit.calls(mark)
        if call.user == _USER and call.resource == "leases" and call.is_write
    ]
    assert claims == []
