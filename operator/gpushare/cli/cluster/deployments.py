"""Reads the operator's own Deployments: their replicas, version and settings."""

import re
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote

from gpushare.analysis.doctor.chart import CONTROLLER
from gpushare.analysis.doctor.installation import Deployment
from gpushare.analysis.finding import Unseen
from gpushare.cli.cluster.partial_read import see
from gpushare.kube.client import ApiClient, Json

DEFAULT_NAMESPACE = "gpushare-system"
_LABEL = "app.kubernetes.io/name=gpushare-operator"
_VERSION = "app.kubernetes.io/version"
_VERSION_TAG = re.compile(r":v?(\d+\.\d+\.\d+[-.\w]*)$")
_BINDING = f"apis/rbac.authorization.k8s.io/v1/clusterrolebindings/{CONTROLLER}"


async def list_deployments(
    api: ApiClient, namespace: str | None = None
) -> tuple[Json, ...] | Unseen:
    """List all of the operator's Deployments; without the right to, those in `namespace`, or where
    the controller's account is."""
    found = await see(_list(api))
    if not isinstance(found, Unseen):
        return found
    return await see(_list(api, namespace or await find_namespace(api)))


async def _list(api: ApiClient, namespace: str = "") -> tuple[Json, ...]:
    where = f"namespaces/{quote(namespace, safe='')}/" if namespace else ""
    answer = await api.find(f"apis/apps/v1/{where}deployments", labelSelector=_LABEL)
    return tuple((answer or {}).get("items") or ())


async def find_namespace(api: ApiClient) -> str:
    """Find the namespace of the controller's account; the default one where nothing says."""
    binding = await see(api.find(_BINDING))
    if binding is None or isinstance(binding, Unseen):
        return DEFAULT_NAMESPACE
    accounts = (each.get("namespace") for each in binding.get("subjects") or ())
    return next((each for each in accounts if each), DEFAULT_NAMESPACE)


def parse_deployment(raw: Json) -> Deployment:
    """Parse a Deployment of ours, as the chart makes it; our container may have a sidecar."""
    meta, spec, status = raw["metadata"], raw.get("spec") or {}, raw.get("status") or {}
    containers: Sequence[Mapping[str, Any]] = ((spec.get("template") or {}).get("spec") or {}).get(
        "containers"
    ) or ({},)
    ours = next((each for each in containers if each.get("name") == "gpushare"), containers[0])
    return Deployment(
        namespace=meta["namespace"],
        name=meta["name"],
        wanted=spec.get("replicas", 1),
        ready=status.get("readyReplicas", 0),
        version=_find_version(image := ours.get("image", ""), meta.get("labels") or {}),
        image=image,
        settings={each["name"]: _read_value(each) for each in ours.get("env") or ()},
    )


def _read_value(variable: Mapping[str, Any]) -> str | None:
    """Read a value; None if it is from elsewhere. The API server leaves an empty value out."""
    return None if variable.get("valueFrom") is not None else variable.get("value", "")


def _find_version(image: str, labels: Mapping[str, str]) -> str:
    """Find the version by the image's tag, which a value may set, or else by the label."""
    tag = _VERSION_TAG.search(image)
    return tag[1] if tag is not None else labels.get(_VERSION, "")
