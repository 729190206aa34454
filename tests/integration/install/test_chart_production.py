"""What the chart does for an installation that is relied on: replicas, security, notes."""

import pytest

from devcluster.installation import IMAGE, NAMESPACE, RELEASE
from devcluster.startup import CHART
from gpushare import names
from tests.integration.chart.chart_values import Values, expect_no_mesh, pod_of, render_named
from tests.kit.bench import Bench, Json

OFTEN_SET: Values = {
    "nodeSelector": {"disk": "ssd"},
    "tolerations": [{"operator": "Exists"}],
    "affinity": {"nodeAffinity": {"x": "y"}},
    "podAnnotations": {"note": "kept"},
    "podLabels": {"team": "ml", "app.kubernetes.io/component": "impostor"},
    "imagePullSecrets": [{"name": "registry"}],
    "priorityClassName": "ours",
}
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"

each_role = pytest.mark.parametrize("role", ["controller", "webhook"])


@each_role
def test_there_are_two_of_each_spread_over_hosts_and_zones(installed: Bench, role: str) -> None:
    deployment = render_named(installed.cluster, {})["Deployment", f"gpushare-{role}"]["spec"]
    assert deployment["replicas"] == 2
    spec = deployment["template"]["spec"]
    (hosts,) = spec["topologySpreadConstraints"]
    assert hosts["topologyKey"] == "kubernetes.io/hostname"
    # Where there is one host, both run there.
    assert hosts["whenUnsatisfiable"] == "ScheduleAnyway"
    (zones,) = spec["affinity"]["podAntiAffinity"][PREFERRED]
    assert zones["podAffinityTerm"]["topologyKey"] == "topology.kubernetes.io/zone"
    for each in (hosts, zones["podAffinityTerm"]):
        assert each["labelSelector"] == deployment["selector"]
    # Service gpushare-webhook would be GPUSHARE_WEBHOOK_PORT=tcp://...
    assert spec["enableServiceLinks"] is False


@each_role
def test_pods_can_be_told_apart_and_placed(installed: Bench, role: str) -> None:
    objects = render_named(installed.cluster, OFTEN_SET)
    metadata = objects["Deployment", f"gpushare-{role}"]["spec"]["template"]["metadata"]
    spec = pod_of(objects, role)
    for key in ("nodeSelector", "tolerations", "imagePullSecrets", "priorityClassName"):
        assert spec[key] == OFTEN_SET[key]
    assert set(spec["affinity"]) == {"nodeAffinity", "podAntiAffinity"}
    assert metadata["annotations"]["note"] == "kept"
    assert metadata["labels"]["team"] == "ml"
    # What the Deployment and the Service select on is nobody's to change.
    assert metadata["labels"]["app.kubernetes.io/component"] == role


@each_role
def test_they_keep_off_gpu_nodes_which_the_operator_cordons(installed: Bench, role: str) -> None:
    objects = render_named(installed.cluster, {})
    pods = pod_of(objects, role), objects["Job", "gpushare-uninstall"]["spec"]["template"]["spec"]
    for spec in pods:
        (term,) = spec["affinity"]["nodeAffinity"][PREFERRED]
        asked = {each["key"]: each["operator"] for each in term["preference"]["matchExpressions"]}
        # By ACK, by NVIDIA's feature discovery, and by the operator.
        assert asked == dict.fromkeys(
            ("aliyun.accelerator/nvidia_name", "nvidia.com/gpu.present", names.LABEL_POOL),
            "DoesNotExist",
        )
    own: Json = {"nodeAffinity": {PREFERRED: [{"weight": 1, "preference": {}}]}}
    given = pod_of(render_named(installed.cluster, {"affinity": own}), role)["affinity"]
    assert given["nodeAffinity"] == own["nodeAffinity"]


def test_each_component_may_be_placed_by_itself(installed: Bench) -> None:
    zones = {"topologyKey": "zone", "maxSkew": 2, "whenUnsatisfiable": "DoNotSchedule"}
    own: Values = {
        "nodeSelector": {"disk": "hdd"},
        "tolerations": [{"key": "edge", "operator": "Exists"}],
        "topologySpreadConstraints": [zones],
    }
    values = {**OFTEN_SET, **{f"webhook.{key}": value for key, value in own.items()}}
    objects = render_named(installed.cluster, values)
    webhook, controller = pod_of(objects, "webhook"), pod_of(objects, "controller")
    for key in ("nodeSelector", "tolerations"):
        assert webhook[key] == own[key]
        assert controller[key] == OFTEN_SET[key]
    (constraint,) = webhook["topologySpreadConstraints"]
    selector = objects["Deployment", "gpushare-webhook"]["spec"]["selector"]
    assert constraint == {**zones, "labelSelector": selector}
    (constraint,) = controller["topologySpreadConstraints"]
    assert constraint["topologyKey"] == "kubernetes.io/hostname"


def test_labels_for_all_objects_take_no_others_place(installed: Bench) -> None:
    values = {
        **OFTEN_SET,
        "commonLabels": {"cost-centre": "gpu", "team": "all", "app.kubernetes.io/name": "impostor"},
        "serviceAccountAnnotations": {"note": "kept"},
        "dnsConfig": {"options": [{"name": "ndots", "value": "2"}]},
    }
    objects = render_named(installed.cluster, values)
    for (kind, name), each in objects.items():
        if kind == "CustomResourceDefinition":
            continue
        labels = each["metadata"]["labels"]
        told = (labels["cost-centre"], labels["team"], labels["app.kubernetes.io/name"])
        assert told == ("gpu", "all", "gpushare-operator"), (kind, name)
    for role in ("controller", "webhook"):
        assert objects["ServiceAccount", f"gpushare-{role}"]["metadata"]["annotations"] == {
            "note": "kept"
        }
        assert pod_of(objects, role)["dnsConfig"] == values["dnsConfig"]
        template = objects["Deployment", f"gpushare-{role}"]["spec"]["template"]
        # A more special value goes first.
        assert template["metadata"]["labels"]["team"] == "ml"
        assert template["metadata"]["labels"]["cost-centre"] == "gpu"


@each_role
def test_no_service_mesh_comes_between_them_and_the_api_server(installed: Bench, role: str) -> None:
    deployment = render_named(installed.cluster, OFTEN_SET)["Deployment", f"gpushare-{role}"]
    expect_no_mesh(deployment["spec"]["template"])


@pytest.mark.parametrize(
    ("replicas", "kept"),
    [
        (2, {"controller": {"maxUnavailable": 1}, "webhook": {"minAvailable": 1}}),
        (1, {"controller": {"maxUnavailable": 1}}),
    ],
    ids=["of two one at a time", "of one it is not held up"],
)
def test_a_drain_takes_them(installed: Bench, replicas: int, kept: dict[str, Json]) -> None:
    values = {"controller.replicas": replicas, "webhook.replicas": replicas}
    objects = render_named(installed.cluster, values)
    budgets = {name: each["spec"] for (kind, name), each in objects.items() if "Budget" in kind}
    assert budgets == {
        f"gpushare-{role}": {
            **limit,
            "selector": objects["Deployment", f"gpushare-{role}"]["spec"]["selector"],
            "unhealthyPodEvictionPolicy": "AlwaysAllow",
        }
        for role, limit in kept.items()
    }


@pytest.mark.parametrize(
    ("values", "has_quota"),
    [
        ({}, True),
        ({"priorityClassQuota": False}, False),
        ({"priorityClassName": "ours"}, False),
        ({"priorityClassName": ""}, False),
    ],
)
def test_a_critical_pod_is_let_in_where_that_takes_a_quota(
    installed: Bench, values: Values, has_quota: bool
) -> None:
    objects = render_named(installed.cluster, values)
    priority = values.get("priorityClassName", "system-cluster-critical")
    assert pod_of(objects, "webhook").get("priorityClassName", "") == priority
    assert (("ResourceQuota", "gpushare-critical-pods") in objects) is has_quota


@each_role
def test_metrics_are_read_from_every_pod(installed: Bench, role: str) -> None:
    objects = render_named(installed.cluster, {"serviceMonitor.enabled": True})
    template = objects["Deployment", f"gpushare-{role}"]["spec"]["template"]
    selector = objects["Service", "gpushare-metrics"]["spec"]["selector"]
    assert selector.items() <= template["metadata"]["labels"].items()
    ports = template["spec"]["containers"][0]["ports"]
    assert {"name": "metrics", "containerPort": 8080} in ports
    (endpoint,) = objects["ServiceMonitor", "gpushare"]["spec"]["endpoints"]
    assert (endpoint["port"], endpoint["honorLabels"]) == ("metrics", True)


def test_with_a_network_policy_only_what_is_needed_is_open(installed: Bench) -> None:
    values = {"networkPolicy.enabled": True, "networkPolicy.apiServerPorts": [6443]}
    policy = render_named(installed.cluster, values)["NetworkPolicy", "gpushare"]["spec"]
    webhook, metrics = policy["ingress"]
    assert webhook == {"ports": [{"protocol": "TCP", "port": "webhook"}]}
    assert metrics["ports"] == [{"protocol": "TCP", "port": "metrics"}]
    named = "kubernetes.io/metadata.name"
    (readers,) = (each["namespaceSelector"] for each in metrics["from"])
    namespaces = {"key": named, "operator": "In", "values": ["monitoring", "arms-prom"]}
    assert readers == {"matchExpressions": [namespaces]}
    assert [each["port"] for rule in policy["egress"] for each in rule["ports"]] == [53, 53, 6443]
    assert policy["policyTypes"] == ["Ingress", "Egress"]


def test_metrics_are_open_to_all_where_no_namespace_is_named(installed: Bench) -> None:
    values = {"networkPolicy.enabled": True, "networkPolicy.metricsNamespaces": []}
    policy = render_named(installed.cluster, values)["NetworkPolicy", "gpushare"]["spec"]
    assert policy["ingress"][1]["from"] == [{"namespaceSelector": {}}]


@pytest.mark.parametrize(
    ("runbooks", "told"),
    [
        ("", {"runbook": "docs/runbooks.md#gpusharenowebhook"}),
        ("https://wiki.example.com", {"runbook_url": "https://wiki.example.com#gpusharenowebhook"}),
    ],
)
def test_an_alert_links_to_a_runbook_only_where_there_is_a_url(
    installed: Bench, runbooks: str, told: dict[str, str]
) -> None:
    values = {"prometheusRule.enabled": True, "prometheusRule.runbooks": runbooks}
    groups = render_named(installed.cluster, values)["PrometheusRule", "gpushare"]["spec"]["groups"]
    rules = [rule for group in groups for rule in group["rules"]]
    (alert,) = (rule for rule in rules if rule.get("alert") == "GPUShareNoWebhook")
    given = {key: text for key, text in alert["annotations"].items() if "runbook" in key}
    assert given == told


# What is said at the end of an installation.


def read_notes(bench: Bench, **values: str) -> str:
    settings = [
        f"--set={key}={value}" for key, value in {"image.repository": IMAGE, **values}.items()
    ]
    answer = bench.cluster.helm(
        "install", RELEASE, str(CHART), f"--namespace={NAMESPACE}",
        "--dry-run=client", *settings,
    )  # fmt: skip
    return answer.partition("\nNOTES:\n")[2]


def test_the_notes_give_the_next_three_commands_and_warn_of_nothing(installed: Bench) -> None:
    notes = read_notes(installed)
    commands = [line.strip() for line in notes.splitlines() if line.startswith("  kubectl ")]
    assert [command.split()[1] for command in commands] == ["apply", "describe", "patch"]
    assert "WARNING" not in notes


@pytest.mark.parametrize(
    ("values", "warning"),
    [
        ({"webhook.failurePolicy": "Fail"}, "while no webhook answers"),
        ({"webhook.failurePolicy": "Fail", "webhook.replicas": "1"}, "Set it to 2 or more"),
        ({"webhook.replicas": "1"}, "webhook.replicas is below 2"),
        ({"allInOne": "true", "controller.replicas": "1"}, "controller.replicas is below 2"),
        ({"controller.replicas": "1"}, "stays cordoned"),
        ({"webhook.isolationPolicy.enabled": "false"}, "are created without it"),
        ({"crds.keep": "false"}, "deletes every pool"),
        ({"uninstall.hook": "false"}, "leaves pools that cannot be deleted"),
        ({"eviction.enabled": "true"}, "evicted in every namespace"),
        (
            {
                "teardown.jobs.enabled": "true",
                "teardown.jobs.image.repository": "shell",
                "teardown.jobs.image.tag": "v1",
            },
            "who can push shell:v1 is root there",
        ),
        ({"webhook.certificate.mode": "provided"}, "renew the certificate"),
        ({"webhook.certificate.lifetimeSeconds": "3600"}, "below a day"),
        ({"webhook.certificate.authorityLifetimeSeconds": "8000000"}, "bring a new CA"),
    ],
    ids=str,
)
def test_the_notes_warn_of_what_is_not_safe(
    installed: Bench, values: dict[str, str], warning: str
) -> None:
    notes = read_notes(installed, **values)
    assert "WARNING" in notes
    assert warning in notes
