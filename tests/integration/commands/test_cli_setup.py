"""How the installation is set: `explain`, `plan` and `doctor` read it at one place."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from devcluster.installation import NAMESPACE, Installation
from gpushare.cli.exits import Exit
from tests.kit.arrange import given_sharing_pool, place_pod
from tests.kit.bench import Bench
from tests.kit.builders import build_pod, build_pool
from tests.kit.commandline import run_command
from tests.kit.expect import expect, expect_running
from tests.kit.persons import a_person, a_rule

Json = dict[str, Any]

DEPLOYMENTS = f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments"
RBAC = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{NAMESPACE}"
VALUES = {"deploy": "true", "eviction.enabled": "true", "webhook.onNoPool": "deny"}
CONTROLLER = f"deployment {NAMESPACE}/gpushare-controller"
WEBHOOK = f"deployment {NAMESPACE}/gpushare-webhook"
READ = (
    f"{CONTROLLER}: eviction.enabled true, memoryUnit GiB; "
    "default: teardown.jobs.enabled false; "
    f"{WEBHOOK}: webhook.onNoPool deny, webhook.schedulers default-scheduler"
)
ON_REQUEST = {"selection": "OnRequest"}
READER = [
    *(a_rule(resource, "list") for resource in ("nodes", "pods", "namespaces")),
    a_rule("daemonsets", "list", group="apps"),
    a_rule("gpusharepools", "list", group="gpushare.io"),
]


@dataclass(frozen=True)
class Scene:
    """A pool that takes pods on request, with one that runs in it, and the chart's Deployments."""

    bench: Bench
    folder: Path

    def read(self, *arguments: str, kubeconfig: Path | None = None) -> Json:
        """What a command says, as data."""
        whose = kubeconfig or self.bench.cluster.kubeconfig
        ended = run_command(*arguments, "-o", "json", kubeconfig=whose)
        # Doctor finds that nothing of the Deployments runs.
        assert (ended.code in (Exit.OK, Exit.ERRORS_FOUND), ended.err) == (True, ""), ended
        found: Json = json.loads(ended.out)
        return found

    def write(self, name: str, *objects: Json) -> str:
        file = self.folder / name
        file.write_text(yaml.safe_dump_all(objects))
        return str(file)

    def find_setup(self, *arguments: str, kubeconfig: Path | None = None) -> str:
        """What `doctor` says of it."""
        findings = self.read("doctor", *arguments, kubeconfig=kubeconfig)["findings"]
        (told,) = (each["message"] for each in findings if each["code"].startswith("Setup"))
        return str(told)

    def plan_eviction(self, *arguments: str) -> Json:
        """A change that evicts pods, if it may."""
        pool = build_pool(schedule="cgpu", rollout={"workloads": "Evict"}, workloads=ON_REQUEST)
        return self.read("plan", "-f", self.write("pool.yaml", pool), *arguments)

    def explain_pod(self, *arguments: str) -> Json:
        """A pod that no pool takes."""
        return self.read("explain", "-f", self.write("pod.yaml", build_pod("lost")), *arguments)


@pytest.fixture(scope="module")
def scene(installed: Bench, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    installed.operators.end_all()
    given_sharing_pool(installed, "Professional", "n1", workloads=ON_REQUEST)
    expect_running(installed, place_pod(installed, "busy", "n1"))
    rendered = Installation(installed.cluster, VALUES, all_in_one=False).render()
    ours = [m for m in yaml.safe_load_all(rendered) if m and m["kind"] == "Deployment"]
    for manifest in ours:
        # Its processes run beside the cluster.
        manifest["spec"]["replicas"] = 0
        installed.call("POST", DEPLOYMENTS, manifest)
    yield Scene(installed, tmp_path_factory.mktemp("setup"))
    for manifest in ours:
        installed.call("DELETE", f"{DEPLOYMENTS}/{manifest['metadata']['name']}")
    installed.clear()


def expect_as_set(scene: Scene, *arguments: str) -> None:
    """All three commands go by what the Deployments say."""
    assert scene.find_setup(*arguments) == READ
    planned, explained = scene.plan_eviction(*arguments), scene.explain_pod(*arguments)
    for said in (planned, explained):
        assert said["setup"]["GPUSHARE_ALLOW_EVICTION"] == {"value": True, "source": CONTROLLER}
        assert said["setup"]["GPUSHARE_ON_NO_POOL"] == {"value": "deny", "source": WEBHOOK}
    assert find_evicted(planned) == ["default/busy"]
    assert explained["objects"][0]["decision"]["refused"]


def find_evicted(planned: Json) -> list[str]:
    ((step,),) = (pool["steps"] for pool in planned["pools"])
    evicted: list[str] = step["evictedPods"]
    return evicted


def test_each_command_goes_by_what_the_deployments_say(scene: Scene) -> None:
    expect_as_set(scene)


def test_a_wide_page_says_where_each_value_is_from_and_a_narrow_one_nothing(scene: Scene) -> None:
    kubeconfig = scene.bench.cluster.kubeconfig
    for asked in (["explain", "pool", "training"], ["plan", "pool", "training"]):
        wide = run_command(*asked, "-o", "wide", kubeconfig=kubeconfig)
        assert wide.out.splitlines()[-1] == (
            f"Set by {CONTROLLER}: eviction.enabled true, memoryUnit GiB; "
            "default: teardown.jobs.enabled false"
        )
        narrow = run_command(*asked, kubeconfig=kubeconfig)
        assert (narrow.code, "eviction.enabled" in narrow.out) == (Exit.OK, False)


def test_options_go_before_the_deployments(scene: Scene) -> None:
    planned = scene.plan_eviction("--no-eviction-enabled")
    assert find_evicted(planned) == []
    explained = scene.explain_pod("--on-no-pool", "allow")
    assert explained["objects"][0]["decision"]["refused"] is None
    assert explained["setup"]["GPUSHARE_ON_NO_POOL"]["source"] == "--on-no-pool"


def test_a_snapshot_keeps_what_it_needs_of_them_and_nothing_else(scene: Scene) -> None:
    file = scene.folder / "cluster.json"
    taken = run_command("snapshot", "-o", str(file), kubeconfig=scene.bench.cluster.kubeconfig)
    assert (taken.code, taken.err) == (0, "")
    expect_as_set(scene, "--snapshot", str(file))
    kept = json.loads(file.read_bytes())["deployments"]
    assert {each["metadata"]["name"] for each in kept} == {
        "gpushare-controller",
        "gpushare-webhook",
    }
    assert "image" not in json.dumps(kept)
    assert "GPUSHARE_LOG_LEVEL" not in json.dumps(kept)


def test_who_may_not_read_them_is_told_what_is_assumed(scene: Scene) -> None:
    with a_person(scene.bench, scene.folder, READER) as kubeconfig:
        page = expect(
            scene.bench,
            "the role is in force",
            lambda: run_command("explain", "pool", "training", kubeconfig=kubeconfig).out,
        )
    assert page.splitlines()[-1] == (
        "Assumed, since no Deployment of the operator can be read: eviction.enabled false, "
        "teardown.jobs.enabled false, memoryUnit GiB"
    )


def test_who_may_read_them_in_the_operators_namespace_alone_needs_no_more(scene: Scene) -> None:
    with (
        a_person(scene.bench, scene.folder, READER, name="neighbour") as kubeconfig,
        a_role(scene.bench, "neighbour"),
    ):
        expect(
            scene.bench,
            "the roles are in force",
            lambda: scene.find_setup(kubeconfig=kubeconfig) == READ,
        )


@contextmanager
def a_role(bench: Bench, account: str) -> Iterator[None]:
    """Lets that account read Deployments in the operator's namespace."""
    meta = {"metadata": {"name": account}}
    rules = [a_rule("deployments", "list", group="apps")]
    bench.call("POST", f"{RBAC}/roles", {**meta, "rules": rules})
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": account}
    subject = {"kind": "ServiceAccount", "name": account, "namespace": "default"}
    bench.call("POST", f"{RBAC}/rolebindings", {**meta, "roleRef": role, "subjects": [subject]})
    try:
        yield
    finally:
        bench.call("DELETE", f"{RBAC}/rolebindings/{account}")
        bench.call("DELETE", f"{RBAC}/roles/{account}")
