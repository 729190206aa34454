"""What the chart makes of values, and what values Helm refuses."""

from typing import Any

import pytest
import yaml

from devcluster.errors import CommandError
from devcluster.installation import Installation
from tests.kit.bench import Bench

Json = dict[str, Any]

pytestmark = pytest.mark.chart

IN_CLUSTER = {"deploy": "true", "webhook.url": ""}


def render(bench: Bench, **values: str) -> str:
    return Installation(bench.cluster, values={**IN_CLUSTER, **values}).render()


def find_object(manifests: str, kind: str, name: str) -> Json:
    found: Json
    (found,) = (
        item
        for item in yaml.safe_load_all(manifests)
        if item and (item["kind"], item["metadata"]["name"]) == (kind, name)
    )
    return found


def test_a_webhook_is_replaced_before_it_goes_and_has_the_time_to_drain(installed: Bench) -> None:
    values = {"allInOne": "false", "webhook.drainSeconds": "40", "webhook.replicas": "3"}
    spec = find_object(render(installed, **values), "Deployment", "gpushare-webhook")["spec"]

    assert spec["strategy"]["rollingUpdate"] == {"maxUnavailable": 0, "maxSurge": 1}
    pod = spec["template"]["spec"]
    assert pod["terminationGracePeriodSeconds"] >= 40 + 20
    env = {each["name"]: each.get("value") for each in pod["containers"][0]["env"]}
    assert env["GPUSHARE_DRAIN_SECONDS"] == "40"
    assert env["GPUSHARE_WEBHOOK_REPLICAS"] == "3"


def test_whole_numbers_reach_the_process_as_they_were_written(installed: Bench) -> None:
    manifests = render(installed, allInOne="false")
    spec = find_object(manifests, "Deployment", "gpushare-webhook")["spec"]
    env = {each["name"]: each for each in spec["template"]["spec"]["containers"][0]["env"]}
    assert env["GPUSHARE_AUTHORITY_LIFETIME_SECONDS"]["value"] == "315360000"
    assert env["GPUSHARE_CERTIFICATE_LIFETIME_SECONDS"]["value"] == "7776000"


def test_the_webhook_is_called_on_terms_that_hold_nobody_up(installed: Bench) -> None:
    manifests = render(installed, **{"webhook.failurePolicy": "Ignore"})
    kind = "MutatingWebhookConfiguration"
    *pods, workloads = find_object(manifests, kind, "gpushare-webhook")["webhooks"]
    for entry in (*pods, workloads):
        assert (entry["timeoutSeconds"], entry["sideEffects"]) == (3, "None")
        assert entry["matchPolicy"] == "Equivalent"
    # Another webhook may add containers to a pod after this one saw it.
    assert [entry["reinvocationPolicy"] for entry in pods] == ["IfNeeded"] * 2
    assert [entry["failurePolicy"] for entry in (*pods, workloads)] == ["Ignore", "Fail", "Ignore"]


@pytest.mark.parametrize(
    "value",
    [
        "webhook.onNoPool=maybe",
        "webhook.failurePolicy=fail",
        "webhook.drainSeconds=-1",
        "pluginNamespace=x' || true || 'y",
        "typo=1",
        "crds.keep=null",
        "controller.accountPolicy.enabled=null",
    ],
)
def test_helm_refuses_a_value_of_no_use(installed: Bench, value: str) -> None:
    key, _, text = value.partition("=")
    with pytest.raises(CommandError, match="values don't meet the specifications of the schema"):
        render(installed, **{key: text})


def test_one_process_has_one_account(installed: Bench) -> None:
    objects = [item for item in yaml.safe_load_all(render(installed, allInOne="true")) if item]
    accounts = {each["metadata"]["name"] for each in objects if each["kind"] == "ServiceAccount"}
    given = {
        subject["name"]
        for each in objects
        if each["kind"] in ("RoleBinding", "ClusterRoleBinding")
        for subject in each["subjects"]
    }
    assert accounts == given == {"gpushare-controller", "gpushare-uninstall"}


def test_helm_refuses_one_port_for_webhook_and_metrics(installed: Bench) -> None:
    with pytest.raises(CommandError, match=r"webhook\.port and metricsPort are both 8443"):
        render(installed, **{"webhook.port": "8443", "metricsPort": "8443"})
