"""`gpushare plan`, `approve` and `retry` against a real API server and the controller itself."""

import json
from pathlib import Path

import pytest
import yaml

from gpushare.cli.exit_codes import Exit
from tests.kit.bench import POOLS, Bench, Json
from tests.kit.cluster.command_line import CommandResult, expect_error, run_command
from tests.kit.cluster.expect import (
    expect,
    expect_condition,
    expect_pool_ready,
    expect_reason,
    expect_running,
    is_observed,
    is_out_of_service,
)
from tests.kit.cluster.sharing_pools import given_sharing_pool, place_pod
from tests.kit.values.manifests import build_pool


def run(bench: Bench, *arguments: str) -> CommandResult:
    return run_command(*arguments, kubeconfig=bench.cluster.kubeconfig)


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


def forecast_changes(
    labels: dict[str, dict[str, str]], steps: list[Json]
) -> dict[str, dict[str, str]]:
    """The nodes' labels once these steps are done."""
    told = {node: dict(each) for node, each in labels.items()}
    for step in steps:
        told[step["node"]] |= step["labels"]
        for key in step["removedLabels"]:
            del told[step["node"]][key]
    return told


@pytest.mark.usefixtures("operator")
def test_what_was_planned_is_what_the_controller_does(bench: Bench, tmp_path: Path) -> None:
    given_sharing_pool(bench, "Professional", "n1", "n2", "n3")
    expect_running(bench, place_pod(bench, "busy", "n2"))
    file = write_manifest(tmp_path, build_pool(schedule="cgpu", placement="binpack"))
    before, plugins = bench.labels(), bench.plugins()

    (plan,) = read(bench, "plan", "-f", file)["pools"]
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
    waves = [(node, step["wave"]) for node, step in steps.items()]
    assert waves == [("n1", 1), ("n3", 2), ("n2", None)]
    assert (steps["n2"]["blocker"], steps["n2"]["pods"]) == ("WorkloadsPresent", ["default/busy"])
    assert steps["n2"]["message"] == sample["message"]
    assert [step["node"] for step in again["steps"]] == ["n2"]
    assert left["hash"] == plan["hash"] == again["hash"]
    assert left["summary"] == again["summary"]

    assert forecast_changes(before, plan["steps"]) == bench.labels()
    restarted = [step["node"] for step in plan["steps"] if step["restartsPlugin"]]
    deleted = bench.audit.our_deletions(mark)
    assert deleted == [plugins[node]["metadata"]["name"] for node in restarted]
    cordoned = {each["metadata"]["name"] for each in watch.history if is_out_of_service(each)}
    assert cordoned == {step["node"] for step in plan["steps"] if step["cordons"]}
    for asked in (["-f", file], ["pool", "training"]):
        assert "nothing to do" in run(bench, "plan", *asked, "--exit-code").out


@pytest.fixture
def manual(bench: Bench) -> Bench:
    """A pool whose change to cgpu nobody has agreed to."""
    bench.operators.standard()
    given_sharing_pool(bench, "Basic", "n1", "n2", rollout={"readyTimeoutSeconds": 10})
    bench.change_pool(schedule="cgpu", rollout={"approval": "Manual"})
    expect_condition(bench, "RolloutComplete", "False", "WaitingForApproval")
    expect(bench, "that is of its spec of now", lambda: is_observed(bench.pool()))
    return bench


def test_an_agreement_lets_the_controller_go_on(manual: Bench) -> None:
    (plan,) = read(manual, "plan", "pool", "training")["pools"]
    assert plan["waitsForApproval"] is True
    assert plan["hash"] == manual.pool()["status"]["plan"]["hash"]

    # A field that somebody else owns is taken over by force alone.
    manual.change_pool(rollout={"approvedPlan": "0123456789ab"})
    expect(manual, "the wrong hash was read", lambda: is_observed(manual.pool()))
    refused = run(manual, "approve", "training")
    expect_error(refused, Exit.NOT_CALLED_FOR, "conflict with", "--force-conflicts")
    stale = run(manual, "approve", "training", "--hash", "0123456789ab")
    expect_error(stale, Exit.NOT_CALLED_FOR, plan["hash"], "0123456789ab")
    version = manual.pool()["metadata"]["generation"]
    agree = ("approve", "training", "--hash", plan["hash"], "--force-conflicts")
    tried = read(manual, *agree, "--dry-run")
    assert (tried["written"], tried["dryRun"]) == (False, True)
    assert manual.pool()["metadata"]["generation"] == version

    agreed = read(manual, *agree)
    assert (agreed["written"], agreed["value"]) == (True, plan["hash"])
    expect_pool_ready(manual, nodes=2)
    managed = manual.pool()["metadata"]["managedFields"]
    (entry,) = (each for each in managed if each["manager"] == "gpushare-cli")
    assert entry["fieldsV1"] == {"f:spec": {"f:rollout": {"f:approvedPlan": {}}}}


@pytest.mark.parametrize("way", [[], ["--server-side"]], ids=["client-side", "server-side"])
def test_what_an_apply_leaves_to_others_is_planned_with(
    bench: Bench, tmp_path: Path, way: list[str]
) -> None:
    bench.install("Professional")
    kubectl = bench.cluster.kubectl
    kubectl("apply", *way, "-f", write_manifest(tmp_path, build_pool(rollout={"canary": 2})))
    kubectl("patch", "gsp/training", "--type=merge", "-p", '{"spec": {"placement": "spread"}}')
    theirs = {"rollout": {"maxUnavailable": 3}, "nodes": {"exclude": ["n9"]}}
    bench.call("PATCH", f"{POOLS}/training?fieldManager=boss", {"spec": theirs})

    # With the whole of `rollout` kubectl itself takes away what others have in it.
    file = write_manifest(tmp_path, build_pool(schedule="topology"))
    (plan,) = read(bench, "plan", "-f", file)["pools"]
    kubectl("apply", *way, "-f", file)

    kept = {each["field"]: each["manager"] for each in plan["kept"]}
    most = {"spec.rollout.maxUnavailable": "boss"} if way else {}
    assert kept == {"spec.nodes.exclude": "boss", "spec.placement": "kubectl-patch"} | most
    spec = bench.pool()["spec"]
    assert (spec["nodes"]["exclude"], spec["placement"]) == (["n9"], "spread")
    assert spec["rollout"]["maxUnavailable"] == (3 if way else 1)
