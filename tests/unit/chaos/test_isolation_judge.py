"""The judge of claims about isolation finds what it is there to find, and nothing else."""

import json
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest

from devcluster import names
from gpushare.core.snapshot.isolation import ContainerIsolation, observe_containers
from gpushare.core.snapshot.node import NodeSnapshot
from tests.chaos.isolation_judge import Finding, Tally, Verdict, judge_node
from tests.kit.bench import VERIFIED
from tests.kit.values.manifests import Json, build_node, build_pod, build_whole_card_pod
from tests.kit.values.node_plans import applied

BOOT = "boot-1"
PLUGIN = "uid-of-plugin"


def a_node(schedule: str = "cgpu", boot: str = BOOT) -> Json:
    """One that has been in this mode since before its pods came."""
    labels = {"ack.node.gpu.schedule": schedule, "gpushare.io/pool": "training"}
    notes = applied(schedule, boot_id=BOOT, plugins={PLUGIN: 0}).annotations()
    keys = {"f:labels": labels, "f:annotations": notes}
    ours = {
        "manager": "gpushare-operator",
        "operation": "Apply",
        "fieldsV1": {"f:metadata": {k: {f"f:{each}": {} for each in v} for k, v in keys.items()}},
    }
    node = build_node("n1", labels=labels)
    node["metadata"] |= {"managedFields": [ours], "annotations": notes}
    node["status"]["nodeInfo"] = {"bootID": boot}
    return node


def a_plugin() -> Json:
    owner = {"kind": "DaemonSet", "name": "gpushare-device-plugin-ds", "controller": True}
    meta = {"name": "plugin", "namespace": "kube-system", "uid": PLUGIN, "ownerReferences": [owner]}
    spec = {"nodeName": "n1", "containers": [{"name": "gpushare"}]}
    return {"metadata": meta, "spec": spec, "status": {"phase": "Running"}}


def a_pod(name: str = "a", *, isolated: bool = True, boot: str = BOOT, **spec: Any) -> Json:
    """One that runs and shares a card, with the record of what it got."""
    pod = build_pod(name, **spec)
    record = {"main": {"isolated": isolated, "boot_id": boot}}
    pod["metadata"] |= {
        "namespace": "default",
        "uid": f"uid-of-{name}",
        "annotations": {names.CONTAINERS: json.dumps(record)},
    }
    pod["spec"]["nodeName"] = "n1"
    return {**pod, "status": {"phase": "Running"}}


def judge(*pods: Json, node: Json | None = None) -> list[Verdict]:
    findings = judge_node(node or a_node(), [a_plugin(), *pods])
    assert findings is not None
    return [finding.verdict for finding in findings]


@pytest.mark.parametrize("isolated", [True, False])
def test_a_false_claim_of_the_operator_is_wrong_whatever_is_so(isolated: bool) -> None:
    def lie(seen: NodeSnapshot) -> Iterable[ContainerIsolation]:
        return [replace(claim, isolated=not isolated) for claim in observe_containers(seen)]

    findings = judge_node(a_node(), [a_plugin(), a_pod(isolated=isolated)], lie)
    assert findings is not None
    (finding,) = findings
    assert finding.verdict is Verdict.WRONG
    assert str(finding) == f"default/a/main: isolated is {isolated}, claimed is {not isolated}"


def test_a_container_that_opts_out_is_none_that_is_isolated() -> None:
    env = {names.CGPU_DISABLE: "true"}
    assert judge(a_pod(isolated=False, env=env)) == [Verdict.AGREED]
    assert judge(a_pod(isolated=True, env=env)) == [Verdict.WRONG]


def test_nothing_is_judged_before_the_node_wrote_what_it_gave_in_this_boot() -> None:
    bare = a_pod()
    bare["metadata"]["annotations"] = {}
    assert judge_node(a_node(), [a_plugin(), bare]) is None
    assert judge_node(a_node(boot="boot-2"), [a_plugin(), a_pod()]) is None


def test_a_container_counts_once_a_boot_and_by_the_worst_that_was_found() -> None:
    def a_finding(claimed: bool | None, boot: str = BOOT) -> Finding:
        return Finding(("uid", "main", boot), "default/a/main", claimed, is_isolated=True)

    tally = Tally()
    tally.note([a_finding(True), a_finding(None), a_finding(True)])
    tally.note([a_finding(True, "boot-2")])
    tally.note([a_finding(True, "boot-3"), a_finding(None, "boot-3"), a_finding(False, "boot-3")])
    assert tally.containers == 3
    assert tally.count() == {Verdict.AGREED: 1, Verdict.UNKNOWN: 1, Verdict.WRONG: 1}


def on_nvidia(*pods: Json, **labels: str) -> list[Verdict]:
    """On a node where NVIDIA's plugin runs; the operator wrote its labels."""
    node = a_node()
    node["metadata"]["labels"] |= labels
    owned = node["metadata"]["managedFields"][0]["fieldsV1"]["f:metadata"]["f:labels"]
    owned |= {f"f:{key}": {} for key in labels}
    plugin = a_plugin()
    plugin["metadata"]["annotations"] = {names.RUNS: names.NVIDIA_PLUGIN}
    findings = judge_node(node, [plugin, *pods])
    assert findings is not None
    return [finding.verdict for finding in findings]


def test_of_what_nvidias_plugin_gives_nothing_may_be_claimed() -> None:
    pod = build_whole_card_pod("a") | {"status": {"phase": "Running"}}
    pod["metadata"] |= {"namespace": "default", "uid": "a", "annotations": {}}
    pod["spec"]["nodeName"] = "n1"
    assert on_nvidia(pod) == [Verdict.SILENT, Verdict.SILENT]
    assert on_nvidia(**{VERIFIED: "false"}) == [Verdict.SILENT]
    assert on_nvidia(**{VERIFIED: "true"}) == [Verdict.WRONG]

    def claim(seen: NodeSnapshot) -> Iterable[ContainerIsolation]:
        return [ContainerIsolation("n1", each, "main", None, None, None) for each in seen.pods]

    findings = judge_node(a_node(), [pod], claim)
    assert findings is not None
    assert [finding.verdict for finding in findings] == [Verdict.WRONG]
