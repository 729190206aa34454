"""`gpushare doctor` against a real API server: a healthy installation, and what is broken in it."""

import base64
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

from devcluster.installation import Installation, split_crds
from devcluster.plugins import build_nvidia_plugin
from gpushare.certs.issue import issue_authority
from gpushare.cli.exits import Exit
from gpushare.core.doctor.grants import Scope, list_grants
from tests.kit.bench import DAEMONSETS, NODES, Bench
from tests.kit.builders import build_pool
from tests.kit.commandline import Ended, expect_told, run_command
from tests.kit.expect import expect, expect_pool_ready
from tests.kit.faultproxy import FaultProxy, Rule
from tests.kit.persons import a_person
from tests.kit.tokens import write_kubeconfig

Json = dict[str, Any]

CONFIGURATION = (
    "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/gpushare-webhook"
)
CONTROLLER = "/api/v1/namespaces/gpushare-system/serviceaccounts/gpushare-controller"
SHARE = {"ack.node.gpu.schedule": "share"}
NVIDIA = "nvidia-device-plugin-daemonset"


LEASE = "/apis/coordination.k8s.io/v1/namespaces/gpushare-system/leases/gpushare-controller"
HEALTHY = """\
SEVERITY  CODE                OBJECT                                     FINDING
info      NoDeployments       deployments                                parts of an installation \
are in the cluster, and no Deployment of it
info      SetupAssumed        setup                                      assumed, since no \
Deployment of the operator is there: eviction.enabled false, teardown.jobs.enabled false, \
memoryUnit GiB, webhook.onNoPool allow, webhook.schedulers default-scheduler
ok        ControllerActive    lease gpushare-system/gpushare-controller  {holder} holds it
ok        CrdCurrent          crd gpusharepools.gpushare.io              it serves v1alpha1 with \
this program's schema
ok        WebhookConfigured   webhook configuration gpushare-webhook     its 3 webhooks are as the \
chart makes them, whatever its values
ok        CertificateTrusted  webhook configuration gpushare-webhook     the CA of its caBundle is \
valid for 3649 days more
ok        RightsComplete      rights of the operator's accounts          6 roles and their \
bindings hold what this version needs
ok        PluginsServe        nodes                                      2 of 2 labelled nodes \
serve what their labels say
ok        PoolsAsPlanned      pools                                      1 of 1 pools is readable, \
and neither in conflict nor halted
ok        YourRights          your rights                                you may do all that \
commands ask for
ok        WebhookAnswers      namespace default                          a pod that asks for GPU \
memory was decided on by the webhook (dry run)
ok        WebhookAnswers      namespace default                          who applies a Deployment \
of such pods is told by the webhook of them (dry run)

0 error, 0 warning, 2 info, 10 ok
"""


@dataclass(frozen=True)
class Scene:
    """A cluster with two nodes that share, in a pool that is ready."""

    bench: Bench
    folder: Path

    def run(self, *arguments: str, kubeconfig: Path | None = None) -> Ended:
        return run_command("doctor", *arguments, kubeconfig=kubeconfig or self.kubeconfig)

    @property
    def kubeconfig(self) -> Path:
        return self.bench.cluster.kubeconfig

    def find(self, *arguments: str, kubeconfig: Path | None = None) -> "Found":
        """What it finds, as data; its exit code says whether there are errors."""
        ended = self.run(*arguments, "-o", "json", kubeconfig=kubeconfig)
        assert ended.err == ""
        document = json.loads(ended.out)
        errors = document["counts"]["error"]
        assert ended.code == (Exit.ERRORS_FOUND if errors else Exit.OK)
        return Found(document["findings"])

    def expect(self, code: str, severity: str) -> Json:
        """The finding of that code, once there is one."""

        def probe() -> Json | None:
            found = self.find().of(code)
            return found[0] if found else None

        finding = expect(self.bench, f"doctor finds {code}", probe)
        assert finding["severity"] == severity, finding
        return finding


@dataclass(frozen=True)
class Found:
    """Findings of one look."""

    findings: list[Json]

    def of(self, code: str) -> list[Json]:
        return [each for each in self.findings if each["code"] == code]

    @property
    def codes(self) -> set[str]:
        return {each["code"] for each in self.findings}

    def codes_of(self, *severities: str) -> set[str]:
        return {each["code"] for each in self.findings if each["severity"] in severities}


@pytest.fixture(scope="module")
def scene(installed: Bench, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    installed.operators.end_all()
    installed.install("Professional")
    installed.add_nodes("n1", "n2", cards=2)
    installed.operators.standard()
    installed.create_pool(build_pool())
    expect_pool_ready(installed, nodes=2)
    yield Scene(installed, tmp_path_factory.mktemp("doctor"))
    installed.clear()


@contextmanager
def node_of_ones_own(bench: Bench, name: str, **options: Any) -> Iterator[None]:
    """A node that a person labelled, in no pool."""
    bench.add_nodes(name, labels=SHARE, node_pool="np2", **options)

    def serves() -> bool:
        offered = bench.node(name)["status"].get("allocatable") or {}
        return str(offered.get("aliyun.com/gpu-mem", "0")) != "0"

    expect(bench, f"{name} serves", serves)
    try:
        yield
    finally:
        bench.call("DELETE", f"{NODES}/{name}")


# What is well.


def test_a_healthy_installation_has_no_error(scene: Scene) -> None:
    found = scene.find()
    assert found.codes_of("error", "warning") == set(), found
    assert found.codes_of("ok") == {
        "ControllerActive", "CrdCurrent", "WebhookConfigured", "CertificateTrusted",
        "WebhookAnswers", "RightsComplete", "YourRights", "PluginsServe", "PoolsAsPlanned",
    }  # fmt: skip
    assert found.codes_of("info") == {"NoDeployments", "SetupAssumed"}


def test_the_page_says_it_for_people(scene: Scene) -> None:
    lease = scene.bench.call("GET", LEASE)["spec"]["holderIdentity"]
    ended = scene.run()
    assert (ended.code, ended.err) == (0, "")
    assert re.sub(r"\d+ days more", "3649 days more", ended.out) == HEALTHY.format(holder=lease)


def test_the_rights_that_it_looks_for_are_the_charts(scene: Scene) -> None:
    values = {"eviction.enabled": "true", "deploy": "true"}
    installation = Installation(scene.bench.cluster, values, all_in_one=False, teardown_jobs=True)
    manifests = [each for each in yaml.safe_load_all(installation.render()) if each]
    settings = {
        each["name"]: each["value"]
        for manifest in manifests
        if manifest["kind"] == "Deployment"
        for each in manifest["spec"]["template"]["spec"]["containers"][0]["env"]
        if "value" in each
    }
    roles = {
        (each["kind"], each["metadata"]["name"], each["metadata"].get("namespace")): {
            (group, resource, frozenset(rule["verbs"]), name)
            for rule in each["rules"]
            for group in rule["apiGroups"]
            for resource in rule["resources"]
            for name in rule.get("resourceNames", [""])
        }
        for each in manifests
        if each["kind"] in ("Role", "ClusterRole") and "uninstall" not in each["metadata"]["name"]
    }
    places = {
        Scope.CLUSTER: ("ClusterRole", None),
        Scope.INSTALLATION: ("Role", "gpushare-system"),
        Scope.PLUGINS: ("Role", "kube-system"),
        Scope.TEARDOWN: ("Role", "gpushare-teardown"),
        Scope.EXTENDER: ("Role", "kube-system"),
    }
    assert roles == {
        (places[grant.scope][0], grant.role, places[grant.scope][1]): {
            (need.group, need.resource, frozenset(need.verbs), need.name) for need in grant.needs
        }
        for grant in list_grants(settings)
    }


def test_a_trial_stores_nothing(scene: Scene) -> None:
    deployments = "/apis/apps/v1/deployments"
    before = scene.bench.pods(), scene.bench.call("GET", deployments)["items"]
    assert len(scene.find().of("WebhookAnswers")) == 2
    assert (scene.bench.pods(), scene.bench.call("GET", deployments)["items"]) == before


def test_a_namespace_that_is_exempt_is_not_tried(scene: Scene) -> None:
    (skipped,) = scene.find("-n", "kube-system").of("Skipped")
    assert skipped["object"] == "trials in namespace kube-system"
    assert "exempt" in skipped["message"]


def test_an_operator_in_a_namespace_that_is_not_there_is_a_slip(scene: Scene) -> None:
    ended = scene.run("--operator-namespace", "gpushare-sytem")
    told = "there is no namespace gpushare-sytem; did you mean gpushare-system?"
    expect_told(ended, Exit.NOT_FOUND, told)
    elsewhere = scene.run("--operator-namespace", "default")
    told = "there is no installation in namespace default; there is one in gpushare-system"
    expect_told(elsewhere, Exit.NOT_FOUND, told)


@pytest.mark.parametrize("options", [(), ("--operator-namespace", "default")])
def test_it_lists_the_operators_deployments_once(scene: Scene, options: tuple[str, ...]) -> None:
    mark = scene.bench.audit.mark()
    scene.run(*options)
    listed = [
        call.namespace
        for call in scene.bench.audit.calls(mark)
        if (call.verb, call.resource) == ("list", "deployments")
        and call.agent.startswith("gpushare-operator/")
    ]
    assert listed == [""]


# What is broken.


def test_a_ca_bundle_of_another_ca_is_found_by_a_trial(scene: Scene) -> None:
    bench = scene.bench
    other = base64.b64encode(issue_authority(datetime.now(UTC)).certificate_pem).decode()

    def broken() -> list[Json]:
        # Anew each time: the webhook puts its own CA back every ten seconds.
        found = bench.call("GET", CONFIGURATION)
        for webhook in found["webhooks"]:
            webhook["clientConfig"]["caBundle"] = other
        bench.call("PUT", CONFIGURATION, found)
        return scene.find().of("WebhookSilent")

    try:
        finding, *_ = expect(bench, "doctor finds WebhookSilent", broken)
        assert finding["severity"] == "error"
        assert "caBundle" in finding["remedy"]
    finally:
        bench.call("DELETE", CONFIGURATION)
        bench.operators.installation.apply()
        expect_well(scene)


def test_a_ca_bundle_that_can_not_be_read_and_selectors_that_were_changed(scene: Scene) -> None:
    bench = scene.bench
    before = bench.call("GET", CONFIGURATION)
    changed = json.loads(json.dumps(before))
    changed["webhooks"][0]["objectSelector"] = {"matchLabels": {"gpu": "true"}}
    changed["webhooks"][0]["failurePolicy"] = "Fail"
    changed["webhooks"][1]["namespaceSelector"] = {}
    changed["webhooks"][1]["timeoutSeconds"] = 30
    del changed["webhooks"][2]
    bench.call("PUT", CONFIGURATION, changed)
    try:
        # The API server itself hears of it a moment later.
        scene.expect("WorkloadsUnwarned", "warning")
        found = scene.find()
    finally:
        bench.call("DELETE", CONFIGURATION)
        bench.operators.installation.apply()
        expect_well(scene)
    told = " ".join(each["message"] for each in found.of("WebhookChanged"))
    assert "it has an objectSelector" in told
    assert "one of each was expected" in told
    assert "does not exempt gpushare-system and kube-system" in told
    (missing,) = found.of("WebhookMissing")
    assert missing["message"] == "it lacks workloads.gpushare.io"
    assert "timeoutSeconds differs, and one for all was expected: 3 s of pods.gpushare.io" in told
    (unwarned,) = found.of("WorkloadsUnwarned")
    assert unwarned["severity"] == "warning"


def test_a_plugin_that_counts_in_mib_among_others(scene: Scene) -> None:
    with node_of_ones_own(scene.bench, "mib", faults={"memory_unit": "MiB"}):
        found = scene.find()
    (mixed,) = found.of("UnitsMixed")
    assert mixed["message"] == "GiB on 2 of them, such as n1; MiB on 1 of them, such as mib"
    (node,) = found.of("MemoryUnitDiffers")
    assert (node["severity"], node["object"]) == ("error", "node mib")
    assert "--memory-unit=GiB" in node["remedy"]
    (by_hand,) = found.of("LabelledByHand")
    assert by_hand["object"] == "node mib"


def test_a_competing_plugin(scene: Scene) -> None:
    bench = scene.bench
    with node_of_ones_own(bench, "two"):
        bench.call("POST", DAEMONSETS, build_nvidia_plugin({"kubernetes.io/hostname": "two"}))
        try:
            finding = scene.expect("CompetingPlugins", "error")
        finally:
            bench.call("DELETE", f"{DAEMONSETS}/{NVIDIA}")
    assert finding["object"] == "node two"
    assert f"keep the DaemonSet {NVIDIA} off the node" in finding["remedy"]


def test_a_crd_of_an_older_schema(scene: Scene) -> None:
    installation = scene.bench.operators.installation
    (crd,), _ = split_crds(installation.render())
    spec = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    del spec["properties"]["isolationTeardown"]
    older = yaml.safe_dump(crd)
    scene.bench.cluster.kubectl("apply", "--server-side", "-f", "-", stdin=older)
    try:
        (finding,) = scene.find().of("CrdDiffers")
    finally:
        installation.apply()
    assert finding["severity"] == "error"
    assert finding["message"] == "it lacks spec.isolationTeardown"
    assert scene.find().of("CrdCurrent")


# Who may not look, and what is not there.


def test_without_rights_each_part_is_skipped_and_the_right_named(
    scene: Scene, tmp_path: Path
) -> None:
    with a_person(scene.bench, tmp_path) as visitor:
        found = scene.find(kubeconfig=visitor)
    assert found.codes == {"Skipped", "SetupAssumed", "YourRightsMissing"}
    skipped = {each["object"]: each["message"] for each in found.of("Skipped")}
    assert 'cannot list resource "nodes"' in skipped["nodes"]
    assert 'cannot get resource "customresourcedefinitions"' in skipped["crd"]
    assert 'cannot get resource "leases"' in skipped["lease"]
    told = " ".join(each["message"] for each in found.of("YourRightsMissing"))
    assert "list nodes, list pods" in told


def test_where_nothing_is_installed_the_nodes_are_looked_at_all_the_same(
    scene: Scene,
) -> None:
    absent = "/(deployments|leases|customresourcedefinitions|mutating|clusterrole|roles|rolebind)"
    with FaultProxy(scene.bench.cluster) as proxy:
        for path in (absent, "/gpusharepools"):
            body = b'{"kind": "Status", "reason": "NotFound", "code": 404}'
            proxy.add(Rule("GET", path, status=404, times=None, body=body))
        file = scene.folder / "kubeconfig"
        write_kubeconfig(scene.bench, file, CONTROLLER, server=proxy.url)
        found = scene.find(kubeconfig=file)
    assert found.codes == {
        "NotInstalled", "SetupAssumed", "LabelledByHand", "PluginsServe", "YourRights",
    }  # fmt: skip


def test_a_snapshot_is_looked_at_as_far_as_it_goes(scene: Scene, tmp_path: Path) -> None:
    file = tmp_path / "cluster.json"
    taken = run_command("snapshot", "-o", str(file), kubeconfig=scene.kubeconfig)
    assert (taken.code, taken.err) == (0, "")
    ended = run_command("doctor", "--snapshot", str(file), "-o", "yaml")
    assert (ended.code, ended.err) == (0, "")
    found = Found(yaml.safe_load(ended.out)["findings"])
    assert found.codes == {"Skipped", "SetupAssumed", "PluginsServe", "PoolsAsPlanned"}
    assert {each["object"] for each in found.of("Skipped")} == {
        "installation", "your rights", "trials in namespace default",
    }  # fmt: skip


def expect_well(scene: Scene) -> None:
    """Until the operator has put its CA back, and the API server takes it."""
    expect(
        scene.bench,
        "the webhook answers again",
        lambda: not scene.find().codes_of("error", "warning"),
        within_seconds=60,
    )
