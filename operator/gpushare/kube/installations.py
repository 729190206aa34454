"""What is in a cluster of the operator itself: read part by part, each as far as one may."""

import re
from collections.abc import Awaitable, Mapping, Sequence
from datetime import datetime
from typing import Any, TypeVar
from urllib.parse import quote

from gpushare import names
from gpushare.core.doctor.finding import Unseen
from gpushare.core.doctor.grants import CONTROLLER, Grant, Scope, list_grants
from gpushare.core.doctor.installation import Deployment, Leader
from gpushare.core.doctor.page import Installation
from gpushare.core.doctor.rights import Held
from gpushare.core.doctor.variables import Variable
from gpushare.core.doctor.webhooknames import NAME
from gpushare.kube.client import ApiServer, Json
from gpushare.kube.errors import ApiError, OtherVersionError
from gpushare.kube.webhookconfigurations import read_configuration

DEFAULT_NAMESPACE = "gpushare-system"
_LABEL = "app.kubernetes.io/name=gpushare-operator"
_VERSION = "app.kubernetes.io/version"
_VERSION_TAG = re.compile(r":v?(\d+\.\d+\.\d+[-.\w]*)$")
_CRD = f"apis/apiextensions.k8s.io/v1/customresourcedefinitions/{names.PLURAL}.{names.GROUP}"
_RBAC = "apis/rbac.authorization.k8s.io/v1"

Found = TypeVar("Found")


async def see(call: Awaitable[Found]) -> Found | Unseen:
    """What `call` reads, or why it can't be read: a right is missing, or it is of another version.

    Raises what else a call may raise.
    """
    try:
        return await call
    except OtherVersionError as error:
        return Unseen(str(error))
    except ApiError as error:
        if error.status != 403:
            raise
        return Unseen(f"a right is missing: {error.message}")


async def read_installation(api: ApiServer, namespace: str | None) -> Installation:
    """The installation in `namespace`, or in the one where its account is, or the usual one."""
    configuration = await see(read_configuration(api, NAME))
    deployments = await see(_list_deployments(api, namespace))
    if namespace is None:
        namespace = await _find_namespace(api, deployments)
        if isinstance(deployments, Unseen):
            deployments = await see(_list_deployments(api, namespace))
    found = configuration if isinstance(configuration, dict) else {}
    service = _find_service(found)
    settings: dict[str, str] = {}
    if not isinstance(deployments, Unseen):
        for each in deployments:
            settings.update(each.settings)
    return Installation(
        namespace=namespace,
        deployments=deployments,
        leader=await see(_read_leader(api, namespace)),
        crd=await see(api.find(_CRD)),
        configuration=configuration,
        service=service,
        endpoints=await see(_count_endpoints(api, service)) if service else 0,
        accounts=tuple(
            [await _read_held(api, grant, namespace, settings) for grant in list_grants(settings)]
        ),
    )


async def _list_deployments(api: ApiServer, namespace: str | None) -> tuple[Deployment, ...]:
    where = f"namespaces/{quote(namespace, safe='')}/" if namespace else ""
    answer = await api.find(f"apis/apps/v1/{where}deployments", labelSelector=_LABEL)
    return tuple(map(parse_deployment, (answer or {}).get("items") or ()))


def parse_deployment(raw: Json) -> Deployment:
    """A Deployment of ours, as the chart makes it."""
    meta, spec, status = raw["metadata"], raw.get("spec") or {}, raw.get("status") or {}
    containers: Sequence[Mapping[str, Any]] = ((spec.get("template") or {}).get("spec") or {}).get(
        "containers"
    ) or ({},)
    first = containers[0]
    return Deployment(
        namespace=meta["namespace"],
        name=meta["name"],
        wanted=spec.get("replicas", 1),
        ready=status.get("readyReplicas", 0),
        version=_find_version(image := first.get("image", ""), meta.get("labels") or {}),
        image=image,
        settings={each["name"]: each.get("value", "") for each in first.get("env") or ()},
    )


def _find_version(image: str, labels: Mapping[str, str]) -> str:
    """That of the image's tag where it is one, since a value may name another than the chart's."""
    tag = _VERSION_TAG.search(image)
    return tag[1] if tag is not None else labels.get(_VERSION, "")


async def _find_namespace(api: ApiServer, deployments: tuple[Deployment, ...] | Unseen) -> str:
    """Where the Deployments are, or else the controller's account."""
    if deployments and not isinstance(deployments, Unseen):
        return deployments[0].namespace
    binding = await see(api.find(f"{_RBAC}/clusterrolebindings/{CONTROLLER}"))
    if binding is None or isinstance(binding, Unseen):
        return DEFAULT_NAMESPACE
    accounts = (each.get("namespace") for each in binding.get("subjects") or ())
    return next((each for each in accounts if each), DEFAULT_NAMESPACE)


async def _read_leader(api: ApiServer, namespace: str) -> Leader | None:
    within = f"namespaces/{quote(namespace, safe='')}"
    path = f"apis/coordination.k8s.io/v1/{within}/leases/{CONTROLLER}"
    lease = await api.find(path)
    if lease is None:
        return None
    spec = lease.get("spec") or {}
    renewed = spec.get("renewTime")
    return Leader(
        spec.get("holderIdentity") or "", datetime.fromisoformat(renewed) if renewed else None
    )


def _find_service(configuration: Json) -> str:
    """Namespace and name of the Service that is called; empty where it is a URL."""
    for webhook in configuration.get("webhooks") or ():
        if service := webhook["clientConfig"].get("service"):
            return f"{service['namespace']}/{service['name']}"
    return ""


async def _count_endpoints(api: ApiServer, service: str) -> int:
    namespace, _, name = service.partition("/")
    answer = await api.get(
        f"apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices",
        labelSelector=f"kubernetes.io/service-name={name}",
    )
    endpoints = (e for slice_ in answer.get("items") or () for e in slice_.get("endpoints") or ())
    return sum((each.get("conditions") or {}).get("ready") is not False for each in endpoints)


async def _read_held(
    api: ApiServer, grant: Grant, namespace: str, settings: Mapping[str, str]
) -> Held:
    where = _find_scope(grant.scope, namespace, settings)
    path = f"{_RBAC}/namespaces/{quote(where, safe='')}/role" if where else f"{_RBAC}/clusterrole"
    role = await see(api.find(f"{path}s/{grant.role}"))
    binding = await see(api.find(f"{path}bindings/{grant.role}"))
    return Held(
        grant,
        where,
        tuple(role.get("rules") or ()) if isinstance(role, dict) else role,
        _list_subjects(binding) if isinstance(binding, dict) else binding,
    )


def _find_scope(scope: Scope, namespace: str, settings: Mapping[str, str]) -> str:
    match scope:
        case Scope.CLUSTER:
            return ""
        case Scope.INSTALLATION:
            return namespace
        case Scope.PLUGINS:
            return settings.get(Variable.PLUGIN_NAMESPACE) or names.PLUGIN_NAMESPACE
        case Scope.TEARDOWN:
            return settings.get(Variable.TEARDOWN_NAMESPACE) or "gpushare-teardown"


def _list_subjects(binding: Json) -> frozenset[tuple[str, str]]:
    subjects = binding.get("subjects") or ()
    return frozenset((each.get("namespace", ""), each["name"]) for each in subjects)
