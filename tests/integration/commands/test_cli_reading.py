"""Commands that read a real API server: with all rights, with few, and where it does not answer.

What they print is held by the golden answers; a snapshot of the cluster is answered like it.
"""

import json
import os
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from devcluster.installation import NAMESPACE, Installation
from devcluster.kubectlplugin import write_plugin
from gpushare.cli.exits import Exit
from tests.kit.bench import Bench
from tests.kit.cluster.command_line import CommandResult, expect_error, run_command
from tests.kit.cluster.expect import (
    expect,
    expect_allocated,
    expect_pool_ready,
    expect_running,
    is_unschedulable,
)
from tests.kit.cluster.fault_proxy import FaultProxy, Rule
from tests.kit.cluster.namespaces import default_namespace
from tests.kit.cluster.pod_admission import DECISION, expect_sent, kubectl_create
from tests.kit.cluster.users import as_reader, as_user, as_visitor, policy_rule, write_kubeconfig
from tests.kit.values.manifests import build_pod, build_pool

Json = dict[str, Any]

GROUP = "gpushare.io"
FIRST, SECOND, ISOLATING = (f"gpu.10.0.0.{number}" for number in (1, 2, 3))
SHARED = {"CGPU_DISABLE": "true"}
SECRET = {"TOKEN": "opensesame"}
OPERATOR = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/gpushare-controller"
"""An account that may read all that commands read."""
DEPLOYMENTS = f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments"
RBAC = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{NAMESPACE}"
VALUES = {"deploy": "true", "eviction.enabled": "true", "webhook.onNoPool": "deny"}

POD = policy_rule("pods", "get", of=("trainer", "waits"))
ONE_NODE = policy_rule("nodes", "get", of=(FIRST,))
ONE_POOL = policy_rule("gpusharepools", "get", group=GROUP, of=("training",))
PODS = policy_rule("pods", "list")
POOLS = policy_rule("gpusharepools", "list", group=GROUP)
DAEMONSETS = policy_rule("daemonsets", "list", group="apps")
SPACE = policy_rule("namespaces", "get", of=("default",))


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

    def ask_with(self, rules: list[Json], *arguments: str) -> Json:
        """What somebody is told who may do this and nothing else."""
        with as_visitor(self.bench, self.folder, rules) as kubeconfig:
            return self.ask(*arguments, kubeconfig=kubeconfig)

    def write(self, raw: Json) -> str:
        file = self.folder / "manifest.yaml"
        file.write_text(yaml.safe_dump(raw))
        return str(file)

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
    expect_allocated(installed, gib=9)
    installed.create_pod(build_pod("waits", gib=40, env=SHARED))
    expect(installed, "it waits", lambda: is_unschedulable(installed.pod("waits")))
    expect(
        installed,
        "its pool knows of it",
        lambda: installed.pool()["status"]["capacity"]["memoryRequested"] == 49,
    )
    yield Scene(installed, tmp_path_factory.mktemp("cli"))
    installed.clear()


@pytest.fixture
def proxy(scene: Scene) -> Iterator[FaultProxy]:
    with FaultProxy(scene.bench.cluster) as proxy:
        yield proxy


# With all rights.


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


@pytest.mark.parametrize(("gib", "env"), [(4, None), (40, SHARED)])
def test_the_api_server_does_with_a_pod_what_is_said(
    scene: Scene, gib: int, env: dict[str, str] | None
) -> None:
    pod = build_pod("new", gib=gib, env=env)
    sent = default_namespace(scene.bench).send(pod)
    answer = kubectl_create(scene.bench, pod)
    (said,) = scene.ask("explain", "-f", scene.write(pod))["objects"]
    decision = said["decision"]
    assert sent["spec"]["nodeSelector"] == decision["nodeSelector"]
    assert sent["metadata"]["annotations"][DECISION] == decision["annotation"]
    assert answer.warnings == decision["warnings"]


def test_kubectl_finds_the_plugin_and_completes_it(scene: Scene, tmp_path: Path) -> None:
    write_plugin(tmp_path)
    cluster = scene.bench.cluster
    own = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "KUBECONFIG": str(cluster.kubeconfig)}

    def kubectl(*arguments: str) -> str:
        command = [str(cluster.binaries / "kubectl"), *arguments]
        return subprocess.run(command, env=own, capture_output=True, text=True, check=True).stdout

    assert kubectl("gpushare", "inspect") == scene.show("inspect")
    assert kubectl("__complete", "gpushare", "insp") == "inspect\n:4\n"


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        (("inspect", "gpu.10.0.0.9"), "there is no node gpu.10.0.0.9; did you mean gpu.10.0.0."),
        (("explain", "pod", "trainee"), "did you mean default/trainer?"),
        (("explain", "pod", "trainer", "-n", "defualt"), "did you mean default?"),
    ],
)
def test_names_that_there_are_not(scene: Scene, asked: tuple[str, ...], told: str) -> None:
    expect_error(scene.run(*asked), Exit.NOT_FOUND, told)


# Where it does not answer.


def test_before_the_operator_is_installed_only_pools_are_missing(
    scene: Scene, proxy: FaultProxy
) -> None:
    proxy.add(Rule("GET", "/gpusharepools", status=404, times=None, body=b"404 page not found"))
    with as_reader(scene.bench, scene.folder, url=proxy.url) as kubeconfig:
        assert scene.show("inspect", kubeconfig=kubeconfig) == scene.show("inspect")
        pools = scene.run("inspect", "--pools", kubeconfig=kubeconfig)
    expect_error(pools, Exit.NOT_INSTALLED, "is not in the cluster; install the chart")


@pytest.mark.parametrize(
    "rule",
    [
        Rule("GET", "/nodes.*continue=", status=500, times=None),
        Rule("GET", "/pods", cut="answer", times=None),
    ],
    ids=["half a list", "half an answer"],
)
def test_of_what_fails_half_way_nothing_is_shown(
    scene: Scene, proxy: FaultProxy, rule: Rule
) -> None:
    proxy.add(rule)
    proxy.add(Rule("GET", "/nodes", query={"limit": "1"}, times=None))
    ended = scene.run("inspect", kubeconfig=scene.write_kubeconfig(server=proxy.url))
    expect_error(ended, Exit.INCOMPLETE, "nothing is shown")


def test_a_list_that_expires_half_way_is_begun_anew(scene: Scene, proxy: FaultProxy) -> None:
    expired = proxy.add(Rule("GET", "/nodes.*continue=", status=410))
    proxy.add(Rule("GET", "/nodes", query={"limit": "1"}, times=None))
    kubeconfig = scene.write_kubeconfig(server=proxy.url)
    assert scene.show("inspect", kubeconfig=kubeconfig) == scene.show("inspect")
    assert expired.acted_on


def forget_token(config: Json) -> None:
    config["users"][0]["user"] = {"token": "no one's"}


def forget_authority(config: Json) -> None:
    del config["clusters"][0]["cluster"]["certificate-authority"]


def lead_nowhere(config: Json) -> None:
    config["clusters"][0]["cluster"]["server"] = "https://127.0.0.1:1"


@pytest.mark.parametrize(
    ("spoil", "code", "told"),
    [
        (forget_token, Exit.NO_CREDENTIALS, "does not know you"),
        (forget_authority, Exit.NO_CLUSTER, "certificate-authority"),
        (lead_nowhere, Exit.NO_CLUSTER, "no API server at 127.0.0.1:1"),
    ],
)
def test_a_connection_that_can_not_be_had(
    scene: Scene, spoil: Callable[[Json], None], code: int, told: str
) -> None:
    file = scene.write_kubeconfig()
    config = yaml.safe_load(file.read_text())
    spoil(config)
    file.write_text(yaml.safe_dump(config))
    expect_error(scene.run("inspect", kubeconfig=file), code, told)


# With few rights.


def lacks(document: Json) -> set[str]:
    """The kinds that could not be listed; for each the missing right is named."""
    assert all("cannot list resource" in each["why"] for each in document["unread"])
    return {each["kind"] for each in document["unread"]}


def test_rights_to_nodes_and_pods_are_enough_unless_pools_are_asked_for(scene: Scene) -> None:
    rules = [policy_rule("nodes", "list"), PODS]
    with as_visitor(scene.bench, scene.folder, rules) as kubeconfig:
        assert scene.show("inspect", kubeconfig=kubeconfig) == scene.show("inspect")
        pools = scene.run("inspect", "--pools", kubeconfig=kubeconfig)
    expect_error(pools, Exit.FORBIDDEN, 'cannot list resource "gpusharepools"', "visitor")


def test_to_get_the_pod_is_enough_to_explain_it(scene: Scene) -> None:
    said = scene.ask_with([POD], "explain", "pod", "waits")
    assert lacks(said) == {"configmaps", "pods", "nodes", "pools", "daemonsets", "namespaces"}
    assert said["requests"] == {"aliyun.com/gpu-mem": 40}
    assert said["waits"]["reason"] == "Unschedulable"
    # Nothing is said that depends on what could not be read.
    assert (said["decision"], said["pools"], said["nodes"]) == (None, [], [])
    assert said["decidedThen"]["sameNow"] is None


def test_with_the_pools_listed_the_decision_is_that_of_who_may_read_all(scene: Scene) -> None:
    whole = scene.ask("explain", "pod", "waits")
    said = scene.ask_with([POD, SPACE, POOLS], "explain", "pod", "waits")
    for part in ("decision", "pools", "patch", "decidedThen", "webhookIsAsked"):
        assert said[part] == whole[part]
    assert (lacks(whole), lacks(said)) == (set(), {"configmaps", "pods", "nodes", "daemonsets"})


def test_to_get_the_node_is_enough_to_explain_it(scene: Scene) -> None:
    whole = scene.ask("explain", "node", FIRST)
    said = scene.ask_with([ONE_NODE], "explain", "node", FIRST)
    assert lacks(said) == {"configmaps", "nodes", "pods", "pools", "daemonsets"}
    for part in ("ready", "cordoned", "taints", "pool", "modeByLabels", "modeApplied", "change"):
        assert said[part] == whole[part]
    # No plugin is missing, and no card is free, because one may not see them.
    assert (said["findings"], said["plugins"], said["cards"]) == ([], [], [])
    assert (said["claimants"], said["isolation"], said["operatorInstalled"]) == (None,) * 3
    more = scene.ask_with([ONE_NODE, ONE_POOL], "explain", "node", FIRST)
    assert (more["labels"], more["edition"]) == (whole["labels"], whole["edition"])


def test_with_the_rest_listed_the_node_alone_is_told_what_runs_on_it(scene: Scene) -> None:
    whole = scene.ask("explain", "node", FIRST)
    said = scene.ask_with([ONE_NODE, PODS, DAEMONSETS, POOLS], "explain", "node", FIRST)
    assert lacks(said) == {"configmaps", "nodes"}
    for part in ("cards", "plugins", "resources", "isolation", "labels"):
        assert said[part] == whole[part]
    # What others of its pool are at decides what is planned for it.
    assert (said["claimants"], said["findings"]) == (None, [])


def test_a_node_that_may_be_got_is_inspected_without_what_is_on_its_cards(scene: Scene) -> None:
    said = scene.ask_with([ONE_NODE], "inspect", FIRST)
    assert [(each["name"], each["gpus"]) for each in said["nodes"]] == [(FIRST, 2)]
    assert ("allocated" in said, lacks(said)) == (False, {"pods"})
    assert scene.ask_with([PODS, ONE_NODE], "inspect", FIRST) == scene.ask("inspect", FIRST)


def test_to_get_the_pool_is_enough_to_explain_it(scene: Scene) -> None:
    whole = scene.ask("explain", "pool", "training")
    said = scene.ask_with([ONE_POOL], "explain", "pool", "training")
    assert lacks(said) == {"configmaps", "nodes", "pods", "pools", "daemonsets"}
    for part in ("edition", "schedule", "adopted", "controllerIsBehind", "nodes"):
        assert said[part] == whole[part]
    assert (said["groups"], said["waiting"], said["samples"]) == (None, None, [])


def test_what_may_not_be_read_is_refused_and_what_is_not_there_is_said_so(scene: Scene) -> None:
    rules = [
        policy_rule("gpusharepools", "get", "patch", group=GROUP, of=("training", "gone")),
        policy_rule("pods", "get", of=("trainer", "gone")),
    ]
    with as_visitor(scene.bench, scene.folder, rules) as kubeconfig:
        for asked in (("pod", "waits"), ("node", SECOND), ("pool", "isolated")):
            ended = scene.run("explain", *asked, kubeconfig=kubeconfig)
            expect_error(ended, Exit.FORBIDDEN, f'"{asked[1]}" is forbidden', "cannot get")
        for words in (("explain", "pod", "gone"), ("retry", "pool/gone"), ("approve", "gone")):
            expect_error(scene.run(*words, kubeconfig=kubeconfig), Exit.NOT_FOUND, "gone")
        retried = scene.run("retry", "pool/training", kubeconfig=kubeconfig)
    expect_error(retried, Exit.NOT_CALLED_FOR, "training")


# How the installation is set.


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


def find_setup(scene: Scene, *arguments: str, kubeconfig: Path | None = None) -> str:
    """What `doctor` says of it: beside that it finds that nothing of the Deployments runs."""
    ended = scene.run("doctor", "-o", "json", *arguments, kubeconfig=kubeconfig)
    findings = json.loads(ended.out)["findings"]
    (told,) = (each["message"] for each in findings if each["code"].startswith("Setup"))
    return str(told)


def test_commands_and_snapshots_go_by_what_the_deployments_say(deployed: Scene) -> None:
    file = deployed.take_snapshot()
    live = find_setup(deployed)
    assert "gpushare-controller: eviction.enabled true" in live
    assert "gpushare-webhook: webhook.onNoPool deny" in live
    assert find_setup(deployed, "--snapshot", str(file)) == live
    kept = json.dumps(json.loads(file.read_bytes())["deployments"])
    assert "image" not in kept
    assert "GPUSHARE_LOG_LEVEL" not in kept


def test_who_may_read_them_in_the_operators_namespace_alone_needs_no_more(
    deployed: Scene,
) -> None:
    bench, account = deployed.bench, "neighbour"
    listed = [policy_rule(resource, "list") for resource in ("nodes", "namespaces")]
    rules = [*listed, PODS, POOLS, DAEMONSETS]
    meta = {"metadata": {"name": account}}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": account}
    subject = {"kind": "ServiceAccount", "name": account, "namespace": "default"}
    with as_user(bench, deployed.folder, rules, name=account) as kubeconfig:
        assert find_setup(deployed, kubeconfig=kubeconfig).startswith("assumed")
        allowed = [policy_rule("deployments", "list", group="apps")]
        bench.call("POST", f"{RBAC}/roles", {**meta, "rules": allowed})
        bench.call("POST", f"{RBAC}/rolebindings", {**meta, "roleRef": role, "subjects": [subject]})
        whole = find_setup(deployed)
        told = "the roles are in force"
        expect(bench, told, lambda: find_setup(deployed, kubeconfig=kubeconfig) == whole)
    bench.call("DELETE", f"{RBAC}/rolebindings/{account}")
    bench.call("DELETE", f"{RBAC}/roles/{account}")
