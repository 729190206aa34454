"""What people and other tools do to a node by hand, also while its isolation changes."""

import json

import yaml

from devcluster import names
from tests.kit.bench import DAEMONSETS, NODES, Bench
from tests.kit.cluster.expect import expect, expect_pool_ready, expect_step, read_change
from tests.kit.cluster.sharing_pools import given_sharing_pool
from tests.kit.values.manifests import build_pool

CHANGE = "gpushare.io/change"


def test_a_forged_record_makes_no_other_pod_a_victim(bench: Bench) -> None:
    given_sharing_pool(bench, "Professional", "n1")
    labels = {"app": "node-agent"}
    template = {
        "metadata": {"labels": labels, "annotations": {names.PLAYED: "true"}},
        "spec": {"containers": [{"name": "main", "image": "agent:1"}]},
    }
    spec = {"selector": {"matchLabels": labels}, "template": template}
    bench.call("POST", DAEMONSETS, {"metadata": {"name": "node-agent"}, "spec": spec})
    try:
        agent = expect(bench, "the agent is on n1", lambda: bench.plugins("node-agent").get("n1"))[
            "metadata"
        ]
        mark = bench.audit.mark()
        forged = {
            "v": 2,
            "pool": "training",
            "edition": "Professional",
            "from": "share",
            "to": "share",
            "phase": "Restarting",
            "since": "2026-01-01T00:00:00Z",
            "labelledAt": "2026-01-01T00:00:00Z",
            "restart": True,
            "plugins": [{"name": agent["name"], "uid": agent["uid"]}],
        }
        bench.annotate(f"{NODES}/n1", {CHANGE: json.dumps(forged)})

        expect(bench, "the forged record is gone", lambda: not read_change(bench.node("n1")))
        assert bench.audit.our_deletions(mark) == []
        assert bench.plugins("node-agent")["n1"]["metadata"]["uid"] == agent["uid"]
    finally:
        bench.call("DELETE", f"{DAEMONSETS}/node-agent")


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
