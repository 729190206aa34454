"""Whole answers of the commands on kept clusters, by the files under tests/golden/answers.

The first line of each is the command; `make golden` writes the rest anew.
"""

import os
import shlex
import shutil
import textwrap
from dataclasses import replace
from pathlib import Path

import pytest

from gpushare.api.pruned.cluster import Cluster, Kind
from gpushare.cli.cluster.snapshot_file import build_snapshot, parse_snapshot
from tests.kit.cluster.command_line import run_command
from tests.kit.histories.gpu_cluster import MODE_LABEL, PLACEMENT_LABEL
from tests.kit.histories.labelled_cluster import LabelledNode, build_labelled_cluster
from tests.kit.histories.stacks_cluster import build_stacks_cluster
from tests.kit.values.doc_pages import DOCS, Page
from tests.kit.values.found_clusters import build_found_pool
from tests.kit.values.manifests import (
    Json,
    build_bound_pod,
    build_disruption_budget,
    build_node,
    build_pod,
)
from tests.unit.cli.test_snapshot_files import build_cluster, build_raw_pool

GOLDEN = Path(__file__).parents[2] / "golden"
ANSWERS = GOLDEN / "answers"
CASES = sorted(str(file.relative_to(ANSWERS).with_suffix("")) for file in ANSWERS.rglob("*.txt"))
IS_WRITTEN = os.environ.get("GOLDEN") == "write"
PROMPT = "$ gpushare "
BY_NAME = "by-name"
"""How clusters are called that somebody reads who may list nothing."""


def read_cluster(name: str) -> Cluster:
    return parse_snapshot((GOLDEN / "clusters" / name).read_bytes(), name)


def build_basic() -> Cluster:
    """Two nodes of the Basic edition, and a pod that selects one of them by a label that goes."""
    pod = build_pod("holder", selects={"cgpu": "true"}, nodeName="n1")
    pod["metadata"] |= {"namespace": "default", "uid": "holder"}
    nodes = [
        LabelledNode("n1", "Basic", "cgpu"),
        LabelledNode("n2", "Basic", "share", node_pool="np2"),
    ]
    return build_labelled_cluster(nodes, pods=[pod | {"status": {"phase": "Running"}}])


def build_weekly() -> Cluster:
    """Three nodes of a pool that are to isolate, a new one, and one that isolates elsewhere."""
    labels: Json = {"f:gpushare.io/pool": {}}
    owned: Json = {"manager": "gpushare-operator", "operation": "Apply"}
    owned["fieldsV1"] = {"f:metadata": {"f:labels": labels}}
    nodes = [
        LabelledNode(f"gpu-{number}", node_pool="np1234", labels={"gpushare.io/pool": "training"})
        for number in range(1, 4)
    ]
    new, other = LabelledNode("gpu-4", node_pool="np1234"), LabelledNode("other", schedule="cgpu")
    cluster = build_labelled_cluster([*nodes, new, other])
    for node in cluster.nodes:
        node["spec"] = {"providerID": "cn-beijing.i-22b849b118cc5ca09d944f9520280042"}
    for node in cluster.nodes[:3]:
        node["metadata"]["managedFields"] = [owned]
    return cluster


def build_fragmented() -> Cluster:
    """Two nodes of a pool with a pod each, of which a budget keeps the smaller one."""
    labels = {"gpushare.io/pool": "training"}
    pods, selector = [], {"matchLabels": {"app": "api"}}
    for name, node, units in (("batch", "gpu-1", 6), ("api", "gpu-2", 4)):
        pod = build_bound_pod(name, node, units, allocation={"c0": {"0": units}})
        owner = {"kind": "ReplicaSet", "name": name, "uid": name, "controller": True}
        pod["metadata"] |= {"ownerReferences": [owner], "labels": {"app": name}}
        pod["spec"]["nodeSelector"] = labels
        pods.append(pod)
    nodes = [LabelledNode(name, labels=labels) for name in ("gpu-1", "gpu-2")]
    cluster = build_labelled_cluster(nodes, pods=pods, pools=[build_found_pool()])
    budget = build_disruption_budget("api", selector=selector, allowed=0)
    return replace(cluster, poddisruptionbudgets=(budget,))


def build_clusters() -> dict[str, Cluster]:
    """By name, those that are shorter as code than as files."""
    labelled = [
        *(
            LabelledNode(name, schedule="cgpu", node_pool="np-fast")
            for name in ("fast-1", "fast-2")
        ),
        LabelledNode("fast-3", labels={MODE_LABEL: "egpu"}, node_pool="np-fast"),
        LabelledNode("slow-1", node_pool="np-mixed"),
        LabelledNode(
            "slow-2", schedule="cgpu", node_pool="np-mixed", labels={PLACEMENT_LABEL: "spread"}
        ),
    ]
    haunted = [LabelledNode("a"), LabelledNode("b", extra_plugins=["cgpu-installer"])]
    open_source = [LabelledNode(name, "OpenSource", "share") for name in ("a", "b")]
    agreed, later, shared = build_raw_pool(), build_raw_pool(), build_raw_pool()
    agreed["spec"]["rollout"] = {"approval": "Manual", "approvedPlan": "21626ecea6bf"}
    approved: Json = {"f:spec": {"f:rollout": {"f:approvedPlan": {}}}}
    entry = {"manager": "gpushare-cli", "operation": "Apply", "fieldsV1": approved}
    agreed["metadata"]["managedFields"] = [entry]
    later["metadata"]["name"], later["spec"]["schedule"] = "later", "quantum"
    shared["spec"]["placement"] = "spread"
    placed: Json = {"f:spec": {"f:placement": {}}}
    entry = {"manager": "boss", "operation": "Update", "fieldsV1": placed}
    shared["metadata"]["managedFields"] = [entry]
    bare = build_node("bare", gpus=None, total=None)
    unlabelled = LabelledNode("plain", "Basic", "cgpu", labels={"cgpu.disable.isolation": None})
    whole = read_cluster("shared.json")
    trainer = whole.pods[3:4]
    return {
        "not-installed.json": replace(whole, pools=None),
        "by-name.json": Cluster(whole.taken_at, whole.nodes[:1], trainer, whole.pools),
        "by-name-pod.json": Cluster(whole.taken_at, pods=trainer),
        "empty.json": build_labelled_cluster([]),
        "plain.json": build_cluster(),
        "agreed.json": build_cluster(pools=[agreed]),
        "bare.json": build_cluster(nodes=[bare]),
        "boss.json": build_cluster(pools=[shared]),
        "later.json": build_cluster(pools=[build_raw_pool(), later]),
        "labelled.json": build_labelled_cluster(labelled),
        "haunted.json": build_labelled_cluster(haunted),
        "unlabelled.json": build_labelled_cluster([unlabelled]),
        "open-source.json": build_labelled_cluster(open_source),
        "basic.json": build_basic(),
        "weekly.json": build_weekly(),
        "stacks.json": build_stacks_cluster(),
        "fragmented.json": build_fragmented(),
        "fragmented-in-part.json": replace(
            build_fragmented(), unread={Kind.PODDISRUPTIONBUDGETS: "forbidden"}
        ),
    }


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the clusters and the manifests that answers are about."""
    folder = tmp_path_factory.mktemp("golden")
    for given in ("clusters", "manifests"):
        shutil.copytree(GOLDEN / given, folder, dirs_exist_ok=True)
    for name, cluster in build_clusters().items():
        (folder / name).write_bytes(build_snapshot(cluster))
    return folder


def answer(command: str) -> str:
    """The whole text of a case."""
    ended = run_command(*shlex.split(command))
    told = f"--- standard error\n{ended.err}" if ended.err else ""
    return f"{PROMPT}{command}\n{ended.out}{told}--- exit code {ended.code}\n"


def parse_kept(text: bytes, name: str) -> Cluster:
    """As it was read from the API server: a snapshot does not tell who may list what."""
    cluster = parse_snapshot(text, name)
    unread = {kind: f'cannot list resource "{kind}"' for kind in Kind}
    return replace(cluster, unread=unread) if name.startswith(BY_NAME) else cluster


@pytest.mark.parametrize("case", CASES)
def test_an_answer_is_the_one_that_is_kept(
    kept: Path, case: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = ANSWERS / f"{case}.txt"
    expected = file.read_text()
    monkeypatch.chdir(kept)
    monkeypatch.setattr("gpushare.cli.cluster.access.parse_snapshot", parse_kept)
    found = answer(expected.partition("\n")[0].removeprefix(PROMPT))
    if IS_WRITTEN:
        file.write_text(found)
    else:
        assert found == expected


def test_every_file_is_in_an_answer() -> None:
    asked = " ".join((ANSWERS / f"{case}.txt").read_text().partition("\n")[0] for case in CASES)
    given = [file.name for kind in ("clusters", "manifests") for file in (GOLDEN / kind).iterdir()]
    assert [name for name in (*given, *build_clusters()) if name not in asked] == []


def test_the_calendar_on_the_page_is_that_of_an_answer() -> None:
    blocks = {block.language: block.text for block in Page(DOCS / "change-windows.md").blocks}
    answer = (ANSWERS / "plan" / "waves-in-windows.txt").read_text()
    assert textwrap.indent(blocks["text"], "  ") in answer
    assert blocks["yaml"] == (GOLDEN / "manifests" / "pool-windows.yaml").read_text()
