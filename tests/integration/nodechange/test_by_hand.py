"""What people and other tools do to a node by hand, also while its isolation changes."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import yaml

from devcluster.editions import Edition
from gpushare.core.snapshot.node import Timing
from tests.kit.bench import MODE, NODES, Bench
from tests.kit.cluster.expect import (
    expect,
    expect_labels,
    expect_pool_ready,
    expect_quiet,
    expect_reason,
    expect_step,
)
from tests.kit.cluster.sharing_pools import given_sharing_pool, plugin_uids
from tests.kit.values.manifests import build_pool

CHANGE = "gpushare.io/change"
MODULE = "gpushare.io/module"


def test_a_record_that_somebody_else_wrote_too_is_removed_all_the_same(bench: Bench) -> None:
    given_sharing_pool(bench, "Professional", "n1")
    bench.set_faults("n1", start_delay_seconds=60)
    bench.change_pool(schedule="cgpu")
    expect_step(bench, "n1", "Restarting")
    mark = bench.audit.mark()
    kept = bench.node("n1")["metadata"]["annotations"][CHANGE]
    restored = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "n1", "annotations": {CHANGE: kept}},
    }
    bench.cluster.kubectl(
        *("apply", "--server-side", "--field-manager=backup", "-f", "-"),
        stdin=yaml.safe_dump(restored),
    )
    bench.set_faults("n1")

    expect_pool_ready(bench, nodes=1)
    expect(
        bench,
        "the record is gone",
        lambda: CHANGE not in bench.node("n1")["metadata"]["annotations"],
    )
    writes = [call for call in bench.audit.our_writes(mark) if call.resource == "nodes"]
    assert len(writes) < 10


@pytest.mark.parametrize("step", ["Cordoned", "Restarting"])
def test_a_node_whose_managed_fields_are_emptied_in_its_change_is_in_service_after_it(
    bench: Bench, step: str
) -> None:
    given_sharing_pool(bench, "Professional", "n1")
    bench.set_faults("n1", start_delay_seconds=60)
    bench.change_pool(schedule="cgpu")
    expect_step(bench, "n1", step)

    bench.call("PATCH", f"{NODES}/n1", {"metadata": {"managedFields": [{}]}})
    bench.set_faults("n1")

    expect_pool_ready(bench, nodes=1)
    expect(
        bench,
        "the node takes pods",
        lambda: not bench.node("n1")["spec"].get("unschedulable"),
    )
    # Another's cordon is that one's, and not taken for ours by what was written.
    bench.cluster.kubectl("cordon", "n1")
    bench.change_pool(placement="spread")
    expect_pool_ready(bench, nodes=1)
    assert bench.node("n1")["spec"]["unschedulable"]


@pytest.mark.parametrize("edition", ["Professional", "Basic"])
def test_a_node_whose_managed_fields_are_emptied_at_rest_is_taken_over_without_a_restart(
    bench: Bench, edition: Edition
) -> None:
    before = given_sharing_pool(bench, edition, "n1")
    labels = bench.labels()["n1"]
    looks_on_at = time.monotonic() + 1.1 * Timing().reread.total_seconds()
    expect(bench, "it has looked on", lambda: time.monotonic() > looks_on_at)

    bench.call("PATCH", f"{NODES}/n1", {"metadata": {"managedFields": [{}]}})

    def is_taken_over() -> bool:
        entries = bench.node("n1")["metadata"].get("managedFields", ())
        return "gpushare-operator" in [entry["manager"] for entry in entries]

    expect(bench, "the labels are the operator's", is_taken_over)
    expect_pool_ready(bench, nodes=1)
    assert (plugin_uids(bench), bench.labels()["n1"]) == (before, labels)
    assert MODULE not in bench.node("n1")["metadata"]["annotations"]


@contextmanager
def change_removed_by_policy(bench: Bench) -> Iterator[None]:
    """Within its block, the API server takes the record of a change out of each write."""
    api = "/apis/admissionregistration.k8s.io/v1"
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["UPDATE"]}
    has_it = f"has(object.metadata.annotations) && '{CHANGE}' in object.metadata.annotations"
    remove = f"JSONPatch{{op: 'remove', path: '/metadata/annotations/{CHANGE.replace('/', '~1')}'}}"
    policy = {
        "failurePolicy": "Fail",
        "reinvocationPolicy": "Never",
        "matchConstraints": {"resourceRules": [{**rule, "resources": ["nodes"]}]},
        "matchConditions": [{"name": "has-it", "expression": has_it}],
        "mutations": [{"patchType": "JSONPatch", "jsonPatch": {"expression": f"[{remove}]"}}],
    }
    kinds = {"mutatingadmissionpolicies": policy, "mutatingadmissionpolicybindings": {}}
    for kind, spec in kinds.items():
        spec = spec or {"policyName": "annotations"}
        bench.call("POST", f"{api}/{kind}", {"metadata": {"name": "annotations"}, "spec": spec})
    try:
        yield
    finally:
        for kind in kinds:
            bench.call("DELETE", f"{api}/{kind}/annotations")


def is_removed(bench: Bench, node: str) -> bool:
    """Whether the record is taken out of a write: the API server notices a policy some time after
    its creation and its deletion."""
    trial = {"metadata": {"annotations": {CHANGE: "{}"}}}
    answer = bench.call("PATCH", f"{NODES}/{node}?dryRun=All", trial)
    return CHANGE not in answer["metadata"]["annotations"]


def test_a_policy_that_removes_the_record_of_a_change_leaves_no_node_cordoned(
    bench: Bench,
) -> None:
    before = given_sharing_pool(bench, "Professional", "n1")
    with change_removed_by_policy(bench):
        expect(bench, "the policy is in force", lambda: is_removed(bench, "n1"))
        bench.change_pool(schedule="cgpu")
        expect_reason(bench, "n1", "RecordRemoved", CHANGE)
        expect(
            bench,
            "the node takes pods",
            lambda: not bench.node("n1")["spec"].get("unschedulable"),
        )
        expect_quiet(
            bench, "nothing more is written", lambda: bench.node("n1")["metadata"]["annotations"]
        )
        assert plugin_uids(bench) == before
    expect(bench, "the policy is no longer in force", lambda: not is_removed(bench, "n1"))
    bench.annotate(f"{NODES}/n1", {"gpushare.io/retry": "1"})
    expect_labels(bench, "n1", {MODE: "cgpu"})
    expect_pool_ready(bench, nodes=1)


def test_a_pool_that_was_restored_with_our_finalizer_can_be_deleted(bench: Bench) -> None:
    bench.operators.standard()
    pool = build_pool()
    pool["metadata"]["finalizers"] = ["gpushare.io/labels"]
    bench.create_pool(pool)
    expect_pool_ready(bench, nodes=0)
    mark = bench.audit.mark()

    bench.cluster.kubectl("delete", "gsp", "training", "--timeout=20s")

    writes = [call for call in bench.audit.our_writes(mark) if call.resource == "gpusharepools"]
    assert len(writes) < 5
