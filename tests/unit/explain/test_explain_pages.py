"""The pages of `explain` for people, from snapshots: what is told of whom, and what is not."""

import json
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from gpushare import names
from gpushare.api.cluster import Cluster, Kind, keep_object
from gpushare.api.pool import Schedule
from gpushare.cli.access import Access
from gpushare.cli.explainpods import explain_pod
from gpushare.cli.snapshots import build_snapshot
from tests.kit.cluster.command_line import run_command
from tests.kit.values.manifests import build_bound_pod, build_node, build_pod, build_pool
from tests.kit.values.node_plans import SHARE, applied

Json = dict[str, Any]
NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
TOLD: Json = {
    "observedGeneration": 1,
    "conditions": [
        {
            "type": "Ready", "status": "False", "reason": "WouldChange", "message": "",
            "lastTransitionTime": "2026-02-01T00:00:00Z",
        }
    ],
}  # fmt: skip
NOT_TAKEN_ON = "no controller has taken the pool on yet"


def build_found_pool(**spec: Any) -> Json:
    pool = build_pool(nodes={"names": ["n1"]}, schedule="share", **spec)
    pool["metadata"] |= {"uid": "p", "creationTimestamp": "2026-02-01T00:00:00Z", "generation": 1}
    return pool


class Explained:
    """What `explain` says of a cluster."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / "cluster.json"

    def __call__(self, *arguments: str, **kinds: list[Json]) -> str:
        given: dict[str, list[Json]] = {"pools": [], **kinds}
        given["namespaces"] = [{"metadata": {"name": "default", "uid": "1"}}]
        kept = {
            kind: tuple(raw for each in items if (raw := keep_object(Kind(kind), each)) is not None)
            for kind, items in given.items()
        }
        cluster = Cluster(NOW, **kept)  # type: ignore[arg-type]
        self._file.write_bytes(build_snapshot(cluster))
        ended = run_command("explain", *arguments, "--snapshot", str(self._file))
        assert (ended.code, ended.err) == (0, ""), ended
        return ended.out


@pytest.fixture
def explain(tmp_path: Path) -> Explained:
    return Explained(tmp_path)


def test_a_pool_that_only_observes_is_taken_on_without_a_finalizer(explain: Explained) -> None:
    pool = build_found_pool(reconcile="Observe")
    assert NOT_TAKEN_ON in explain("pool", "training", pools=[pool])
    told = {**pool, "status": TOLD}
    assert "Controller  " not in explain("pool", "training", pools=[told])
    assert json.loads(explain("pool", "training", "-o", "json", pools=[told]))["adopted"] is True


def test_any_other_pool_is_taken_on_by_its_finalizer(explain: Explained) -> None:
    pool = {**build_found_pool(), "status": TOLD}
    assert NOT_TAKEN_ON in explain("pool", "training", pools=[pool])
    pool["metadata"]["finalizers"] = [names.FINALIZER]
    assert NOT_TAKEN_ON not in explain("pool", "training", pools=[pool])


def test_one_node_that_is_left_is_one(explain: Explained) -> None:
    pool = build_found_pool()
    pool["metadata"]["deletionTimestamp"] = "2026-02-02T00:00:00Z"
    assert "0 nodes are still to be given back" in explain("pool", "training", pools=[pool])
    node = build_node("n1", gpus=1, total=15)
    owned: Json = {"f:metadata": {"f:labels": {f"f:{names.LABEL_POOL}": {}}}}
    node["metadata"] |= {
        "labels": {**SHARE, names.LABEL_POOL: "training"},
        "annotations": applied(Schedule.SHARE).annotations(),
        "managedFields": [
            {"manager": names.FIELD_MANAGER, "operation": "Apply", "fieldsV1": owned}
        ],
    }
    said = explain("pool", "training", pools=[pool], nodes=[node])
    assert "1 node is still to be given back" in said


def build_stale() -> dict[str, list[Json]]:
    """A node that shares, and a pod that came while it isolated."""
    pod = build_bound_pod("old", "n1", 4, card="0")
    record = applied(
        Schedule.SHARE, before=("pod-default-old",), admitted={"pod-default-old": "cgpu"}
    )
    node = build_node("n1", gpus=1, total=15)
    node["metadata"] |= {"labels": SHARE, "annotations": record.annotations()}
    node["status"]["nodeInfo"] = {"bootID": "boot-1"}
    return {"nodes": [node], "pods": [pod]}


def test_a_pod_is_told_that_its_isolation_is_of_a_former_mode(explain: Explained) -> None:
    stale = "c0 of pod default/old is isolated: admitted under cgpu, and the node is share"
    assert f"  Stale  {stale}\n" in explain("pod", "old", **build_stale())
    placed = json.loads(explain("pod", "old", "-o", "json", **build_stale()))["placed"]
    assert placed["staleIsolation"] == [stale]


def test_a_pod_with_the_isolation_of_its_nodes_mode_is_told_nothing(explain: Explained) -> None:
    cluster = build_stale()
    del cluster["nodes"][0]["metadata"]["annotations"]
    assert "Stale" not in explain("pod", "old", **cluster)


def build_stuck(cards: int) -> dict[str, list[Json]]:
    """A pod of which two containers ask for memory, bound to a node of the open-source edition."""
    pod = build_bound_pod("stuck", "n1", 2, 3, card="0")
    pod["status"] = {"phase": "Pending"}
    node = build_node("n1", gpus=cards, total=15 * cards)
    node["metadata"]["labels"] = {"gpushare": "true"}
    return {"nodes": [node], "pods": [pod]}


def test_a_bound_pod_that_gets_no_card_is_told_why_it_does_not_start(explain: Explained) -> None:
    assert "  Trouble  SeveralContainersAsk: " in explain("pod", "stuck", **build_stuck(2))
    assert "Trouble" not in explain("pod", "stuck", **build_stuck(1))
    running = build_stuck(2)
    running["pods"][0]["status"] = {"phase": "Running"}
    assert "Trouble" not in explain("pod", "stuck", **running)


def test_a_bound_pod_that_selects_a_hostname_keeps_its_card(explain: Explained) -> None:
    cluster = build_stuck(2)
    (pod,) = cluster["pods"]
    pod["metadata"]["annotations"]["gpushare.io/decision"] = '{"v":1,"reason":"NotRouted"}'
    pod["spec"]["nodeSelector"] = {"kubernetes.io/hostname": "n1"}
    said = explain("pod", "stuck", **cluster)
    assert "its selection of a node's name decides" in said
    assert "keeps no card" not in said


def test_one_container_shares_a_card(explain: Explained) -> None:
    said = explain("node", "n1", **build_stale())
    assert "  1 container shares a card: 1 isolated, 1 stale, 0 opted out, 0 unknown\n" in said


@pytest.mark.parametrize("unread", [Kind.POOLS, Kind.NAMESPACES])
def test_where_pools_or_the_namespace_may_not_be_read_nothing_is_decided(
    monkeypatch: pytest.MonkeyPatch, unread: Kind
) -> None:
    def decide(cluster: Cluster) -> object:
        monkeypatch.setattr(Access, "read_about", lambda *asked: cluster)
        return explain_pod(Access(), "a", "default", {}).document["decision"]

    raw = build_pod("a")
    raw["metadata"] |= {"namespace": "default", "uid": "1"}
    pod = keep_object(Kind.PODS, raw)
    assert pod is not None
    space = {"metadata": {"name": "default", "uid": "1"}}
    whole = Cluster(NOW, pods=(pod,), pools=(build_found_pool(),), namespaces=(space,))
    assert decide(whole) is not None
    parts: Json = {str(unread): (), "unread": {unread: "forbidden"}}
    assert decide(replace(whole, **parts)) is None
