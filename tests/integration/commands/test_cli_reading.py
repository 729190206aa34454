"""Commands that read a real API server: with all rights, with few, and where it does not answer.

What they print is held by the golden answers; a snapshot of the cluster is answered like it.
"""

import json
import os
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from devcluster.installation import NAMESPACE, Installation
from devcluster.kubectlplugin import write_plugin
from gpushare.cli.exit_codes import Exit
from tests.kit.bench import Bench, Json
from tests.kit.cluster.command_line import CommandResult, expect_error, run_command
from tests.kit.cluster.expect import (
    expect,
    expect_capacity,
    expect_pool_ready,
    expect_running,
    is_unschedulable,
)
from tests.kit.cluster.fault_proxy import FaultProxy, Rule
from tests.kit.cluster.namespaces import default_namespace
from tests.kit.cluster.pod_admission import expect_sent
from tests.kit.cluster.users import as_user, policy_rule, write_kubeconfig
from tests.kit.values.manifests import build_pod, build_pool

GROUP = "gpushare.io"
FIRST, SECOND, ISOLATING = (f"gpu.10.0.0.{number}" for number in (1, 2, 3))
SHARED = {"CGPU_DISABLE": "true"}
SECRET = {"TOKEN": "opensesame"}
OPERATOR = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/gpushare-controller"
"""An account that may read all that commands read."""
DEPLOYMENTS = f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments"
VALUES = {"deploy": "true", "eviction.enabled": "true", "webhook.onNoPool": "deny"}


@dataclass(frozen=True)
class Scene:
    """Pools in use with a pod that waits, and the administrator's kubeconfig."""

    bench: Bench
    folder: Path

    def run(self, *arguments: str, kubeconfig: Path | None = None) -> CommandResult:
        return run_command(*arguments, kubeconfig=kubeconfig or self.bench.cluster.kubeconfig)

    def show(self, *arguments: str, kubeconfig: Path | None = None) -> str:
        """What a command that goes well prints."""
        ended = self.run(*arguments, kubeconfig=kubeconfig)
        assert (ended.code, ended.err) == (0, ""), ended
        return ended.out

    def ask(self, *arguments: str, kubeconfig: Path | None = None) -> Json:
        """The same, as data."""
        found: Json = json.loads(self.show(*arguments, "-o", "json", kubeconfig=kubeconfig))
        return found

    def write_kubeconfig(self, *, server: str = "") -> Path:
        """One that leads to `server`: a proxy passes tokens on."""
        return write_kubeconfig(self.bench, self.folder / "kubeconfig", OPERATOR, server=server)

    def take_snapshot(self) -> Path:
        file = self.folder / "cluster.json"
        assert self.show("snapshot", "-o", str(file)) == ""
        return file


@pytest.fixture(scope="module")
def scene(installed: Bench, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    installed.operators.end_all()
    installed.install("Professional")
    installed.add_nodes(FIRST, SECOND, cards=2)
    installed.add_nodes(ISOLATING, node_pool="np2")
    installed.operators.standard()
    installed.create_pool(build_pool())
    installed.create_pool(build_pool("isolated", schedule="cgpu", node_pool="np2", priority=50))
    expect_pool_ready(installed, nodes=2)
    expect_pool_ready(installed, "isolated", nodes=1)
    expect_sent(default_namespace(installed), build_pod("probe", env=SHARED), "training")
    installed.create_pod(build_pod("trainer", gib=9, env=SHARED | SECRET))
    expect_running(installed, "trainer")
    expect_capacity(installed, memoryAllocated=9)
    installed.create_pod(build_pod("waits", gib=40, env=SHARED))
    expect(installed, "it waits", lambda: is_unschedulable(installed.pod("waits")))
    yield Scene(installed, tmp_path_factory.mktemp("cli"))
    installed.clear()


@pytest.fixture
def proxy(scene: Scene) -> Iterator[FaultProxy]:
    with FaultProxy(scene.bench.cluster) as proxy:
        yield proxy


def test_a_snapshot_answers_as_the_cluster_does_and_holds_no_secret(scene: Scene) -> None:
    file = scene.take_snapshot()
    for asked in (
        ("inspect",),
        ("inspect", "-d", SECOND),
        ("inspect", "--pools", "-o", "json"),
        ("explain", "pod", "waits"),
        ("explain", "node", FIRST),
        ("explain", "pool", "training"),
        ("plan", "pool", "training"),
    ):
        assert scene.show(*asked) == run_command(*asked, "--snapshot", str(file)).out
    assert "opensesame" not in file.read_text()
    assert file.stat().st_mode & 0o777 == 0o600


def test_kubectl_finds_the_plugin_and_completes_it(scene: Scene, tmp_path: Path) -> None:
    write_plugin(tmp_path)
    cluster = scene.bench.cluster
    own = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "KUBECONFIG": str(cluster.kubeconfig)}

    def kubectl(*arguments: str) -> str:
        command = [str(cluster.binaries / "kubectl"), *arguments]
        return subprocess.run(command, env=own, capture_output=True, text=True, check=True).stdout

    assert kubectl("gpushare", "inspect") == scene.show("inspect")
    assert kubectl("__complete", "gpushare", "insp") == "inspect\n:4\n"


def test_of_a_list_that_fails_half_way_nothing_is_shown(scene: Scene, proxy: FaultProxy) -> None:
    proxy.add(Rule("GET", "/nodes.*continue=", status=500, times=None))
    proxy.add(Rule("GET", "/nodes", query={"limit": "1"}, times=None))
    ended = scene.run("inspect", kubeconfig=scene.write_kubeconfig(server=proxy.url))
    expect_error(ended, Exit.INCOMPLETE, "nothing is shown")


def test_a_list_that_expires_half_way_is_begun_anew(scene: Scene, proxy: FaultProxy) -> None:
    expired = proxy.add(Rule("GET", "/nodes.*continue=", status=410))
    proxy.add(Rule("GET", "/nodes", query={"limit": "1"}, times=None))
    kubeconfig = scene.write_kubeconfig(server=proxy.url)
    assert scene.show("inspect", kubeconfig=kubeconfig) == scene.show("inspect")
    assert expired.acted_on


@pytest.mark.parametrize(
    ("part", "broken", "code", "told"),
    [
        ("user", {"token": "no one's"}, Exit.NO_CREDENTIALS, "rejects your credentials"),
        ("cluster", {"certificate-authority": ""}, Exit.NO_CLUSTER, "certificate-authority"),
        ("cluster", {"server": "https://127.0.0.1:1"}, Exit.NO_CLUSTER, "127.0.0.1:1"),
    ],
    ids=["nobody knows the token", "nobody vouches for the server", "nobody listens"],
)
def test_a_connection_that_can_not_be_had(
    scene: Scene, part: str, broken: dict[str, str], code: int, told: str
) -> None:
    file = scene.write_kubeconfig()
    config = yaml.safe_load(file.read_text())
    config[f"{part}s"][0][part] |= broken
    file.write_text(yaml.safe_dump(config))
    expect_error(scene.run("inspect", kubeconfig=file), code, told)


NOT_LISTED = {
    "configmaps",
    "resourceslices",
    "resourceclaims",
    "nodes",
    "pods",
    "pools",
    "daemonsets",
}
EXPLAINED: dict[str, tuple[Json, str, set[str], tuple[str, ...], Json]] = {
    "pod": (
        policy_rule("pods", "get", of=("waits",)),
        "waits",
        NOT_LISTED | {"namespaces"},
        ("requests",),
        {"decision": None, "pools": [], "nodes": []},
    ),
    "node": (
        policy_rule("nodes", "get", of=(FIRST,)),
        FIRST,
        NOT_LISTED,
        ("ready", "cordoned", "taints", "pool", "modeByLabels", "modeApplied", "change"),
        # No plugin is missing, and no card is free, because one may not see them.
        {"findings": [], "plugins": [], "cards": [], "claimants": None, "isolation": None},
    ),
}
"""By kind: the one right that somebody has, to which object, what they can't read, and of the
answer what is as who may read all is told, and what would need the rest."""


@pytest.mark.parametrize("kind", EXPLAINED)
def test_to_get_an_object_is_enough_to_explain_what_it_says_and_nothing_more(
    scene: Scene, kind: str
) -> None:
    right, name, unread, same, left_out = EXPLAINED[kind]
    whole = scene.ask("explain", kind, name)
    with as_user(scene.bench, scene.folder, [right]) as kubeconfig:
        said = scene.ask("explain", kind, name, kubeconfig=kubeconfig)
    assert all("cannot list resource" in each["why"] for each in said["unread"])
    assert {each["kind"] for each in said["unread"]} == unread
    assert {part: said[part] for part in same} == {part: whole[part] for part in same}
    assert {part: said[part] for part in left_out} == left_out
    if kind == "pod":
        # What the scheduler says, where nodes may not be read.
        assert said["waits"]["reason"] == "Unschedulable"


def test_rights_to_nodes_and_pods_are_enough_unless_pools_are_asked_for(scene: Scene) -> None:
    rules = [policy_rule(resource, "list") for resource in ("nodes", "pods")]
    with as_user(scene.bench, scene.folder, rules) as kubeconfig:
        assert scene.show("inspect", kubeconfig=kubeconfig) == scene.show("inspect")
        for asked in (("inspect", "--pools"), ("explain", "pool", "training")):
            pools = scene.run(*asked, kubeconfig=kubeconfig)
            expect_error(pools, Exit.FORBIDDEN, 'cannot list resource "gpusharepools"', "visitor")


def test_what_may_not_be_read_is_refused_and_what_is_not_there_is_said_so(scene: Scene) -> None:
    rules = [
        policy_rule("gpusharepools", "get", "patch", group=GROUP, of=("training", "gone")),
        policy_rule("pods", "get", of=("trainer", "gone")),
    ]
    with as_user(scene.bench, scene.folder, rules) as kubeconfig:
        for asked in (("pod", "waits"), ("node", SECOND)):
            ended = scene.run("explain", *asked, kubeconfig=kubeconfig)
            expect_error(ended, Exit.FORBIDDEN, f'"{asked[1]}" is forbidden', "cannot get")
        for words in (("explain", "pod", "gone"), ("retry", "pool/gone"), ("approve", "gone")):
            expect_error(scene.run(*words, kubeconfig=kubeconfig), Exit.NOT_FOUND, "gone")


@pytest.fixture
def deployed(scene: Scene) -> Iterator[Scene]:
    """The chart's Deployments are there."""
    rendered = Installation(scene.bench.cluster, VALUES, all_in_one=False).render()
    ours = [m for m in yaml.safe_load_all(rendered) if m and m["kind"] == "Deployment"]
    for manifest in ours:
        # Its processes run beside the cluster.
        manifest["spec"]["replicas"] = 0
        scene.bench.call("POST", DEPLOYMENTS, manifest)
    yield scene
    for manifest in ours:
        scene.bench.call("DELETE", f"{DEPLOYMENTS}/{manifest['metadata']['name']}")


def test_commands_and_snapshots_go_by_what_the_deployments_say(deployed: Scene) -> None:
    file = deployed.take_snapshot()
    for place in ((), ("--snapshot", str(file))):
        # That nothing of the Deployments runs is an error beside it.
        findings = json.loads(deployed.run("doctor", "-o", "json", *place).out)["findings"]
        (told,) = (each["message"] for each in findings if each["code"].startswith("Setup"))
        assert "gpushare-controller: eviction.enabled true" in told
        assert "gpushare-webhook: webhook.onNoPool deny" in told
    kept = json.dumps(json.loads(file.read_bytes())["deployments"])
    assert "image" not in kept
    assert "GPUSHARE_LOG_LEVEL" not in kept
