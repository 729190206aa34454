"""The chart with many different values: which, and what Helm makes of them."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import yaml

from devcluster.cluster import Cluster
from devcluster.installation import IMAGE, NAMESPACE, RELEASE
from devcluster.startup import CHART
from tests.integration.chart.pairwise import build_pairwise

Json = dict[str, Any]
Values = Mapping[str, Any]

JOBS_NAMESPACE = "gpushare-jobs"
"""Of teardowns; no other installation of the tests has it."""
_DIGEST = f"sha256:{'0' * 64}"
_SCHEMA = json.loads((CHART / "values.schema.json").read_text())
_CHOICES: Mapping[str, Sequence[Any]] = {
    "image.tag": ("", "v1"),
    "image.digest": ("", _DIGEST),
    "teardown.jobs.image.digest": ("", _DIGEST),
    "imagePullSecrets": ([], [{"name": "registry"}]),
    "priorityClassName": ("system-cluster-critical", ""),
    "nodeSelector": ({}, {"disk": "ssd"}),
    "tolerations": ([], [{"operator": "Exists"}]),
    "affinity": (
        {},
        {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
            {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"a": "b"}}}
        ]}},
    ),
    "podAnnotations": ({}, {"note": "kept"}),
    "podLabels": ({}, {"team": "ml"}),
    "serviceMonitor.labels": ({}, {"release": "prometheus"}),
    "prometheusRule.labels": ({}, {"release": "prometheus"}),
    "prometheusRule.runbooks": ("", "https://runbooks.example.com/gpushare"),
    "dashboards.namespace": ("", "kube-system"),
    "dashboards.annotations": ({}, {"grafana_folder": "GPU"}),
    "dnsConfig": ({}, {"options": [{"name": "ndots", "value": "2"}]}),
    "commonLabels": ({}, {"cost-centre": "gpu", "app.kubernetes.io/component": "impostor"}),
    "serviceAccountAnnotations": ({}, {"note": "kept"}),
    "networkPolicy.metricsNamespaces": (["monitoring", "arms-prom"], []),
    "controller.nodeSelector": ({}, {"disk": "hdd"}),
    "webhook.tolerations": ([], [{"key": "edge", "operator": "Exists"}]),
    "controller.topologySpreadConstraints": ([], [
        {"topologyKey": "zone", "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"},
    ]),
    "controller.replicas": (2, 1),
    "webhook.replicas": (2, 1),
}  # fmt: skip
"""Of values that are neither switches nor one of a few words, but that templates ask for."""
_ISSUER = {"name": "ours", "kind": "ClusterIssuer"}
_JOINT: Mapping[str, Sequence[Values]] = {
    "where the webhook is": (
        {"deploy": True},
        {"deploy": False},
        {"deploy": False, "webhook.url": "https://webhook.example.com:9443"},
    ),
    "who chooses pools": (
        {"webhook.enabled": True, "admissionPolicy.enabled": "auto"},
        {"webhook.enabled": True, "admissionPolicy.enabled": True},
        {"webhook.enabled": True, "admissionPolicy.enabled": False},
        {"webhook.enabled": False, "admissionPolicy.enabled": True},
    ),
    "who gives the certificate": (
        {"webhook.certificate.mode": "self"},
        {"webhook.certificate.mode": "cert-manager"},
        {"webhook.certificate.mode": "cert-manager", "webhook.certificate.issuerRef": _ISSUER},
        {"webhook.certificate.mode": "provided"},
        {"webhook.certificate.mode": "provided", "webhook.caBundle": "Q0E="},
    ),
}
"""Of values that go together in these ways alone."""
NEEDED: Values = {
    "teardown.jobs.namespace": JOBS_NAMESPACE,
    "teardown.jobs.image.repository": "example.com/shell",
    "teardown.jobs.image.tag": "v1",
}
"""Without which a switch can't be on."""


def list_switches(schema: Json = _SCHEMA, path: str = "") -> Iterator[tuple[str, tuple[Any, ...]]]:
    """Every value that the schema gives two or a few choices, with these."""
    if schema.get("type") == "boolean":
        yield path, (True, False)
    elif "enum" in schema:
        yield path, tuple(schema["enum"])
    for key, child in schema.get("properties", {}).items():
        yield from list_switches(child, f"{path}.{key}".strip("."))


def build_matrix() -> list[Values]:
    """The default values, and rows in which each two choices meet."""
    joint = {path for ways in _JOINT.values() for way in ways for path in way}
    single = {path: ways for path, ways in list_switches() if path not in joint}
    rows = build_pairwise({**single, **_CHOICES, **_JOINT})
    return [{}, *({**NEEDED, **dict(_unfold(row))} for row in rows)]


def _unfold(row: Values) -> Iterator[tuple[str, Any]]:
    for path, value in row.items():
        yield from value.items() if path in _JOINT else [(path, value)]


def build_all_on(**others: Any) -> Values:
    """Values with every switch on, but for `others`."""
    switches = {path: True for path, choices in list_switches() if choices == (True, False)}
    return {**NEEDED, **switches, **others}


def list_flags(values: Values) -> list[str]:
    """What gives `values` to Helm, kinds and all."""
    values = {"image.repository": IMAGE, **values}
    settings = [f"--set-json={path}={json.dumps(value)}" for path, value in values.items()]
    return [f"--namespace={NAMESPACE}", *settings]


def render_manifests(cluster: Cluster, values: Values, *more: str, release: str = RELEASE) -> str:
    """`helm template` with `more` flags, which go before the usual ones; as YAML."""
    return cluster.helm("template", release, str(CHART), *list_flags(values), *more)


def render_objects(
    cluster: Cluster, values: Values, *more: str, release: str = RELEASE
) -> list[Json]:
    """The same, as objects."""
    manifests = render_manifests(cluster, values, *more, release=release)
    return [item for item in yaml.safe_load_all(manifests) if item]


def render_named(cluster: Cluster, values: Values) -> dict[tuple[str, str], Json]:
    """The same by kind and name."""
    objects = render_objects(cluster, values)
    return {(each["kind"], each["metadata"]["name"]): each for each in objects}


def pod_of(objects: Mapping[tuple[str, str], Json], role: str) -> Json:
    """The spec of the pods of a role."""
    spec: Json = objects["Deployment", f"gpushare-{role}"]["spec"]["template"]["spec"]
    return spec


def expect_no_mesh(template: Json) -> None:
    """No proxy is put into pods of this template, in a namespace where all others get one."""
    assert template["metadata"]["labels"]["sidecar.istio.io/inject"] == "false"
    assert template["metadata"]["annotations"]["linkerd.io/inject"] == "disabled"


def read_settings(objects: Mapping[tuple[str, str], Json], role: str) -> dict[str, str]:
    """What the container of a role is told by its environment."""
    (container,) = pod_of(objects, role)["containers"]
    return {each["name"]: each.get("value", "") for each in container["env"]}


def read_oldest_kubernetes() -> tuple[int, int]:
    """Major and minor of the oldest release that Chart.yaml lets the chart be installed on."""
    about = yaml.safe_load((CHART / "Chart.yaml").read_text())
    (found,) = re.findall(r"^>=(\d+)\.(\d+)\.0-0$", about["kubeVersion"])
    return int(found[0]), int(found[1])
