"""What the chart does for an installation that is relied on: replicas, security, notes."""

from typing import Any

import pytest
import yaml

from devcluster.installation import NAMESPACE, RELEASE, Installation
from devcluster.startup import CHART
from tests.kit.bench import Bench

Json = dict[str, Any]


ROLES = ("controller", "webhook")
OFTEN_SET = {
    "nodeSelector.disk": "ssd",
    "tolerations[0].operator": "Exists",
    "affinity.nodeAffinity": "null",
    "podAnnotations.note": "kept",
    "podLabels.team": "ml",
    "podLabels.app\\.kubernetes\\.io/component": "impostor",
    "imagePullSecrets[0].name": "registry",
    "priorityClassName": "ours",
}
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
REPLICAS = {"controller.replicas": "1", "webhook.replicas": "1"}


class Rendered:
    """The objects of the chart with some values, without its CRD."""

    def __init__(self, bench: Bench, values: dict[str, str]) -> None:
        everything = {"deploy": "true", "allInOne": "false", **values}
        manifests = Installation(bench.cluster, values=everything).render()
        self.objects: list[Json] = [item for item in yaml.safe_load_all(manifests) if item]

    def has(self, kind: str, name: str) -> bool:
        return any((o["kind"], o["metadata"]["name"]) == (kind, name) for o in self.objects)

    def spec(self, kind: str, name: str) -> Json:
        (found,) = (o for o in self.objects if (o["kind"], o["metadata"]["name"]) == (kind, name))
        spec: Json = found["spec"]
        return spec

    def pod(self, role: str) -> Json:
        """The pod template of a role."""
        template: Json = self.spec("Deployment", f"gpushare-{role}")["template"]
        return template


def render(bench: Bench, **values: str) -> Rendered:
    return Rendered(bench, values)


@pytest.mark.parametrize("role", ROLES)
def test_there_are_two_of_each_spread_over_hosts_and_zones(installed: Bench, role: str) -> None:
    rendered = render(installed)
    deployment = rendered.spec("Deployment", f"gpushare-{role}")
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


def test_what_else_an_affinity_says_holds_beside_that(installed: Bench) -> None:
    term = "affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.x"
    affinity = render(installed, **{term: "y"}).pod("webhook")["spec"]["affinity"]
    assert set(affinity) == {"nodeAffinity", "podAntiAffinity"}


def test_a_drain_takes_one_of_them_at_a_time(installed: Bench) -> None:
    rendered = render(installed)
    for role, kept in (("controller", {"maxUnavailable": 1}), ("webhook", {"minAvailable": 1})):
        budget = rendered.spec("PodDisruptionBudget", f"gpushare-{role}")
        assert budget.items() >= kept.items()
        assert budget["selector"] == rendered.spec("Deployment", f"gpushare-{role}")["selector"]
        assert budget["unhealthyPodEvictionPolicy"] == "AlwaysAllow"


def test_where_there_is_one_of_each_no_drain_is_held_up(installed: Bench) -> None:
    rendered = render(installed, **REPLICAS)
    assert not rendered.has("PodDisruptionBudget", "gpushare-webhook")
    assert "minAvailable" not in rendered.spec("PodDisruptionBudget", "gpushare-controller")


@pytest.mark.parametrize(
    ("priority", "has_quota"), [("system-cluster-critical", True), ("ours", False), ("", False)]
)
def test_a_critical_pod_is_let_in_where_that_takes_a_quota(
    installed: Bench, priority: str, has_quota: bool
) -> None:
    rendered = render(installed, priorityClassName=priority)
    assert rendered.pod("webhook")["spec"].get("priorityClassName", "") == priority
    assert rendered.has("ResourceQuota", "gpushare-critical-pods") is has_quota


@pytest.mark.parametrize("role", ROLES)
def test_no_service_of_the_namespace_becomes_a_setting(installed: Bench, role: str) -> None:
    # Service gpushare-webhook would be GPUSHARE_WEBHOOK_PORT=tcp://...
    assert render(installed).pod(role)["spec"]["enableServiceLinks"] is False


@pytest.mark.parametrize("role", ROLES)
def test_pods_can_be_told_apart_and_placed(installed: Bench, role: str) -> None:
    rendered = render(installed, **OFTEN_SET)
    template = rendered.pod(role)
    spec = template["spec"]
    assert spec["nodeSelector"] == {"disk": "ssd"}
    assert spec["tolerations"] == [{"operator": "Exists"}]
    assert spec["imagePullSecrets"] == [{"name": "registry"}]
    assert spec["priorityClassName"] == "ours"
    assert template["metadata"]["annotations"] == {"note": "kept"}
    assert template["metadata"]["labels"]["team"] == "ml"
    # What the Deployment and the Service select on is nobody's to change.
    assert template["metadata"]["labels"]["app.kubernetes.io/component"] == role


def test_metrics_are_read_from_every_pod(installed: Bench) -> None:
    rendered = render(installed, **{"serviceMonitor.enabled": "true"})
    service = rendered.spec("Service", "gpushare-metrics")
    for role in ROLES:
        template = rendered.pod(role)
        assert service["selector"].items() <= template["metadata"]["labels"].items()
        ports = template["spec"]["containers"][0]["ports"]
        assert {"name": "metrics", "containerPort": 8080} in ports
    assert rendered.spec("ServiceMonitor", "gpushare")["endpoints"][0]["port"] == "metrics"
    assert not render(installed).has("ServiceMonitor", "gpushare")


def test_a_pod_is_reached_at_the_port_that_it_calls_so_whatever_an_upgrade_changed(
    installed: Bench,
) -> None:
    rendered = render(installed, **{"webhook.port": "9444"})
    (container,) = rendered.pod("webhook")["spec"]["containers"]
    assert {"name": "webhook", "containerPort": 9444} in container["ports"]
    (port,) = rendered.spec("Service", "gpushare-webhook")["ports"]
    assert port["targetPort"] == "webhook"


def test_with_a_network_policy_only_what_is_needed_is_open(installed: Bench) -> None:
    assert not render(installed).has("NetworkPolicy", "gpushare")
    values = {"networkPolicy.enabled": "true", "networkPolicy.apiServerPorts": "{6443}"}
    policy = render(installed, **values).spec("NetworkPolicy", "gpushare")
    webhook, metrics = policy["ingress"]
    assert webhook == {"ports": [{"protocol": "TCP", "port": "webhook"}]}
    assert metrics["ports"] == [{"protocol": "TCP", "port": "metrics"}]
    assert metrics["from"]
    assert [each["port"] for rule in policy["egress"] for each in rule["ports"]] == [53, 53, 6443]
    assert policy["policyTypes"] == ["Ingress", "Egress"]


# The CRD.


@pytest.mark.parametrize(
    ("values", "annotations"),
    [
        ({}, [{"helm.sh/resource-policy": "keep"}]),
        ({"crds.keep": "false"}, [{}]),
        ({"crds.install": "false"}, []),
    ],
    ids=str,
)
def test_the_crd_is_a_template_like_any_other_so_an_upgrade_changes_it(
    installed: Bench, values: dict[str, str], annotations: list[Json]
) -> None:
    rendered = render(installed, **values)
    crds = [o for o in rendered.objects if o["kind"] == "CustomResourceDefinition"]
    assert [crd["metadata"].get("annotations", {}) for crd in crds] == annotations


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
        ({"webhook.failurePolicy": "Fail", "webhook.replicas": "1"}, "make it 2 or more"),
        ({"webhook.replicas": "1"}, "webhook.replicas is below 2"),
        ({"allInOne": "true", "controller.replicas": "1"}, "controller.replicas is below 2"),
        ({"controller.replicas": "1"}, "stays cordoned"),
        ({"webhook.isolationPolicy.enabled": "false"}, "are created without it"),
        ({"crds.keep": "false"}, "deletes every pool"),
        ({"uninstall.hook": "false"}, "leaves pools that nothing can delete"),
        ({"eviction.enabled": "true"}, "evicted in every namespace"),
        (
            {
                "teardown.jobs.enabled": "true",
                "teardown.jobs.image.repository": "shell",
                "teardown.jobs.image.tag": "v1",
            },
            "who may push shell:v1 is root there",
        ),
        ({"webhook.certificate.mode": "provided"}, "nobody but you renews"),
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
