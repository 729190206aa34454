"""What a stolen token of the controller's is worth: what the controller does, and nothing else."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from devcluster.installation import Installation
from tests.integration.install.account_attacks import ATTACKS, BYSTANDER, NODE, POOL, Attack
from tests.integration.install.stolen_token import APPLY, JSON_PATCH, MERGE_PATCH, StolenToken
from tests.kit.bench import DAEMONSETS, NODES, PLUGIN, PODS, POOLS, SYSTEM_PODS, Bench
from tests.kit.cluster.audit_log import THIEF
from tests.kit.cluster.expect import expect
from tests.kit.values.manifests import build_pod, build_pool, build_workload

Json = dict[str, Any]

POLICIES = ("gpushare-controller-nodes", "gpushare-controller-pods", "gpushare-controller-pools")
_POLICIES = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"
_IMPOSTORS = "/apis/apps/v1/namespaces/default/daemonsets"
_NODE = f"{NODES}/{NODE}"
_POOL = f"{POOLS}/{POOL}"
_OURS = "fieldManager=gpushare-operator&force=true"
_APPLIED = f"{_NODE}?{_OURS}"
_IDENTITY = {"apiVersion": "gpushare.io/v1alpha1", "kind": "GPUSharePool"}


@dataclass(frozen=True)
class Scene:
    """A cluster with something to attack, and the token to do it with."""

    bench: Bench
    token: StolenToken
    pods: dict[str, str]
    """Names of DaemonSets' pods, by what attacks call them."""

    def send(self, attack: Attack) -> tuple[int, str]:
        """Nothing of it stays."""
        path = attack.path.format_map(self.pods)
        if not attack.connects:
            path += f"{'&' if '?' in path else '?'}dryRun=All"
        is_patch = attack.method == "PATCH"
        content_type = attack.content_type if is_patch else "application/json"
        return self.token.send(attack.method, path, attack.body, content_type=content_type)


@pytest.fixture(scope="module")
def scene(installed: Bench) -> Iterator[Scene]:
    """A node with the plugin, and pods of others."""
    bystander = build_workload("DaemonSet", BYSTANDER, pod=build_pod("any", gib=None))
    impostor = build_workload("DaemonSet", PLUGIN, pod=build_pod("any", gib=None))
    installed.operators.end_all()
    installed.install("Professional")
    note = {"gpushare.io/retry": "1"}
    installed.add_nodes(NODE, labels={"ack.node.gpu.schedule": "share"}, annotations=note)
    installed.call("POST", DAEMONSETS, bystander)
    installed.call("POST", _IMPOSTORS, impostor)
    for path, name in ((PODS, "tenant"), (SYSTEM_PODS, "alone")):
        installed.call("POST", path, build_pod(name, gib=None))

    pool = build_pool(POOL)
    pool["metadata"]["finalizers"] = ["example.com/theirs", "gpushare.io/labels"]
    installed.create_pool(pool)

    def find_pod(path: str, owner: str) -> str | None:
        for pod in installed.pods(path):
            if any(each["name"] == owner for each in pod["metadata"].get("ownerReferences", ())):
                return str(pod["metadata"]["name"])
        return None

    pods = {
        BYSTANDER: expect(installed, "it runs", lambda: find_pod(SYSTEM_PODS, BYSTANDER)),
        "impostor": expect(installed, "it runs", lambda: find_pod(PODS, PLUGIN)),
        "plugin": expect(installed, "it runs", lambda: find_pod(SYSTEM_PODS, PLUGIN)),
    }
    scene = Scene(installed, StolenToken(installed, "gpushare-controller"), pods)
    # A moment after their creation the API server has taken up the policies.
    expect_refusals(scene, "a role", "a pod beside the plugins'", "a pool's mode")
    yield scene
    installed.call("DELETE", f"{DAEMONSETS}/{BYSTANDER}")
    installed.call("DELETE", f"{SYSTEM_PODS}/alone?gracePeriodSeconds=0")
    installed.clear()


@pytest.fixture(scope="module")
def almighty(scene: Scene) -> Iterator[Scene]:
    """The same with an account that RBAC keeps from nothing."""
    with scene.token.with_every_right():
        # Until RBAC lets through what the policies then refuse.
        expect_refusals(scene, "no node", "a pod of one's own", "no pool")
        yield scene


def expect_refusals(scene: Scene, *attacks: str) -> None:
    """Until the policies refuse these attacks."""
    for attack in (ATTACKS[name] for name in attacks):

        def is_refused(attack: Attack = attack) -> bool:
            return attack.refusal in scene.send(attack)[1]

        expect(scene.bench, f"{attack.method} {attack.path} is refused", is_refused)


# What the controller does.


@pytest.mark.parametrize(
    ("method", "path", "content_type", "body"),
    [
        ("PATCH", _NODE, MERGE_PATCH, {"metadata": {"labels": {"cgpu": "true"}}}),
        ("PATCH", _NODE, MERGE_PATCH, {"metadata": {"labels": {"ack.node.gpu.schedule": None}}}),
        ("PATCH", _NODE, MERGE_PATCH, {"metadata": {"annotations": {"gpushare.io/found": "{}"}}}),
        ("PATCH", _NODE, MERGE_PATCH, {"spec": {"unschedulable": True}}),
        (
            "PATCH",
            _NODE,
            JSON_PATCH,
            [{"op": "remove", "path": "/metadata/annotations/gpushare.io~1retry"}],
        ),
        (
            "PATCH",
            _APPLIED,
            APPLY,
            {
                "apiVersion": "v1",
                "kind": "Node",
                "metadata": {"name": NODE, "labels": {"gpushare.io/pool": "training"}},
                "spec": {"unschedulable": True},
            },
        ),
        ("DELETE", f"{SYSTEM_PODS}/{{plugin}}", MERGE_PATCH, None),
        (
            "PATCH",
            f"{_POOL}?{_OURS}",
            APPLY,
            {**_IDENTITY, "metadata": {"name": POOL, "finalizers": ["gpushare.io/labels"]}},
        ),
        ("PATCH", _POOL, JSON_PATCH, [{"op": "remove", "path": "/metadata/finalizers/1"}]),
        (
            "PATCH",
            f"{_POOL}/status?{_OURS}",
            APPLY,
            {**_IDENTITY, "metadata": {"name": POOL}, "status": {"observedGeneration": 1}},
        ),
    ],
    ids=[
        "a label", "no label", "a record", "the cordon", "no wish for another try", "all at once",
        "a plugin's pod", "our finalizer", "our finalizer no more", "a pool's status",
    ],
)  # fmt: skip
def test_what_the_controller_does_is_admitted(
    scene: Scene, method: str, path: str, content_type: str, body: Any
) -> None:
    status, answer = scene.send(Attack(method, path, "", body, content_type))
    assert status == 200, answer


# What else the token may be used for.


@pytest.mark.parametrize("attack", ATTACKS.values(), ids=list(ATTACKS))
def test_whatever_else_is_tried_with_its_token_is_refused(scene: Scene, attack: Attack) -> None:
    status, answer = scene.send(attack)
    assert status == 403, answer


@pytest.mark.parametrize("attack", ATTACKS.values(), ids=list(ATTACKS))
def test_so_it_is_even_where_the_account_was_given_every_right(
    almighty: Scene, attack: Attack
) -> None:
    status, answer = almighty.send(attack)
    assert (status, attack.refusal in answer) == (403, True), answer
    assert any(f"ValidatingAdmissionPolicy '{name}'" in answer for name in POLICIES)


def test_the_audit_log_tells_of_each(scene: Scene) -> None:
    bench, mark = scene.bench, scene.bench.audit.mark()
    refusal = ATTACKS["a taint"].refusal
    scene.send(ATTACKS["a taint"])

    def is_told() -> bool:
        calls = [call for call in bench.audit.calls(mark) if call.agent == THIEF]
        return any(call.code == 403 and refusal in call.message for call in calls)

    expect(bench, "the audit log tells of it", is_told)


def test_the_status_of_a_node_is_not_changed_along_with_it(scene: Scene) -> None:
    before = scene.bench.node(NODE)["status"]["capacity"]
    patch = {"status": {"capacity": {"aliyun.com/gpu-mem": "99"}}}
    scene.token.send("PATCH", _NODE, patch, content_type=MERGE_PATCH)
    assert scene.bench.node(NODE)["status"]["capacity"] == before


def test_others_are_none_of_its_business(scene: Scene) -> None:
    administrator = scene.bench.call("PATCH", f"{_NODE}?dryRun=All", {"metadata": {"labels": None}})
    assert "cgpu" not in administrator["metadata"].get("labels", {})


def test_a_node_with_very_many_labels_can_still_be_written(scene: Scene) -> None:
    many = {f"example.com/label-{number}": "x" for number in range(2000)}
    scene.bench.label(NODE, many)
    try:
        patch = {"metadata": {"labels": {"cgpu": "true"}}}
        status, answer = scene.send(Attack("PATCH", _NODE, "", patch))
        assert status == 200, answer[:1000]
    finally:
        scene.bench.label(NODE, dict.fromkeys(many))


@pytest.mark.parametrize("name", POLICIES)
def test_the_api_server_understands_every_expression(scene: Scene, name: str) -> None:
    def find_checked() -> Json | None:
        policy: Json = scene.bench.call("GET", f"{_POLICIES}/{name}")
        return policy if policy.get("status", {}).get("observedGeneration") else None

    status = expect(scene.bench, f"{name} is checked", find_checked)["status"]
    assert status.get("typeChecking", {}) == {}


# The switches.


def test_evictions_are_admitted_only_with_their_switch(almighty: Scene) -> None:
    evicts = ATTACKS["an eviction"]
    assert almighty.send(evicts)[0] == 403
    bench = almighty.bench
    Installation(bench.cluster, values={"eviction.enabled": "true"}).apply()
    try:
        expect(bench, "pods may be evicted", lambda: almighty.send(evicts)[0] == 201)
        assert almighty.send(ATTACKS["a tenant's pod"])[0] == 403
    finally:
        bench.operators.installation.apply()
        expect(bench, "no longer", lambda: almighty.send(evicts)[0] == 403)


def test_without_the_policy_there_is_no_trace_of_it(installed: Bench) -> None:
    values = {"controller.accountPolicy.enabled": "false"}
    manifests = Installation(installed.cluster, values=values).render()
    assert not any(name in manifests for name in POLICIES)
