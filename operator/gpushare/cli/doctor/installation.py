"""Reads the operator's own objects in a cluster, part by part, as far as rights allow."""

import asyncio
from dataclasses import replace
from datetime import UTC, datetime
from urllib.parse import quote

from gpushare import names
from gpushare.analysis.doctor.chart import CONTROLLER, WEBHOOK, Role, list_roles
from gpushare.analysis.doctor.installation import Deployment, Leader
from gpushare.analysis.doctor.report import Installation
from gpushare.analysis.doctor.rights import GrantedRights
from gpushare.analysis.finding import Unseen
from gpushare.cli.cluster.deployments import find_namespace, parse_deployment
from gpushare.cli.cluster.partial_read import see
from gpushare.kube.client import ApiClient, Json
from gpushare.kube.resources.webhook_configurations import read_configuration

_CRD = f"apis/apiextensions.k8s.io/v1/customresourcedefinitions/{names.PLURAL}.{names.GROUP}"
LOOK_SECONDS = 0.5
"""Between two looks at a Lease."""
_RBAC = "apis/rbac.authorization.k8s.io/v1"


async def read_installation(
    api: ApiClient, listed: tuple[Json, ...] | Unseen, namespace: str | None
) -> Installation:
    """Read the installation in `namespace`, or else where its account is, or in the usual one;
    `listed` has the operator's Deployments that one may see."""
    configuration = await see(read_configuration(api, WEBHOOK))
    deployments = listed if isinstance(listed, Unseen) else _parse(listed, namespace)
    if namespace is None:
        seen = () if isinstance(deployments, Unseen) else deployments
        namespace = seen[0].namespace if seen else await find_namespace(api)
    found = configuration if isinstance(configuration, dict) else {}
    service = _find_service(found)
    settings: dict[str, str | None] = {}
    if not isinstance(deployments, Unseen):
        for each in deployments:
            settings.update(each.settings)
    return Installation(
        namespace=namespace,
        deployments=deployments,
        leader=await see(read_leader(api, namespace)),
        crd=await see(api.find(_CRD)),
        configuration=configuration,
        service=service,
        endpoints=await see(_count_endpoints(api, service)) if service else 0,
        accounts=tuple([await _read_granted(api, r) for r in list_roles(namespace, settings)]),
    )


def _parse(listed: tuple[Json, ...], namespace: str | None) -> tuple[Deployment, ...]:
    """Parse the Deployments in `namespace`; None: all."""
    deployments = map(parse_deployment, listed)
    return tuple(each for each in deployments if namespace in (None, each.namespace))


async def read_leader(api: ApiClient, namespace: str) -> Leader | None:
    """Read who holds the Lease; wait until it is known whether it is being renewed."""
    within = f"namespaces/{quote(namespace, safe='')}"
    path = f"apis/coordination.k8s.io/v1/{within}/leases/{CONTROLLER}"
    first = leader = _parse_leader(await api.find(path))
    watched = 0.0
    while leader is not None and leader.must_be_watched(datetime.now(UTC)):
        await asyncio.sleep(LOOK_SECONDS)
        leader = _parse_leader(await api.find(path))
        if leader != first:
            break
        watched += LOOK_SECONDS
        if leader is not None:
            leader = replace(leader, watched_seconds=watched)
    return leader


def _parse_leader(lease: Json | None) -> Leader | None:
    if lease is None:
        return None
    spec = lease.get("spec") or {}
    renewed = spec.get("renewTime")
    return Leader(
        spec.get("holderIdentity") or "",
        datetime.fromisoformat(renewed) if renewed else None,
        float(spec.get("leaseDurationSeconds") or 0),
    )


def _find_service(configuration: Json) -> str:
    """Find namespace and name of the Service that is called; empty where it is a URL."""
    for webhook in configuration.get("webhooks") or ():
        if service := webhook["clientConfig"].get("service"):
            return f"{service['namespace']}/{service['name']}"
    return ""


async def _count_endpoints(api: ApiClient, service: str) -> int:
    namespace, _, name = service.partition("/")
    answer = await api.get(
        f"apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices",
        labelSelector=f"kubernetes.io/service-name={name}",
    )
    endpoints = (e for slice_ in answer.get("items") or () for e in slice_.get("endpoints") or ())
    return sum((each.get("conditions") or {}).get("ready") is not False for each in endpoints)


async def _read_granted(api: ApiClient, role: Role) -> GrantedRights:
    path = f"{_RBAC}/clusterrole"
    if role.namespace:
        path = f"{_RBAC}/namespaces/{quote(role.namespace, safe='')}/role"
    found = await see(api.find(f"{path}s/{role.name}"))
    binding = await see(api.find(f"{path}bindings/{role.name}"))
    return GrantedRights(
        role,
        tuple(found.get("rules") or ()) if isinstance(found, dict) else found,
        _list_subjects(binding) if isinstance(binding, dict) else binding,
    )


def _list_subjects(binding: Json) -> frozenset[tuple[str, str]]:
    subjects = binding.get("subjects") or ()
    return frozenset((each.get("namespace", ""), each["name"]) for each in subjects)
