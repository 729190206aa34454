"""What people and other tools do to a node by hand, also while its isolation changes."""

import pytest
import yaml

from devcluster.editions import Edition
from tests.kit.bench import NODES, Bench
from tests.kit.cluster.expect import expect, expect_pool_ready, expect_step
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

    bench.call("PATCH", f"{NODES}/n1", {"metadata": {"managedFields": [{}]}})

    def is_taken_over() -> bool:
        entries = bench.node("n1")["metadata"].get("managedFields", ())
        return "gpushare-operator" in [entry["manager"] for entry in entries]

    expect(bench, "the labels are the operator's", is_taken_over)
    expect_pool_ready(bench, nodes=1)
    assert (plugin_uids(bench), bench.labels()["n1"]) == (before, labels)
    assert MODULE not in bench.node("n1")["metadata"]["annotations"]


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
