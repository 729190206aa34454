"""Chart.yaml says since which Kubernetes the chart works: the oldest that has all it uses."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from devcluster.errors import CommandError
from tests.integration.chart.chart_values import (
    build_all_on,
    read_oldest_kubernetes,
    render_manifests,
    render_objects,
)
from tests.kit.bench import Bench

Json = dict[str, Any]
Release = tuple[int, int]


KINDS: Mapping[str, Release] = {
    "v1 ConfigMap": (1, 2),
    "v1 Namespace": (1, 0),
    "v1 ResourceQuota": (1, 0),
    "v1 Secret": (1, 0),
    "v1 Service": (1, 0),
    "v1 ServiceAccount": (1, 0),
    "batch/v1 Job": (1, 2),
    "networking.k8s.io/v1 NetworkPolicy": (1, 7),
    "rbac.authorization.k8s.io/v1 ClusterRole": (1, 8),
    "rbac.authorization.k8s.io/v1 ClusterRoleBinding": (1, 8),
    "rbac.authorization.k8s.io/v1 Role": (1, 8),
    "rbac.authorization.k8s.io/v1 RoleBinding": (1, 8),
    "apps/v1 Deployment": (1, 9),
    "coordination.k8s.io/v1 Lease": (1, 14),
    "admissionregistration.k8s.io/v1 MutatingWebhookConfiguration": (1, 16),
    "apiextensions.k8s.io/v1 CustomResourceDefinition": (1, 16),
    "policy/v1 PodDisruptionBudget": (1, 21),
    "admissionregistration.k8s.io/v1 ValidatingAdmissionPolicy": (1, 30),
    "admissionregistration.k8s.io/v1 ValidatingAdmissionPolicyBinding": (1, 30),
}
"""Since when each is served, by `prerelease-lifecycle-gen:introduced` in k8s.io/api, and by
Kubernetes' changelogs."""
FIELDS: Mapping[str, Release] = {
    "seccompProfile": (1, 19),
    "startupProbe": (1, 18),
    "x-kubernetes-validations": (1, 25),
    "podFailurePolicy": (1, 26),
    "matchLabelKeys": (1, 27),
    "unhealthyPodEvictionPolicy": (1, 27),
    "matchConditions": (1, 28),
    "variables": (1, 30),
}
"""Younger than their kinds: since when they are on without a feature gate of one's own."""
CEL: Mapping[str, Release] = {
    **dict.fromkeys(("all", "contains", "dyn", "exists", "filter", "has", "map"), (1, 23)),
    **dict.fromkeys(("indexOf", "join", "matches", "size", "startsWith"), (1, 23)),
    **dict.fromkeys(("?", "orValue"), (1, 28)),
}
"""Functions and operators, by `IntroducedVersion` in k8s.io/apiserver/pkg/cel/environment. An API
server takes what came with its own release only from objects that are stored already, lest it could
not be rolled back: a new object may use it one release later."""
OTHERS = ("cert-manager.io/", "monitoring.coreos.com/")
"""Groups that come with a CRD of their own."""
_CALL = re.compile(r"(?<!\w)([a-zA-Z_]\w*)\(|(?:\.|\[)(\?)")
_WORDS = re.compile(r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"", re.DOTALL)


def walk(value: Any) -> Iterator[tuple[str, Any]]:
    """Every key with its value, at any depth."""
    children = value.items() if isinstance(value, dict) else [("", item) for item in value]
    for key, child in children:
        if key:
            yield key, child
        if isinstance(child, dict | list):
            yield from walk(child)


def find_functions(expression: str) -> set[str]:
    """What an expression calls; what is quoted in it is no call."""
    return {call or optional for call, optional in _CALL.findall(_WORDS.sub("''", expression))}


@pytest.fixture(scope="module")
def everything(installed: Bench) -> list[Json]:
    """The objects with every switch on, in each mode of certificates."""
    modes = ("self", "cert-manager")
    return [
        item
        for mode in modes
        for item in render_objects(
            installed.cluster, build_all_on(allInOne=False, **{"webhook.certificate.mode": mode})
        )
        if not item["apiVersion"].startswith(OTHERS)
    ]


def test_the_declared_release_is_the_oldest_that_has_all_of_it(everything: list[Json]) -> None:
    kinds = {f"{item['apiVersion']} {item['kind']}" for item in everything}
    keys = [pair for item in everything for pair in walk(item)]
    expressions = [v for k, v in keys if k in ("expression", "messageExpression", "rule")]
    functions = {
        found for text in expressions if isinstance(text, str) for found in find_functions(text)
    }
    assert kinds <= KINDS.keys(), "look up since when they are served"
    assert functions <= CEL.keys(), "look up since when CEL has them"
    needed = [
        *(KINDS[kind] for kind in kinds),
        *(FIELDS[key] for key, _ in keys if key in FIELDS),
        *((major, minor + 1) for major, minor in (CEL[name] for name in functions)),
    ]
    assert read_oldest_kubernetes() == max(needed)


def test_helm_refuses_an_older_one(installed: Bench) -> None:
    major, minor = read_oldest_kubernetes()
    render_manifests(installed.cluster, {}, f"--kube-version={major}.{minor}.0-aliyun.1")
    with pytest.raises(CommandError, match="incompatible with Kubernetes"):
        render_manifests(installed.cluster, {}, f"--kube-version={major}.{minor - 1}.15")
