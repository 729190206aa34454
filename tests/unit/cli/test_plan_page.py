"""`gpushare plan` without a cluster: from a snapshot, and command lines that are none."""

from pathlib import Path

import pytest
import yaml

from gpushare.cli.exits import Exit
from gpushare.cli.snapshots import build_snapshot
from tests.kit.builders import build_pool
from tests.kit.commandline import expect_told, run_command
from tests.unit.cli.test_snapshots import build_cluster, build_raw_pool

HASH = "21626ecea6bf"
ASSUMED = """
Assumed, since no Deployment of the operator is there: eviction.enabled false, \
teardown.jobs.enabled false, memoryUnit GiB
"""
PLANNED = """\
training  share on 1 node
  Ready False, ComponentMissing: 0 of 1 nodes are ready; n1: MISSING
  RolloutComplete False, ComponentMissing: 0 nodes are in their change, 1 are left; n1: MISSING
  plan 21626ecea6bf: default -> share on 1 node: the plugins follow the labels
  WAVE  NODE  CHANGE            DOES              PODS  WAITS FOR
  -     n1    default -> share  cordon, 2 labels  -     ComponentMissing: MISSING
""".replace(
    "MISSING",
    "mode share of the Professional edition needs the DaemonSet gpushare-device-plugin-ds, which "
    "is not in the cluster; install it, nothing was changed",
)


@pytest.fixture
def snapshot(tmp_path: Path) -> str:
    file = tmp_path / "cluster.json"
    file.write_bytes(build_snapshot(build_cluster()))
    return str(file)


def write(folder: Path, *objects: object) -> str:
    file = folder / "objects.yaml"
    file.write_text(yaml.safe_dump_all(objects))
    return str(file)


def test_a_snapshot_is_planned_on(snapshot: str) -> None:
    ended = run_command("plan", "pool", "training", "--snapshot", snapshot)
    assert (ended.code, ended.out, ended.err) == (0, PLANNED + ASSUMED, "")


def test_what_the_mode_can_not_do_on_its_nodes_is_said(snapshot: str, tmp_path: Path) -> None:
    file = write(tmp_path, build_pool(schedule="cgpu", nodes={"names": ["n1"]}))
    ended = run_command("plan", "-f", file, "--snapshot", snapshot)
    assert "\n  warning: node n1: its providerID '' is not that of an ECS instance" in ended.out


def test_what_is_no_pool_is_skipped_and_said(snapshot: str, tmp_path: Path) -> None:
    service = {"kind": "Service", "apiVersion": "v1", "metadata": {"name": "web"}}
    file = write(tmp_path, service, build_pool("other", nodes={"names": ["n7"]}))
    ended = run_command("plan", "-f", file, "--snapshot", snapshot, "--exit-code")
    assert (ended.code, ended.err) == (0, "")
    assert ended.out == (
        "other  new, share on 0 nodes\n  nothing to do\n\n"
        f"Skipped, since they are no pools: Service/web\n{ASSUMED}"
    )


def test_a_pool_that_only_looks_on_says_so(snapshot: str, tmp_path: Path) -> None:
    file = write(tmp_path, build_pool(nodes={"names": ["n1"]}, reconcile="Observe"))
    ended = run_command("plan", "-f", file, "--snapshot", snapshot)
    assert "\n  reconcile is Observe: none of it is begun\n" in ended.out


def test_an_agreement_that_an_apply_leaves_counts(tmp_path: Path) -> None:
    nodes = {"names": ["n1"]}
    manual = {"approval": "Manual"}
    live = build_raw_pool()
    live["spec"]["rollout"] = {**manual, "approvedPlan": HASH}
    cluster = tmp_path / "cluster.json"
    cluster.write_bytes(build_snapshot(build_cluster(pools=[live])))
    file = write(tmp_path, build_pool(nodes=nodes, rollout=manual))
    ended = run_command("plan", "-f", file, "--snapshot", str(cluster))
    assert f"  agreed to already by rollout.approvedPlan {HASH}: " in ended.out
    assert "gpushare approve" not in ended.out


@pytest.mark.parametrize(
    ("objects", "sentence"),
    [
        ([build_pool(), build_pool()], "training is given twice"),
        ([{"kind": "Service"}], "there is no GPUSharePool among Service/?"),
        ([build_pool(edition="Basic", nodes={"names": ["n1"]})], "edition can't change"),
        ([build_pool(scheduel="share")], "did you mean schedule?"),
    ],
)
def test_manifests_that_would_be_refused(
    snapshot: str, tmp_path: Path, objects: list[object], sentence: str
) -> None:
    ended = run_command("plan", "-f", write(tmp_path, *objects), "--snapshot", snapshot)
    expect_told(ended, Exit.MANIFEST, sentence)


def test_a_pool_that_there_is_not(snapshot: str) -> None:
    ended = run_command("plan", "pool", "trainin", "--snapshot", snapshot)
    expect_told(ended, Exit.NOT_FOUND, "there is no pool trainin; did you mean training?")


@pytest.mark.parametrize(
    "arguments", [[], ["pool"], ["pool", "training", "-f", "pool.yaml"], ["node", "n1"]]
)
def test_what_is_no_command_line(arguments: list[str]) -> None:
    assert run_command("plan", *arguments).code == Exit.USAGE
