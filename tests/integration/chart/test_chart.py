"""What the chart makes of values, and what values Helm refuses."""

import json

import pytest
import yaml

from devcluster.errors import CommandError
from gpushare.editions.registry import MODES
from tests.integration.chart.chart_values import (
    Values,
    pod_of,
    read_settings,
    render_named,
    render_objects,
)
from tests.kit.bench import Bench

WORKS = {"group": "example.com", "resource": "works", "kind": "Work", "templates": []}
PLACE = {"path": "spec.x", "replicas": ["spec.y[*].replicas"]}
WEBHOOKS = ("MutatingWebhookConfiguration", "gpushare-webhook")


def test_a_webhook_is_replaced_before_it_goes_and_has_the_time_to_drain(installed: Bench) -> None:
    objects = render_named(installed.cluster, {"webhook.drainSeconds": 40})
    spec = objects["Deployment", "gpushare-webhook"]["spec"]
    assert spec["strategy"]["rollingUpdate"] == {"maxUnavailable": 0, "maxSurge": 1}
    assert spec["template"]["spec"]["terminationGracePeriodSeconds"] >= 40 + 20
    assert read_settings(objects, "webhook")["GPUSHARE_DRAIN_SECONDS"] == "40"


def test_numbers_reach_the_processes_as_they_were_written(installed: Bench) -> None:
    values = {"webhook.replicas": 3, "controller.resourceSettleSeconds": 30}
    objects = render_named(installed.cluster, values)
    assert read_settings(objects, "controller")["GPUSHARE_RESOURCE_SETTLE_SECONDS"] == "30"
    webhook = read_settings(objects, "webhook")
    assert webhook["GPUSHARE_WEBHOOK_REPLICAS"] == "3"
    # By default, and not as 3.1536e+08.
    assert webhook["GPUSHARE_AUTHORITY_LIFETIME_SECONDS"] == "315360000"
    assert webhook["GPUSHARE_CERTIFICATE_LIFETIME_SECONDS"] == "7776000"


def test_the_controller_is_told_what_the_plugins_are_called(installed: Bench) -> None:
    name, value = "gpushare-device-plugin-ds", "plugin"
    objects = render_named(installed.cluster, {f"pluginDaemonSets.{name}": value})
    given = json.loads(read_settings(objects, "controller")["GPUSHARE_PLUGIN_DAEMONSETS"])
    known = {each for mode in MODES.values() for each in (*mode.daemonsets, mode.recoverer)} - {""}
    assert given == {each: each for each in known} | {name: value}


def test_the_webhook_is_called_on_terms_that_hold_nobody_up(installed: Bench) -> None:
    objects = render_named(installed.cluster, {"webhook.failurePolicy": "Ignore"})
    entries = objects[WEBHOOKS]["webhooks"]
    *pods, _, _ = entries
    for entry in entries:
        assert (entry["sideEffects"], entry["matchPolicy"]) == ("None", "Equivalent")
    assert [entry["timeoutSeconds"] for entry in entries] == [3, 3, 3, 1]
    # Another webhook may add containers to a pod after this one saw it.
    assert [entry["reinvocationPolicy"] for entry in pods] == ["IfNeeded"] * 2
    assert [entry["failurePolicy"] for entry in entries] == ["Ignore", "Fail", "Ignore", "Ignore"]


@pytest.mark.parametrize(
    "value",
    [
        "typo=1", "crds.keep=null", "controller.accountPolicy.enabled=null",
        "webhook.onNoPool=maybe", "webhook.failurePolicy=fail", "webhook.drainSeconds=-1",
        "pluginNamespace=x' || true || 'y", "pluginDaemonSets.cgpu-installer=x' || true || 'y",
        "pluginDaemonSets.cgpu-installer=null", "pluginDaemonSets.plugin=x",
        "image.repository=example.com/gpushare@sha256:0", "image.repository=Gpushare",
        "image.repository=example.com/gpushare:v1", "image.tag=v1@sha256:0", "image.tag=-v1",
        "webhook.url=https://a b", "webhook.url=https://:9443", "webhook.url=https://user@host",
        "webhook.url=https://host?x=1", "webhook.url=https://fd00::7", "webhook.url=https://a..b",
        "webhook.url=https://host:port", "webhook.url=https://host:65536",
        "webhook.url=https://999.1.1.1", "webhook.certificate.lifetimeSeconds=3153600001",
        "webhook.certificate.issuerRef.kind=ClusterIssuer",
        "webhook.certificate.issuerRef.Name=ours",
        "webhook.workloadKinds=[{group: a.k8s.io, resource: b, kind: C, templates: []}]",
    ],
)  # fmt: skip
def test_helm_refuses_a_value_of_no_use(installed: Bench, value: str) -> None:
    key, _, text = value.partition("=")
    with pytest.raises(CommandError, match="values don't meet the specifications of the schema"):
        render_objects(installed.cluster, {key: yaml.safe_load(text)})


@pytest.mark.parametrize(
    ("repository", "tag"),
    [
        ("localhost:5000/gpushare-operator", "v1"),
        ("[fd00::7]:5000/a/b__c", "_1.2-3"),
        ("registry.cn-hangzhou.example.com/platform/gpushare-operator", ""),
    ],
)
def test_an_image_may_come_from_any_registry(installed: Bench, repository: str, tag: str) -> None:
    values = {"image.repository": repository, "image.tag": tag}
    pod = pod_of(render_named(installed.cluster, values), "controller")
    assert pod["containers"][0]["image"] == f"{repository}:{tag or '0.1.0'}"


def test_an_image_has_to_be_named_where_the_chart_runs_it(installed: Bench) -> None:
    with pytest.raises(
        CommandError, match=r"image\.repository is not set.*--set image\.repository="
    ):
        render_objects(installed.cluster, {"image.repository": ""})
    assert render_objects(installed.cluster, {"image.repository": "", "deploy": False})


def test_one_process_has_one_account(installed: Bench) -> None:
    objects = render_objects(installed.cluster, {"allInOne": True})
    accounts = {each["metadata"]["name"] for each in objects if each["kind"] == "ServiceAccount"}
    given = {
        subject["name"]
        for each in objects
        if each["kind"] in ("RoleBinding", "ClusterRoleBinding")
        for subject in each["subjects"]
    }
    assert accounts == given == {"gpushare-controller", "gpushare-uninstall"}


def test_without_a_webhook_nothing_calls_it_or_waits_for_it(installed: Bench) -> None:
    values = {"webhook.enabled": False, "admissionPolicy.enabled": True, "allInOne": False}
    objects = render_named(installed.cluster, {**values, "prometheusRule.enabled": True})
    webhooks = [each for each in objects if each[1].startswith("gpushare-webhook")]
    # A hook takes it away, which an earlier installation may have left.
    assert webhooks == [("Secret", "gpushare-webhook-tls")]
    assert read_settings(objects, "controller")["GPUSHARE_ADMISSION_TABLE"] == "true"
    assert "gpushare.webhook" not in str(objects["PrometheusRule", "gpushare"])


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"pluginDaemonSets.gpushare-device-plugin-ds": "cgpu-installer"}, "has one name twice"),
        ({"webhook.port": 8443, "metricsPort": 8443}, "are both 8443"),
        ({"webhook.url": "https://webhook.example.com:9443"}, "set deploy to false"),
        ({"webhook.enabled": False}, "there is no admission policy either"),
        ({"webhook.caBundle": "Q0E="}, "set the mode to provided"),
        ({"webhook.certificate.issuerRef.name": "ours"}, "set the mode to cert-manager"),
        (
            {"webhook.caBundle": "Q0E=", "webhook.certificate.mode": "cert-manager"},
            "set the mode to provided",
        ),
        ({"webhook.workloadKinds": [WORKS, WORKS]}, "lists works.example.com twice"),
        (
            {"webhook.workloadKinds": [{**WORKS, "templates": [PLACE]}]},
            r"spec.y\[\*\].replicas of works.example.com has more",
        ),
    ],
    ids=str,
)
def test_helm_refuses_values_that_are_at_odds(
    installed: Bench, values: Values, sentence: str
) -> None:
    with pytest.raises(CommandError, match=sentence):
        render_objects(installed.cluster, values)


@pytest.mark.parametrize("ca_bundle", ["", "Q0E="])
def test_cert_manager_writes_the_ca_unless_it_is_given_for_an_issuer_without_one(
    installed: Bench, ca_bundle: str
) -> None:
    values = {
        "webhook.certificate.mode": "cert-manager",
        "webhook.certificate.issuerRef.name": "ours",
        "webhook.caBundle": ca_bundle,
    }
    found = render_named(installed.cluster, values)[WEBHOOKS]
    is_injected = "cert-manager.io/inject-ca-from" in found["metadata"].get("annotations", {})
    assert is_injected is not bool(ca_bundle)
    assert {each["clientConfig"].get("caBundle", "") for each in found["webhooks"]} == {ca_bundle}


@pytest.mark.parametrize(
    ("url", "kind", "host"),
    [
        ("https://webhook.example.com:9443", "dnsNames", "webhook.example.com"),
        ("https://10.0.255.7:65535", "ipAddresses", "10.0.255.7"),
        ("https://[fd00::7]", "ipAddresses", "fd00::7"),
    ],
)
def test_the_certificate_is_for_the_host_that_the_api_server_calls(
    installed: Bench, url: str, kind: str, host: str
) -> None:
    values = {
        "deploy": False,
        "webhook.url": url,
        "webhook.certificate.mode": "cert-manager",
        "webhook.certificate.issuerRef.name": "ours",
    }
    objects = render_objects(installed.cluster, values)
    (certificate,) = (each for each in objects if each["kind"] == "Certificate")
    assert certificate["spec"][kind][-1] == host
