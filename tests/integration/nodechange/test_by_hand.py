"""What people and other tools do to a node by hand, also while its isolation changes."""

import json
from http import HTTPStatus
from typing import Any

import pytest
import yaml

from devcluster import names
from devcluster.apiserver import ApiError
from tests.kit.bench import DAEMONSETS, NO_REPORT_SECONDS, NODES, SYSTEM_PODS, Bench
from tests.kit.cluster.expect import (
    expect,
    expect_isolated,
    expect_labels,
    expect_pool_ready,
    expect_reason,
    expect_running,
    expect_step,
    read_change,
)
from tests.kit.cluster.sharing_pools import (
    POOL,
    expect_each_restarted_once,
    expect_isolated_from_now_on,
    given_sharing_pool,
    place_pod,
    plugin_names,
    plugin_uids,
)
from tests.kit.values.manifests import build_pod, build_pool

Json = dict[str, Any]

MODE = "ack.node.gpu.schedule"
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
            "v": 1,
            "pool": "training",
            "edition": "Professional",
            "from": "share",
            "to": "share",
            "step": "Restarting",
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


def test_a_plugin_that_read_a_foreign_label_in_the_change_is_restarted_again(bench: Bench) -> None:
    given_sharing_pool(bench, "Professional", "n1")
    process = bench.operators.start(identity="first")
    bench.set_faults("n1", start_delay_seconds=60)
    bench.change_pool(schedule="cgpu")
    expect_step(bench, "n1", "Restarting")
    process.kill()
    bench.set_faults("n1")
    bench.label("n1", {MODE: "share"})
    for pod in bench.plugins().values():
        bench.call("DELETE", f"{SYSTEM_PODS}/{pod['metadata']['name']}?gracePeriodSeconds=0")

    def misread() -> bool:
        pods = bench.plugins().values()
        reads = [pod["metadata"]["annotations"].get(names.READ, "{}") for pod in pods]
        return any(json.loads(read).get("labels", {}).get(MODE) == "share" for read in reads)

    expect(bench, "a plugin has read share", misread)
    bench.operators.start(identity="first")

    expect_pool_ready(bench, nodes=1)
    expect_isolated_from_now_on(bench, ["n1"])


def test_a_node_that_is_uncordoned_by_hand_before_its_plugin_is_back_loses_no_pod(
    bench: Bench,
) -> None:
    given_sharing_pool(bench, "Professional", "n1")
    bench.set_faults("n1", start_delay_seconds=60, report_period_seconds=NO_REPORT_SECONDS)
    bench.change_pool(schedule="cgpu")
    expect_step(bench, "n1", "Restarting")

    bench.cordon("n1", on=False)
    expect(bench, "n1 is cordoned again", lambda: bench.node("n1")["spec"].get("unschedulable"))
    place_pod(bench, "patient", "n1")
    bench.set_faults("n1", report_period_seconds=NO_REPORT_SECONDS)

    expect_isolated(expect_running(bench, "patient"))
    expect_pool_ready(bench, nodes=1)


def test_a_mode_that_was_labelled_by_hand_while_nobody_watched_is_brought_about(
    bench: Bench,
) -> None:
    given_sharing_pool(bench, "Professional", "n1")
    bench.operators.end_all()
    before = plugin_names(bench)
    mark = bench.audit.mark()
    bench.label("n1", {MODE: "cgpu"})
    bench.change_pool(schedule="cgpu")

    bench.operators.standard()

    expect_pool_ready(bench, nodes=1)
    expect_each_restarted_once(bench, before, mark)
    expect_isolated_from_now_on(bench, ["n1"])


def test_isolation_that_was_only_unlabelled_by_hand_is_not_taken_for_gone(bench: Bench) -> None:
    given_sharing_pool(bench, "Professional", "n1")
    bench.change_pool(schedule="cgpu")
    expect_pool_ready(bench, nodes=1)
    bench.operators.end_all()
    bench.label("n1", {MODE: "share"})
    bench.change_pool(schedule="share")

    bench.operators.standard()

    expect_reason(bench, "n1", "RequiresTeardown")


def test_taking_the_pool_label_off_a_node_does_not_move_it(bench: Bench) -> None:
    bench.install("Professional")
    bench.operators.standard()
    bench.create_pool(build_pool("older", node_pool="elsewhere"))
    before = given_sharing_pool(bench, "Professional", "n1", node_pool="np1")
    older = {"selector": {"matchLabels": {"alibabacloud.com/nodepool-id": "np1"}}}
    bench.change_pool("older", nodes=older, schedule="cgpu")
    expect_reason(bench, "n1", "OwnedByOtherPool", pool="older")
    mark = bench.audit.mark()

    bench.label("n1", {POOL: None})

    expect_labels(bench, "n1", {POOL: "training", MODE: "share"})
    expect_pool_ready(bench, nodes=1)
    assert plugin_uids(bench) == before
    assert bench.audit.our_deletions(mark) == []


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


def test_a_node_that_serves_nothing_any_more_is_said_and_nothing_is_restarted(
    bench: Bench,
) -> None:
    given_sharing_pool(bench, "Professional", "n1")
    bench.set_faults("n1", plugin_never_ready=True)
    mark = bench.audit.mark()
    for name in plugin_names(bench):
        bench.call("DELETE", f"{SYSTEM_PODS}/{name}?gracePeriodSeconds=0")

    expect_reason(bench, "n1", "PluginRestarting")
    assert bench.audit.our_deletions(mark) == []
    bench.set_faults("n1")
    expect_pool_ready(bench, nodes=1)


def test_a_pod_that_requires_isolation_is_refused_where_there_is_none(bench: Bench) -> None:
    given_sharing_pool(bench, "Professional", "n1")
    pod = build_pod("strict", annotations={"gpushare.io/isolation": "required"})

    with pytest.raises(ApiError, match="IsolationUnavailable") as refusal:
        bench.create_pod(pod)

    assert refusal.value.status == HTTPStatus.FORBIDDEN
