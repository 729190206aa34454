"""What GitOps tools see of pools on a real control plane: kstatus, and docs/gitops.md's check."""

import json
import os
import subprocess

import pytest
import yaml

from devcluster.toolchain import GITOPS, ensure_binaries
from tests.kit.bench import POOLS, Bench, Json
from tests.kit.cluster.expect import expect, expect_condition, expect_pool_ready, expect_reason
from tests.kit.cluster.sharing_pools import given_sharing_pool
from tests.kit.values.doc_pages import DOCS, Page
from tests.kit.values.manifests import build_pool

KEY = "resource.customizations.health.gpushare.io_GPUSharePool"


def read_check() -> str:
    """The health check in Lua, as the page has it in Argo CD's ConfigMap."""
    blocks = Page(DOCS / "gitops.md").blocks
    (text,) = (block.text for block in blocks if KEY in block.text)
    check: str = yaml.safe_load(text)["data"][KEY]
    return check


def judge(*pools: Json) -> list[tuple[str, str]]:
    """What kstatus and the check say of each."""
    program = ensure_binaries(os.environ, GITOPS) / "gitops"
    asked = {"check": read_check(), "objects": {str(i): pool for i, pool in enumerate(pools)}}
    done = subprocess.run(
        [program], input=json.dumps(asked), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    answers = json.loads(done.stdout)
    found = [answers[str(index)] for index in range(len(pools))]
    assert all(each["argo"]["message"] for each in found)
    return [(each["kstatus"]["status"], each["argo"]["status"]) for each in found]


def expect_judged(bench: Bench, kstatus: str, argo: str, name: str = "training") -> None:
    wanted = [(kstatus, argo)]
    expect(bench, f"{name} is {kstatus} and {argo}", lambda: judge(bench.pool(name)) == wanted)


def test_a_pool_that_nobody_has_seen_yet_is_in_progress(bench: Bench) -> None:
    bench.create_pool(build_pool("training"))
    pool = bench.pool()
    assert pool["status"] == {"observedGeneration": -1}
    assert judge(pool) == [("InProgress", "Progressing")]
    bench.operators.standard()
    # It matches no node, and is Ready.
    expect_judged(bench, "Current", "Healthy")


def test_a_rollout_is_in_progress_and_current_when_it_is_over(bench: Bench) -> None:
    given_sharing_pool(bench, "Professional", "n1")
    expect_judged(bench, "Current", "Healthy")
    with bench.watching(POOLS) as seen:
        bench.change_pool(schedule="cgpu")
        expect_pool_ready(bench, nodes=1)
    judged = judge(*seen.history)
    # From the new spec on, to the last but one.
    assert judged[0] in [("Current", "Healthy"), ("InProgress", "Progressing")]
    assert set(judged[1:]) == {("InProgress", "Progressing"), ("Current", "Healthy")}
    changed = [pool for pool in seen.history if pool["metadata"]["generation"] > 1]
    first_current = judge(*changed).index(("Current", "Healthy"))
    assert changed[first_current]["status"]["nodes"]["ready"] == 1
    assert changed[first_current]["status"]["observedGeneration"] == 2


def test_a_halted_pool_is_degraded(bench: Bench) -> None:
    given_sharing_pool(bench, "Professional", "n1", "n2", rollout={"readyTimeoutSeconds": 10})
    bench.set_faults("n1", plugin_never_ready=True)
    bench.change_pool(schedule="cgpu")
    expect_condition(bench, "RolloutComplete", "False", "RolloutHalted")
    expect_judged(bench, "InProgress", "Degraded")


@pytest.mark.parametrize(
    "spec",
    [
        {"rollout": {"approval": "Manual"}},
        {"rollout": {"freeze": {"reason": "release week"}}},
        {"reconcile": "Observe"},
        {"reconcile": "Paused"},
        {"schedule": "core_mem"},
    ],
    ids=["approval", "freeze", "observed", "paused", "manual steps"],
)
def test_a_pool_that_waits_for_a_person_is_suspended(bench: Bench, spec: Json) -> None:
    given_sharing_pool(bench, "Professional", "n1")
    bench.change_pool(**{"schedule": "cgpu", **spec})
    expect_judged(bench, "InProgress", "Suspended")


def test_a_pool_whose_windows_are_invalid_is_degraded(bench: Bench) -> None:
    given_sharing_pool(bench, "Professional", "n1")
    never = {"schedule": "0 2 30 2 *", "duration": "30m"}
    bench.change_pool(rollout={"windows": [never]})
    expect_judged(bench, "InProgress", "Degraded")


def test_a_pool_that_is_being_deleted_is_terminating(bench: Bench) -> None:
    given_sharing_pool(bench, "Professional", "n1", deletionPolicy="WholeCard")
    bench.set_faults("n1", not_ready=True)
    bench.delete_pool()
    expect(bench, "it is being deleted", lambda: "deletionTimestamp" in bench.pool()["metadata"])
    assert judge(bench.pool())[0][0] == "Terminating"
    bench.set_faults("n1")


def test_a_pool_that_waits_for_its_node_is_in_progress(bench: Bench) -> None:
    given_sharing_pool(bench, "Professional", "n1")
    bench.set_faults("n1", not_ready=True)
    expect(
        bench,
        "the node is away",
        lambda: (
            ("Ready", "False")
            in [(c["type"], c["status"]) for c in bench.node("n1")["status"]["conditions"]]
        ),
    )
    bench.change_pool(schedule="cgpu")
    expect_reason(bench, "n1", "NodeNotReady")
    expect_judged(bench, "InProgress", "Progressing")
