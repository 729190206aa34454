"""`gpushare plan`, `approve` and `retry` against a real API server and the controller itself."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpushare.cli.exits import Exit
from tests.kit.arrange import given_sharing_pool, place_pod
from tests.kit.bench import NODES, POOLS, Bench
from tests.kit.builders import build_pool
from tests.kit.commandline import Ended, expect_told, run_command
from tests.kit.expect import (
    expect,
    expect_pool_ready,
    expect_reason,
    expect_running,
    find_condition,
    is_out_of_service,
)
from tests.kit.faultproxy import FaultProxy, Rule
from tests.kit.modes import LOOKS, expect_offer
from tests.kit.persons import a_person, a_rule

Json = dict[str, Any]
THREE = ("n1", "n2", "n3")
GROUP = "gpushare.io"
PLANNED = """\
training  cgpu on 3 nodes
  plan 9f2b209da3b5: share -> cgpu on 3 nodes: the device plugin restarts; 1 waits for pods \
to finish
  WAVE  NODE  CHANGE         DOES                              PODS  WAITS FOR
  1     n1    share -> cgpu  cordon, 3 labels, restart plugin  -
  2     n3    share -> cgpu  cordon, 3 labels, restart plugin  -
  -     n2    share -> cgpu  cordon, 3 labels, restart plugin  1     WorkloadsPresent: pods that \
use aliyun.com/gpu-mem must finish or be moved first: default/busy
  how long is not known, at most 20 min until each node is done or counts as failed: 2 waves, one \
after another, without 1 node that must wait for something else; no pod of cgpu-installer runs \
here by which a start could be measured
"""
DONE = """\
training  cgpu on 3 nodes
  Ready True, AllNodesReady: all 3 nodes are as the spec says
  RolloutComplete True, NothingLeft: no isolation change is under way or left to do
  nothing to do
"""


ASSUMED = """
Assumed, since no Deployment of the operator is there: eviction.enabled false, \
teardown.jobs.enabled false, memoryUnit GiB
"""


def run(bench: Bench, *arguments: str, kubeconfig: Path | None = None) -> Ended:
    return run_command(*arguments, kubeconfig=kubeconfig or bench.cluster.kubeconfig)


def read(bench: Bench, *arguments: str) -> Json:
    """What a command that goes well says, as data."""
    ended = run(bench, *arguments, "-o", "json")
    assert (ended.code, ended.err) == (0, ""), ended
    found: Json = json.loads(ended.out)
    return found


def write_manifest(folder: Path, pool: Json) -> str:
    file = folder / "pool.yaml"
    file.write_text(yaml.safe_dump(pool))
    return str(file)


def read_labels(bench: Bench) -> dict[str, dict[str, str]]:
    items = bench.call("GET", NODES)["items"]
    return {node["metadata"]["name"]: node["metadata"]["labels"] for node in items}


def foretell(labels: dict[str, dict[str, str]], steps: list[Json]) -> dict[str, dict[str, str]]:
    """The nodes' labels once these steps are done."""
    told = {node: dict(each) for node, each in labels.items()}
    for step in steps:
        told[step["node"]] |= step["labels"]
        for key in step["removedLabels"]:
            del told[step["node"]][key]
    return told


def expect_nothing_to_do(bench: Bench, file: str) -> None:
    for command in (["-f", file], ["pool", "training"]):
        ended = run(bench, "plan", *command, "--exit-code")
        assert (ended.code, ended.err) == (0, ""), ended
        assert "nothing to do" in ended.out


@pytest.mark.usefixtures("operator")
def test_what_was_planned_is_what_the_controller_does(bench: Bench, tmp_path: Path) -> None:
    given_sharing_pool(bench, "Professional", *THREE)
    expect_running(bench, place_pod(bench, "busy", "n2"))
    file = write_manifest(tmp_path, build_pool(schedule="cgpu", placement="binpack"))
    before, plugins = read_labels(bench), bench.plugins()

    (plan,) = read(bench, "plan", "-f", file)["pools"]
    shown = run(bench, "plan", "-f", file, "--exit-code")
    mark = bench.audit.mark()
    with bench.watching() as watch:
        bench.change_pool(schedule="cgpu", placement="binpack")
        sample = expect_reason(bench, "n2", "WorkloadsPresent")
        expect(bench, "n3 is done", lambda: bench.pool()["status"]["nodes"]["ready"] == 2)
        left = bench.pool()["status"]["plan"]
        # Nothing is left but what waits.
        (again,) = read(bench, "plan", "pool", "training")["pools"]
        bench.delete_pod("busy")
        expect_pool_ready(bench, nodes=3)

    steps = {step["node"]: step for step in plan["steps"]}
    assert (shown.code, shown.out) == (Exit.CHANGES, PLANNED + ASSUMED)
    assert plan["hash"] in PLANNED
    assert (steps["n2"]["blocker"], steps["n2"]["pods"]) == ("WorkloadsPresent", ["default/busy"])
    assert steps["n2"]["message"] == sample["message"]
    assert [(step["node"], step["wave"]) for step in plan["steps"]] == [
        ("n1", 1),
        ("n3", 2),
        ("n2", None),
    ]
    assert [step["node"] for step in again["steps"]] == ["n2"]
    assert left["hash"] == plan["hash"] == again["hash"]
    assert left["summary"] == again["summary"]
    assert again["steps"][0]["labels"] == steps["n2"]["labels"]

    assert foretell(before, plan["steps"]) == read_labels(bench)
    restarted = [step["node"] for step in plan["steps"] if step["restartsPlugin"]]
    deleted = bench.audit.our_deletions(mark)
    assert deleted == [plugins[node]["metadata"]["name"] for node in restarted]
    cordoned = {each["metadata"]["name"] for each in watch.history if is_out_of_service(each)}
    assert cordoned == {step["node"] for step in plan["steps"] if step["cordons"]}
    expect_nothing_to_do(bench, file)
    assert run(bench, "plan", "pool", "training").out == DONE + ASSUMED


@pytest.mark.usefixtures("operator")
def test_a_pool_that_is_not_there_yet_is_planned_as_it_will_be(
    bench: Bench, tmp_path: Path
) -> None:
    bench.install("Professional")
    bench.add_nodes("n1", labels={"ack.node.gpu.schedule": "default"})
    bench.add_nodes("n2", labels={"ack.node.gpu.schedule": "share"})
    for node, mode in (("n1", "default"), ("n2", "share")):
        expect_offer(bench, node, LOOKS["Professional"][mode])
    pool = build_pool()
    file = write_manifest(tmp_path, pool)
    with FaultProxy(bench.cluster) as proxy:
        # Before the operator is installed.
        proxy.add(Rule("GET", "/gpusharepools", status=404, times=None, body=b"404 page not found"))
        with a_person(
            bench, tmp_path, [a_rule("*", "list"), a_rule("*", "list", group="apps")], url=proxy.url
        ) as kubeconfig:
            early = expect(
                bench,
                "the role is in force",
                lambda: run(bench, "plan", "-f", file, kubeconfig=kubeconfig).out,
            )
    before = read_labels(bench)

    (plan,) = read(bench, "plan", "-f", file)["pools"]
    late = run(bench, "plan", "-f", file).out
    mark = bench.audit.mark()
    bench.create_pool(pool)
    expect_pool_ready(bench, nodes=2)

    assert early == late
    assert plan["new"] is True
    assert plan["summary"] == "default -> share on 1 node: the plugins follow the labels"
    told = [(s["node"], s["wave"], s["change"], s["cordons"]) for s in plan["steps"]]
    assert told == [("n2", 0, "", False), ("n1", 1, "default -> share", True)]
    assert foretell(before, plan["steps"]) == read_labels(bench)
    assert bench.audit.our_deletions(mark) == []
    expect_nothing_to_do(bench, file)


@pytest.fixture
def manual(bench: Bench) -> Bench:
    """A pool whose change to cgpu nobody has agreed to."""
    bench.operators.standard()
    given_sharing_pool(bench, "Basic", "n1", "n2")
    bench.change_pool(schedule="cgpu", rollout={"approval": "Manual"})
    expect_waiting(bench)
    return bench


def expect_waiting(bench: Bench) -> None:
    expect(
        bench,
        "the pool waits for an agreement",
        lambda: (
            find_condition(pool := bench.pool(), "RolloutComplete")["reason"]
            == "WaitingForApproval"
            and pool["status"]["observedGeneration"] == pool["metadata"]["generation"]
        ),
    )


def test_an_agreement_lets_the_controller_go_on(manual: Bench) -> None:
    (plan,) = read(manual, "plan", "pool", "training")["pools"]
    assert plan["waitsForApproval"] is True
    assert plan["hash"] == manual.pool()["status"]["plan"]["hash"]
    assert [(step["node"], step["wave"]) for step in plan["steps"]] == [("n1", 1), ("n2", 2)]

    stale = run(manual, "approve", "training", "--hash", "0123456789ab")
    expect_told(stale, Exit.NOT_CALLED_FOR, f"is {plan['hash']} by now, and not 0123456789ab")
    version = manual.pool()["metadata"]["generation"]
    tried = read(manual, "approve", "training", "--hash", plan["hash"], "--dry-run")
    assert (tried["written"], tried["dryRun"]) == (False, True)
    assert manual.pool()["metadata"]["generation"] == version

    agreed = run(manual, "approve", "training", "--hash", plan["hash"])
    assert (agreed.code, agreed.err) == (0, "")
    assert agreed.out == (
        f"pool/training: spec.rollout.approvedPlan is {plan['hash']} "
        "(share -> cgpu on 2 nodes: the device plugin restarts)\n"
        "The same changes of nodes that come later are agreed to as well, until approvedPlan is "
        "another.\n"
    )
    expect_pool_ready(manual, nodes=2)
    pool = manual.pool()
    (entry,) = (e for e in pool["metadata"]["managedFields"] if e["manager"] == "gpushare-cli")
    assert entry["fieldsV1"] == {"f:spec": {"f:rollout": {"f:approvedPlan": {}}}}
    again = run(manual, "approve", "training")
    expect_told(again, Exit.NOT_CALLED_FOR, "pool training has nothing left to change")


def test_a_field_that_somebody_else_owns_is_taken_over_only_by_force(manual: Bench) -> None:
    manual.change_pool(rollout={"approvedPlan": "0123456789ab"})
    expect(
        manual,
        "the wrong hash was read",
        lambda: (
            manual.pool()["status"]["observedGeneration"] == manual.pool()["metadata"]["generation"]
        ),
    )
    refused = run(manual, "approve", "training")
    expect_told(refused, Exit.NOT_CALLED_FOR, "conflict with", "--force-conflicts")
    assert read(manual, "approve", "training", "--force-conflicts")["written"] is True
    expect_pool_ready(manual, nodes=2)


def test_where_no_agreement_is_waited_for_none_is_written(bench: Bench) -> None:
    bench.operators.standard()
    given_sharing_pool(bench, "Professional", "n1")
    expect_told(run(bench, "approve", "training"), Exit.NOT_CALLED_FOR, "is Automatic")
    unknown = run(bench, "approve", "trainin")
    expect_told(unknown, Exit.NOT_FOUND, "there is no pool trainin; did you mean training?")
    for name in ("training", "n1", "pool/training", "node/n1"):
        expect_told(run(bench, "retry", name), Exit.NOT_CALLED_FOR, "has failed")
    expect_told(run(bench, "retry", "n11"), Exit.NOT_FOUND, "no pool or node n11; did you mean n1?")


@pytest.mark.usefixtures("operator")
def test_what_failed_is_tried_again(bench: Bench) -> None:
    given_sharing_pool(bench, "Basic", "n1", "n2", rollout={"readyTimeoutSeconds": 10})
    bench.set_faults("n1", plugin_never_ready=True)
    bench.change_pool(schedule="cgpu")
    expect_reason(bench, "n1", "DeadlineExceeded")
    expect_reason(bench, "n2", "RolloutHalted")
    (plan,) = read(bench, "plan", "pool", "training")["pools"]
    assert {(s["node"], s["blocker"], s["wave"]) for s in plan["steps"]} == {
        ("n1", "DeadlineExceeded", None),
        ("n2", "RolloutHalted", None),
    }

    tried = read(bench, "retry", "n1", "--dry-run")
    assert (tried["object"], tried["written"], tried["dryRun"]) == ("node/n1", False, True)
    assert read_retry(bench.node("n1")) == ""
    tried = read(bench, "retry", "n1")
    assert tried["written"] is True
    assert tried["value"] == read_retry(bench.node("n1"))
    expect_reason(bench, "n1", "PluginRestarting")
    bench.set_faults("n1")
    expect_pool_ready(bench, nodes=2)


def test_an_agreement_outlives_a_retry(manual: Bench) -> None:
    manual.change_pool(rollout={"readyTimeoutSeconds": 10})
    expect_waiting(manual)
    manual.set_faults("n1", plugin_never_ready=True)
    agreed = read(manual, "approve", "training")["value"]
    expect_reason(manual, "n1", "DeadlineExceeded")
    expect_reason(manual, "n2", "RolloutHalted")

    # With its fault gone it would not have failed any more, and there would be nothing to retry.
    assert read(manual, "retry", "training")["written"] is True
    manual.set_faults("n1")

    expect_pool_ready(manual, nodes=2)
    assert manual.pool()["spec"]["rollout"]["approvedPlan"] == agreed


def read_retry(raw: Json) -> str:
    noted: str = raw["metadata"].get("annotations", {}).get("gpushare.io/retry", "")
    return noted


def test_a_person_without_rights_is_told_which_is_missing(manual: Bench, tmp_path: Path) -> None:
    with a_person(manual, tmp_path) as kubeconfig:
        for command in (["approve", "training"], ["retry", "pool/training"]):
            ended = run(manual, *command, kubeconfig=kubeconfig)
            expect_told(ended, Exit.FORBIDDEN, 'cannot get resource "gpusharepools"', "patch on")
        planned = run(manual, "plan", "pool", "training", kubeconfig=kubeconfig)
        expect_told(planned, Exit.FORBIDDEN, "cannot list resource")
    rules = [a_rule("gpusharepools", "get", group=GROUP)]
    with a_person(manual, tmp_path, rules, name="reader") as kubeconfig:
        ended = expect(
            manual,
            "the role is in force",
            lambda: find_about(run(manual, "approve", "training", kubeconfig=kubeconfig), "patch "),
        )
    expect_told(ended, Exit.FORBIDDEN, 'cannot patch resource "gpusharepools"')
    assert "approvedPlan" not in manual.pool()["spec"]["rollout"]


def find_about(ended: Ended, part: str) -> Ended | None:
    return ended if f"cannot {part}" in ended.err else None


def test_a_manifest_that_would_be_refused_is_refused_with_a_sentence(
    bench: Bench, tmp_path: Path
) -> None:
    file = write_manifest(tmp_path, build_pool(edition="Basic", schedule="mps"))
    expect_told(run(bench, "plan", "-f", file), Exit.MANIFEST, "the Basic edition has no such mode")


@pytest.mark.parametrize("way", [[], ["--server-side"]], ids=["client-side", "server-side"])
def test_what_an_apply_leaves_to_others_is_planned_with(
    bench: Bench, tmp_path: Path, way: list[str]
) -> None:
    bench.install("Professional")
    kubectl = bench.cluster.kubectl
    pool = build_pool(rollout={"canary": 2}, priority=7)
    kubectl("apply", *way, "-f", write_manifest(tmp_path, pool))
    kubectl("patch", "gsp/training", "--type=merge", "-p", '{"spec": {"placement": "spread"}}')
    theirs = {"rollout": {"maxUnavailable": 3}, "nodes": {"exclude": ["n9"]}}
    bench.call("PATCH", f"{POOLS}/training?fieldManager=boss", {"spec": theirs})
    later = build_pool(schedule="cgpu", rollout={"onFailure": "Rollback"})
    without = build_pool(schedule="topology")

    told = {}
    for manifest in (later, without):
        file = write_manifest(tmp_path, manifest)
        (plan,) = read(bench, "plan", "-f", file)["pools"]
        page = run(bench, "plan", "-f", file).out
        kubectl("apply", *way, "-f", file)
        kept = [f"{each['field']} of {each['manager']}" for each in plan["kept"]]
        assert f"\n  left as it is, since the file has nothing of it: {', '.join(kept)}\n" in page
        told[manifest["spec"]["schedule"]] = (plan["kept"], bench.pool()["spec"])

    exclude = {"field": "spec.nodes.exclude", "manager": "boss"}
    placement = {"field": "spec.placement", "manager": "kubectl-patch"}
    most = {"field": "spec.rollout.maxUnavailable", "manager": "boss"}
    kept, spec = told["cgpu"]
    assert kept == [exclude, placement, most]
    assert (spec["nodes"]["exclude"], spec["placement"], spec["priority"]) == (
        ["n9"],
        "spread",
        100,
    )
    assert (spec["rollout"]["maxUnavailable"], spec["rollout"]["canary"]) == (3, 0)
    # With the whole of it kubectl itself takes away what others have in it.
    kept, spec = told["topology"]
    assert kept == ([exclude, placement, most] if way else [exclude, placement])
    assert spec["rollout"]["maxUnavailable"] == (3 if way else 1)
