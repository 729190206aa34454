"""`gpushare inspect` and `snapshot` against a real API server: whole outputs, and how they fail."""

import json
import os
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from devcluster.installation import NAMESPACE
from devcluster.kubectlplugin import write_plugin
from gpushare.cli.exits import Exit
from tests.kit.arrange import POOL
from tests.kit.bench import Bench
from tests.kit.builders import build_pod, build_pool
from tests.kit.commandline import Ended, expect_told, run_command
from tests.kit.expect import (
    expect,
    expect_allocated,
    expect_pool_ready,
    expect_running,
    is_unschedulable,
)
from tests.kit.faultproxy import FaultProxy, Rule
from tests.kit.persons import a_reader
from tests.kit.tokens import write_kubeconfig

ACCOUNTS = "/api/v1/namespaces/default/serviceaccounts"
ROLES = "/apis/rbac.authorization.k8s.io/v1/clusterroles"
BINDINGS = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"
VISITOR = "visitor"
OPERATOR = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/gpushare-controller"
"""An account that may read all that commands read."""
SUMMARY = """\
NAME          IPADDRESS  GPU0(Allocated/Total)  GPU1(Allocated/Total)  GPU Memory(GiB)
gpu.10.0.0.1  10.0.0.1   4/15                   0/15                   4/30
gpu.10.0.0.2  10.0.0.2   9/15                   0/15                   9/30
---------------------------------------------------------
Allocated/Total GPU Memory In Cluster:
13/60 (21%)··
""".replace("·", " ")
DETAILS = """\

NAME:       gpu.10.0.0.1
IPADDRESS:  10.0.0.1

NAME         NAMESPACE  GPU0(Allocated)  GPU1(Allocated)··
small        default    4                0················
Allocated :  4 (13%)····
Total :      30·········
-----------------------------


Allocated/Total GPU Memory In Cluster:  4/30 (13%)··
""".replace("·", " ")
WIDE = """\
NODE          IPADDRESS  GPU  ALLOCATED  TOTAL  FREE  PODS
gpu.10.0.0.1  10.0.0.1   0    4          15     11    default/small
gpu.10.0.0.1  10.0.0.1   1    0          15     15    -
gpu.10.0.0.2  10.0.0.2   0    9          15     6     default/large
gpu.10.0.0.2  10.0.0.2   1    0          15     15    -
"""
POOLS = """\
training  share, 2/2 nodes ready, 4 GPUs, 13/60 GiB allocated, largest free block 15 GiB, \
stranded 6 GiB
  NODE          GPU  USED                  ALLOCATED(GiB)  STATE
  gpu.10.0.0.1  0    ######..............  4/15            ready
                1    ....................  0/15
  gpu.10.0.0.2  0    ############........  9/15            ready
                1    ....................  0/15

Pods that wait
  NAMESPACE  POD   GPU-MEM(GiB)  POOL      REASON             WHY
  default    huge  40            training  LargerThanAnyCard  asks for 40 GiB on one card, and the \
largest of pool training has 15; ask for less, or add nodes with larger cards
  default    lost  3             nowhere   PoolNotFound       selects pool nowhere, which does not \
exist; create it, or create the pod anew with another gpushare.io/pool in its node selector
"""
FIGURES = (
    "memoryTotal",
    "memoryAllocated",
    "memoryRequested",
    "largestFreeBlock",
    "strandedMemory",
)
SMALL, LARGE = "gpu.10.0.0.1", "gpu.10.0.0.2"


@dataclass(frozen=True)
class Scene:
    """A cluster whose cards are in use, and the administrator's kubeconfig."""

    bench: Bench
    folder: Path

    @property
    def kubeconfig(self) -> Path:
        return self.bench.cluster.kubeconfig

    def run(self, *arguments: str) -> Ended:
        return run_command(*arguments, kubeconfig=self.kubeconfig)

    def show(self, *arguments: str) -> str:
        """What a command that goes well prints."""
        ended = self.run(*arguments)
        assert (ended.code, ended.err) == (0, ""), ended
        return ended.out

    def write_kubeconfig(self, account: str = OPERATOR, *, server: str = "") -> Path:
        """That of an account, which leads to `server`: a proxy passes tokens on."""
        return write_kubeconfig(self.bench, self.folder / "kubeconfig", account, server=server)


@pytest.fixture(scope="module")
def scene(installed: Bench, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    """Two nodes with two cards each, a pod on each, and pods that wait."""
    installed.operators.end_all()
    installed.install("Professional")
    installed.add_nodes(SMALL, LARGE, cards=2)
    installed.operators.standard()
    installed.create_pool(build_pool())
    expect_pool_ready(installed, nodes=2)
    for name, gib, node in (("small", 4, SMALL), ("large", 9, LARGE)):
        selects = {POOL: "training", "kubernetes.io/hostname": node}
        installed.create_pod(build_pod(name, gib=gib, selects=selects, env={"TOKEN": "opensesame"}))
        expect_running(installed, name)
    expect_allocated(installed, gib=13)
    for name, gib, pool in (("huge", 40, "training"), ("lost", 3, "nowhere")):
        installed.create_pod(build_pod(name, gib=gib, selects={POOL: pool}))
        expect_waiting(installed, name)
    expect_told_of(installed, requested=53)
    yield Scene(installed, tmp_path_factory.mktemp("cli"))
    installed.clear()


def expect_waiting(bench: Bench, pod: str) -> None:
    """Until the scheduler has tried it."""
    expect(bench, f"{pod} waits", lambda: is_unschedulable(bench.pod(pod)))


def expect_told_of(bench: Bench, *, requested: int) -> None:
    """Until the pool's status knows of the pods that wait."""

    def is_told() -> bool:
        told: int = bench.pool()["status"]["capacity"]["memoryRequested"]
        return told == requested

    expect(bench, f"the status says that {requested} GiB are asked for", is_told)


@pytest.fixture
def proxy(scene: Scene) -> Iterator[FaultProxy]:
    with FaultProxy(scene.bench.cluster) as proxy:
        yield proxy


# What is shown.


def test_it_shows_what_the_original_shows(scene: Scene) -> None:
    assert scene.show("inspect") == SUMMARY


def test_details_of_one_node(scene: Scene) -> None:
    assert scene.show("inspect", "-d", SMALL) == DETAILS


def test_each_card_has_a_line_where_the_table_is_wide(scene: Scene) -> None:
    assert scene.show("inspect", "-o", "wide") == WIDE


def test_the_same_as_data(scene: Scene) -> None:
    shown = json.loads(scene.show("inspect", LARGE, "-o", "json"))
    assert shown == yaml.safe_load(scene.show("inspect", LARGE, "-o", "yaml"))
    assert shown == {
        "unit": "GiB",
        "nodes": [
            {
                "name": LARGE,
                "address": "10.0.0.2",
                "allocated": 9,
                "total": 30,
                "cards": [
                    {"index": 0, "allocated": 9, "total": 15},
                    {"index": 1, "allocated": 0, "total": 15},
                ],
                "pending": 0,
                "pods": [
                    {
                        "namespace": "default",
                        "name": "large",
                        "requested": 9,
                        "cards": {"0": 9},
                        "pending": 0,
                    }
                ],
            }
        ],
        "allocated": 9,
        "total": 30,
        "percent": 30,
    }


def test_pools_with_their_cards_and_the_pods_that_wait(scene: Scene) -> None:
    assert scene.show("inspect", "--pools") == POOLS


def test_pools_as_data_are_what_their_status_says(scene: Scene) -> None:
    (pool,) = json.loads(scene.show("inspect", "--pools", "-o", "json"))["pools"]
    capacity = scene.bench.pool()["status"]["capacity"]
    assert pool["nodesReady"] == 2
    assert {key: pool[f"{key}GiB"] for key in FIGURES} == {key: capacity[key] for key in FIGURES}


def test_pods_that_wait_in_another_namespace_are_left_out(scene: Scene) -> None:
    assert "Pods that wait" not in scene.show("inspect", "--pools", "-n", "kube-system")


# kubectl's plugin.


def test_kubectl_finds_the_plugin_and_completes_it(scene: Scene, tmp_path: Path) -> None:
    write_plugin(tmp_path)

    def kubectl(*arguments: str) -> str:
        own = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "KUBECONFIG": str(scene.kubeconfig)}
        command = [str(scene.bench.cluster.binaries / "kubectl"), *arguments]
        ended = subprocess.run(command, env=own, capture_output=True, text=True, check=True)
        return ended.stdout

    assert kubectl("gpushare", "inspect") == SUMMARY
    assert kubectl("gpushare", "--help").startswith("Usage: kubectl gpushare [OPTIONS] COMMAND")
    assert kubectl("__complete", "gpushare", "insp") == "inspect\n:4\n"


# Snapshots.


def test_a_snapshot_answers_as_the_cluster_does(scene: Scene, tmp_path: Path) -> None:
    file = tmp_path / "cluster.json"
    assert scene.show("snapshot", "-o", str(file)) == ""

    for command in (["inspect"], ["inspect", "-d", LARGE], ["inspect", "--pools", "-o", "json"]):
        from_file = run_command(*command, "--snapshot", str(file))
        assert (from_file.code, from_file.err) == (0, "")
        assert from_file.out == scene.show(*command)
    assert "opensesame" not in file.read_text()
    assert file.stat().st_mode & 0o777 == 0o600


# How it fails.


@pytest.fixture
def visitor(scene: Scene) -> Iterator[str]:
    """A ServiceAccount without a right."""
    scene.bench.call("POST", ACCOUNTS, {"metadata": {"name": VISITOR}})
    yield VISITOR
    scene.bench.call("DELETE", f"{ACCOUNTS}/{VISITOR}")


def test_without_rights_it_says_which_one_is_missing(scene: Scene, visitor: str) -> None:
    ended = run_command("inspect", kubeconfig=scene.write_kubeconfig(f"{ACCOUNTS}/{visitor}"))
    expect_told(ended, Exit.FORBIDDEN, 'cannot list resource "nodes"', visitor)


def test_rights_to_nodes_and_pods_are_enough_unless_pools_are_asked_for(
    scene: Scene, visitor: str
) -> None:
    rules = [{"apiGroups": [""], "resources": ["nodes", "pods"], "verbs": ["list"]}]
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": VISITOR}
    subject = {"kind": "ServiceAccount", "name": visitor, "namespace": "default"}
    body = {"metadata": {"name": VISITOR}, "roleRef": role, "subjects": [subject]}
    scene.bench.call("POST", ROLES, {"metadata": {"name": VISITOR}, "rules": rules})
    scene.bench.call("POST", BINDINGS, body)
    kubeconfig = scene.write_kubeconfig(f"{ACCOUNTS}/{visitor}")
    try:
        seen = expect(
            scene.bench,
            "the role is in force",
            lambda: run_command("inspect", kubeconfig=kubeconfig).out,
        )
        pools = run_command("inspect", "--pools", kubeconfig=kubeconfig)
    finally:
        scene.bench.call("DELETE", f"{BINDINGS}/{VISITOR}")
        scene.bench.call("DELETE", f"{ROLES}/{VISITOR}")
    assert seen == SUMMARY
    expect_told(pools, Exit.FORBIDDEN, 'cannot list resource "gpusharepools"')


def test_before_the_operator_is_installed_only_pools_are_missing(
    scene: Scene, proxy: FaultProxy, tmp_path: Path
) -> None:
    proxy.add(Rule("GET", "/gpusharepools", status=404, times=None, body=b"404 page not found"))
    with a_reader(scene.bench, tmp_path, url=proxy.url) as kubeconfig:
        nodes = run_command("inspect", kubeconfig=kubeconfig)
        pools = run_command("inspect", "--pools", kubeconfig=kubeconfig)
    assert nodes.out == SUMMARY
    expect_told(pools, Exit.NOT_INSTALLED, "is not in the cluster; install the chart")


def test_a_list_that_fails_half_way_prints_nothing(scene: Scene, proxy: FaultProxy) -> None:
    proxy.add(Rule("GET", "/nodes.*continue=", status=500, times=None))
    proxy.add(Rule("GET", "/nodes", query={"limit": "1"}, times=None))

    ended = run_command("inspect", kubeconfig=scene.write_kubeconfig(server=proxy.url))

    expect_told(ended, Exit.INCOMPLETE, "nothing is shown", "500")
    assert len(proxy.matching("GET", "/nodes.*continue=")) == 3


def test_a_list_that_expires_half_way_is_begun_anew(scene: Scene, proxy: FaultProxy) -> None:
    expired = proxy.add(Rule("GET", "/nodes.*continue=", status=410))
    proxy.add(Rule("GET", "/nodes", query={"limit": "1"}, times=None))

    ended = run_command("inspect", kubeconfig=scene.write_kubeconfig(server=proxy.url))

    assert (ended.code, ended.out) == (0, SUMMARY)
    assert expired.acted_on


def test_an_answer_that_is_cut_off_is_no_answer(scene: Scene, proxy: FaultProxy) -> None:
    proxy.add(Rule("GET", "/pods", cut="answer", times=None))
    ended = run_command("inspect", kubeconfig=scene.write_kubeconfig(server=proxy.url))
    expect_told(ended, Exit.INCOMPLETE, "nothing is shown")


@pytest.mark.parametrize("options", [[], ["-d"]])
def test_a_node_that_there_is_not(scene: Scene, options: list[str]) -> None:
    ended = scene.run("inspect", *options, "gpu.10.0.0.3")
    expect_told(ended, Exit.NOT_FOUND, f"there is no node gpu.10.0.0.3; did you mean {LARGE}?")


def test_a_token_that_nobody_knows(scene: Scene) -> None:
    path = scene.write_kubeconfig()
    config = yaml.safe_load(path.read_text())
    config["users"][0]["user"] = {"token": "no one's"}
    path.write_text(yaml.safe_dump(config))
    expect_told(run_command("inspect", kubeconfig=path), Exit.NO_CREDENTIALS, "does not know you")


def test_no_cluster(scene: Scene) -> None:
    kubeconfig = scene.write_kubeconfig(server="https://127.0.0.1:1")
    ended = run_command("inspect", kubeconfig=kubeconfig)
    expect_told(ended, Exit.NO_CLUSTER, "no API server at 127.0.0.1:1")


def test_a_server_with_another_certificate_is_not_trusted(scene: Scene) -> None:
    path = scene.write_kubeconfig()
    config = yaml.safe_load(path.read_text())
    del config["clusters"][0]["cluster"]["certificate-authority"]
    path.write_text(yaml.safe_dump(config))
    ended = run_command("inspect", kubeconfig=path)
    expect_told(ended, Exit.NO_CLUSTER, "no safe connection to 127.0.0.1:", "certificate-authority")


@pytest.mark.parametrize("name", ["..", "a/b", "?limit=1", "a,b=c\\"])
def test_a_name_that_is_none_leads_nowhere(scene: Scene, name: str) -> None:
    ended = scene.run("inspect", name)
    assert (ended.code, ended.out) == (Exit.USAGE, "")
    assert f"{name!r} is not a name" in ended.err
