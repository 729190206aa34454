"""What the chart does for an installation that is relied on: replicas, security, notes."""

import pytest

from devcluster.installation import NAMESPACE, RELEASE
from devcluster.startup import CHART
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
    ("priority", "has_quota"), [("system-cluster-critical", True), ("ours", False), ("", False)]
)
def test_a_critical_pod_is_let_in_where_that_takes_a_quota(
    installed: Bench, priority: str, has_quota: bool
) -> None:
    objects = render_named(installed.cluster, {"priorityClassName": priority})
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
    assert metrics["from"]
    assert [each["port"] for rule in policy["egress"] for each in rule["ports"]] == [53, 53, 6443]
    assert policy["policyTypes"] == ["Ingress", "Egress"]


# What is said at the end of an installation.


def read_notes(bench: Bench, **values: str) -> str:
    settings = [f"--set={key}={value}" for key, value in values.items()]
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
