"""The pages of `explain` for people, from snapshots: what is told of whom, and what is not."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gpushare import names
from gpushare.api.pool import Schedule
from gpushare.api.pruned.cluster import Cluster, Kind
from gpushare.cli.cluster.access import Access
from gpushare.cli.explain.pod_view import explain_pod
from tests.kit.values.found_clusters import Asked, build_found_cluster, build_found_pool
from tests.kit.values.manifests import Json, build_bound_pod, build_node, build_pod
from tests.kit.values.node_plans import SHARE, applied

SPACE = {"metadata": {"name": "default", "uid": "1"}}
READY = {"type": "Ready", "status": "False", "reason": "WouldChange", "message": ""}
TOLD = {
    "observedGeneration": 1,
    "conditions": [READY | {"lastTransitionTime": "2026-02-01T00:00:00Z"}],
}
NOT_TAKEN_ON = "no controller has adopted the pool"


@pytest.fixture
def explain(tmp_path: Path) -> Asked:
    return Asked(tmp_path, "explain")


def build_shown_pool(**more: Any) -> Json:
    return build_found_pool(nodes={"names": ["n1"]}, **more)


def test_a_pool_that_only_observes_is_taken_on_without_a_finalizer(explain: Asked) -> None:
    pool = build_shown_pool(reconcile="Observe")
    assert NOT_TAKEN_ON in explain("pool", "training", pools=[pool])
    told = {**pool, "status": TOLD}
    assert "Controller  " not in explain("pool", "training", pools=[told])
    assert explain.tell(build_found_cluster(pools=[told]), "pool", "training")["adopted"] is True


def test_any_other_pool_is_taken_on_by_its_finalizer(explain: Asked) -> None:
    pool = {**build_shown_pool(), "status": TOLD}
    assert NOT_TAKEN_ON in explain("pool", "training", pools=[pool])
    pool["metadata"]["finalizers"] = [names.FINALIZER]
    assert NOT_TAKEN_ON not in explain("pool", "training", pools=[pool])
    pool["metadata"]["deletionTimestamp"] = "2026-02-02T00:00:00Z"
    assert "  Deleted  0 nodes " in explain("pool", "training", pools=[pool])


def build_stale() -> dict[str, list[Json]]:
    """A node that shares, and a pod that came while it isolated."""
    pod = build_bound_pod("old", "n1", 4, card="0")
    record = applied(
        Schedule.SHARE, before=("pod-default-old",), admitted={"pod-default-old": "cgpu"}
    )
    node, notes = build_node("n1", gpus=1, total=15), record.annotations()
    fields: Json = {"f:metadata": {"f:annotations": {f"f:{key}": {} for key in notes}}}
    ours = {"manager": names.FIELD_MANAGER, "operation": "Apply", "fieldsV1": fields}
    node["metadata"] |= {"labels": SHARE, "annotations": notes, "managedFields": [ours]}
    node["status"]["nodeInfo"] = {"bootID": "boot-1"}
    return {"nodes": [node], "pods": [pod], "pools": [], "namespaces": [SPACE]}


def test_a_pod_is_told_that_its_isolation_is_of_a_former_mode(explain: Asked) -> None:
    stale = "c0 of pod default/old is isolated: admitted under cgpu, but the node is share"
    for named in (("pod", "old"), ("node", "n1")):
        assert re.search(rf"  Stale +{re.escape(stale)}\n", explain(*named, **build_stale()))
    placed = explain.tell(build_found_cluster(**build_stale()), "pod", "old")["placed"]
    assert placed["staleIsolation"] == [stale]


def test_a_pod_with_the_isolation_of_its_nodes_mode_is_told_nothing(explain: Asked) -> None:
    cluster = build_stale()
    del cluster["nodes"][0]["metadata"]["annotations"]
    assert "Stale" not in explain("pod", "old", **cluster)


def build_stuck(cards: int) -> dict[str, list[Json]]:
    """A pod of which two containers ask for memory, bound to a node of the open-source edition."""
    pod = build_bound_pod("stuck", "n1", 2, 3, card="0")
    pod["status"] = {"phase": "Pending"}
    node = build_node("n1", gpus=cards, total=15 * cards)
    node["metadata"]["labels"] = {"gpushare": "true"}
    return {"nodes": [node], "pods": [pod], "pools": [], "namespaces": [SPACE]}


def test_a_bound_pod_that_gets_no_card_is_told_why_it_does_not_start(explain: Asked) -> None:
    assert "  Trouble  SeveralContainersAsk: " in explain("pod", "stuck", **build_stuck(2))
    assert "Trouble" not in explain("pod", "stuck", **build_stuck(1))
    running = build_stuck(2)
    running["pods"][0]["status"] = {"phase": "Running"}
    assert "Trouble" not in explain("pod", "stuck", **running)


def test_a_pod_that_another_scheduler_bound_without_a_card_is_told_so(explain: Asked) -> None:
    pod = build_bound_pod("stuck", "n1", 8)
    pod["spec"]["schedulerName"] = "volcano"
    message = "unknown device id: no-gpu-has-8GiB-to-run"
    refused = {"reason": "RunContainerError", "message": message}
    waiting = {"name": "c0", "state": {"waiting": refused}}
    pod["status"] = {"phase": "Pending", "containerStatuses": [waiting]}
    cluster = {**build_stuck(2), "pods": [pod]}
    told = explain("pod", "stuck", **cluster)
    assert "  Trouble  NoCardAllocated: Scheduler volcano bound the pod without a card" in told
    pod["metadata"]["annotations"] = {"ALIYUN_COM_GPU_MEM_IDX": "0"}
    assert "NoCardAllocated" not in explain("pod", "stuck", **cluster)


def test_a_bound_pod_that_selects_a_hostname_keeps_its_card(explain: Asked) -> None:
    cluster = build_stuck(2)
    (pod,) = cluster["pods"]
    pod["metadata"]["annotations"]["gpushare.io/decision"] = '{"v":1,"reason":"NotRouted"}'
    pod["spec"]["nodeSelector"] = {"kubernetes.io/hostname": "n1"}
    said = explain("pod", "stuck", **cluster)
    assert "the pod selects a node by name" in said
    assert "reserves no card" not in said


@pytest.mark.parametrize("unread", [Kind.POOLS, Kind.NAMESPACES])
def test_where_pools_or_the_namespace_may_not_be_read_nothing_is_decided(
    monkeypatch: pytest.MonkeyPatch, unread: Kind
) -> None:
    def decide(cluster: Cluster) -> object:
        monkeypatch.setattr(Access, "read_about", lambda *asked: cluster)
        return explain_pod(Access(), "a", "default").document["decision"]

    pod = build_pod("a")
    pod["metadata"] |= {"namespace": "default", "uid": "1"}
    whole = build_found_cluster(pods=[pod], pools=[build_shown_pool()], namespaces=[SPACE])
    assert decide(whole) is not None
    parts: Json = {str(unread): (), "unread": {unread: "forbidden"}}
    assert decide(replace(whole, **parts)) is None
