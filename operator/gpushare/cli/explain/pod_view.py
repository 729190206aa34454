"""Builds the answers of `gpushare explain pod` and `explain -f`; `pod_text` has the text."""

from collections.abc import Iterator, Sequence
from typing import Any

from gpushare import names
from gpushare.analysis.effective_settings import ROUTED_BY
from gpushare.analysis.explain.pods import (
    Surroundings,
    explain_found_pod,
    explain_new_pod,
)
from gpushare.analysis.inspect.pools import (
    find_schedulers_word,
    find_waiting,
    plan_snapshot,
)
from gpushare.analysis.observed_cluster import ObservedCluster
from gpushare.api.k8s.namespace import parse_namespace
from gpushare.api.k8s.pod import Pod
from gpushare.api.k8s.pod_shape import parse_pod_shape
from gpushare.api.pruned.cluster import STATE_KINDS, Cluster, Kind, Subject
from gpushare.cli.cluster.access import Access, check_namespace
from gpushare.cli.cluster.basis import OF_STACKS, build_answer
from gpushare.cli.cluster.snapshot import observe_cluster
from gpushare.cli.errors.failures import build_unknown
from gpushare.cli.exit_codes import CommandError, Exit
from gpushare.cli.explain.pod_text import build_pod_page, describe_pod
from gpushare.cli.input.manifests import Given
from gpushare.cli.input.pod_templates import find_pod_templates
from gpushare.cli.output.answer import Answer, Line
from gpushare.core.admission.pool_view import view_pool
from gpushare.core.snapshot.cluster import build_node_context
from gpushare.core.snapshot.isolation import ContainerIsolation, observe_containers
from gpushare.core.status.unschedulable_pods import UnschedulablePod
from gpushare.workload_kinds import merge_kinds

Json = dict[str, Any]

_FITS = "on which nodes the pod would fit"
_LACKS = {
    Kind.PODS: _FITS,
    Kind.NODES: _FITS,
    Kind.POOLS: f"to which pool it would be assigned now, why the others reject it, and {_FITS}",
    Kind.DAEMONSETS: _FITS,
    Kind.NAMESPACES: "to which pool it would be assigned now, by the labels of its namespace",
    **OF_STACKS,
}


def explain_pod(access: Access, name: str, namespace: str | None) -> Answer:
    """Explain the pod. Raises `CommandError` for an unknown one."""
    where = access.find_namespace(namespace)
    cluster = access.read_about(Subject(Kind.PODS, name, where), *STATE_KINDS)
    raw = _find_pod(cluster, where, name)
    seen, around, waiting = _observe(cluster)
    every = [*seen.unbound, *(pod for pods in seen.snapshot.pods.values() for pod in pods)]
    found = next((pod for pod in every if (pod.namespace, pod.name) == (where, name)), None)
    waits = next((each for each in waiting if each.pod is found), None)
    if not cluster.can_be_planned:
        waits = find_schedulers_word(found) if found is not None else None
    explained = explain_found_pod(
        parse_pod_shape(raw), found, waits, around, namespace=where, name=name
    )
    notes = list(_find_notes(cluster, seen, where))
    stale: tuple[ContainerIsolation, ...] = ()
    if found is not None and found.node in seen.snapshot.nodes:
        stale = tuple(_find_stale(seen, found))
    elif found is not None and found.node:
        notes.append(f"Node {found.node} is unknown, so stale isolation of the pod is not checked")
    document = describe_pod("Pod", explained, notes, stale, is_asked=_is_asked(cluster, where))
    return build_answer(
        document,
        build_pod_page,
        cluster,
        _LACKS,
        seen.known,
        ROUTED_BY,
    )


def explain_manifests(access: Access, given: Sequence[Given], namespace: str | None) -> Answer:
    """Explain the pods in manifests. Raises `CommandError` for what is no pod."""
    default = access.find_namespace(namespace)
    cluster = access.read(*STATE_KINDS)
    seen, around, _ = _observe(cluster)
    found = find_pod_templates(given, merge_kinds(seen.known.setup.workload_kinds))
    objects = []
    for template in found.templates:
        where = template.namespace or default
        explained = explain_new_pod(template.pod, where, template.name, around)
        notes, is_asked = tuple(_find_notes(cluster, seen, where)), _is_asked(cluster, where)
        described = describe_pod(template.kind, explained, notes, is_asked=is_asked)
        objects.append(described | {"template": template.where or None})
    document = {
        "objects": objects,
        "unknown": [
            {"object": each.given.shown, "template": each.where or None, "message": each.problem}
            for each in found.unknown
        ],
        "skipped": [each.shown for each in found.skipped],
    }
    return build_answer(
        document,
        _build_pages,
        cluster,
        _LACKS,
        seen.known,
        ROUTED_BY,
    )


def _observe(
    cluster: Cluster,
) -> tuple[ObservedCluster, Surroundings, tuple[UnschedulablePod, ...]]:
    """Convert what was read; without an installed operator there are no pools."""
    seen = observe_cluster(cluster)
    setup = seen.known.setup
    plans_by_pool = plan_snapshot(seen.snapshot, setup, cluster.taken_at).plans_by_pool
    views = (view_pool(raw) for raw in cluster.pools or ())
    around = Surroundings(
        snapshot=seen.snapshot,
        plans_by_pool=plans_by_pool,
        pools=tuple(view for view in views if view is not None),
        namespaces={each.name: each for each in map(parse_namespace, cluster.namespaces)},
        setup=setup,
        can_decide=cluster.unread.keys().isdisjoint((Kind.POOLS, Kind.NAMESPACES)),
        has_nodes=cluster.can_be_planned,
    )
    waiting = find_waiting(seen, plans_by_pool, cluster.taken_at)
    return seen, around, waiting


def _find_stale(seen: ObservedCluster, pod: Pod) -> Iterator[ContainerIsolation]:
    """Find the pod's containers whose isolation is not what their node's mode gives."""
    for each in observe_containers(build_node_context(seen.snapshot, pod.node).seen):
        if each.is_stale and each.pod.uid == pod.uid:
            yield each


def _find_pod(cluster: Cluster, namespace: str, name: str) -> Json:
    known = {(raw["metadata"]["namespace"], raw["metadata"]["name"]): raw for raw in cluster.pods}
    if (namespace, name) in known:
        return known[namespace, name]
    if cluster.namespaces:
        check_namespace(cluster, namespace)
    elsewhere = sorted(space for space, pod in known if pod == name)
    if elsewhere:
        raise CommandError(
            Exit.NOT_FOUND,
            f"pod {name} not found in namespace {namespace}. Did you mean -n {elsewhere[0]}?",
        )
    raise build_unknown("GPU pod", f"{namespace}/{name}", map("/".join, known))


def _find_notes(cluster: Cluster, seen: ObservedCluster, namespace: str) -> Iterator[str]:
    if cluster.pools is None:
        yield (
            f"The cluster has no {names.PLURAL}.{names.GROUP}. Nothing is written before the "
            "operator is installed"
        )
    for pool in seen.unreadable:
        yield f"Pool {pool.name} is not considered, because its spec can't be read: {pool.error}"
    if namespace == names.EXEMPT_NAMESPACE:
        yield f"The webhook is never asked about pods in {namespace}, so nothing is written to them"
    known = [raw["metadata"]["name"] for raw in cluster.namespaces]
    if namespace not in known and Kind.NAMESPACES not in cluster.unread:
        yield f"Namespace {namespace} does not exist yet, and is assumed to have no labels"


def _is_asked(cluster: Cluster, namespace: str) -> bool:
    return cluster.pools is not None and namespace != names.EXEMPT_NAMESPACE


def _build_pages(document: Json, wide: bool) -> Iterator[Line]:
    for number, each in enumerate(document["objects"]):
        if number:
            yield ()
        yield from build_pod_page(each, wide)
    ends = [
        f"{' '.join(filter(None, (each['object'], each['template'])))}: its pods are not "
        f"known here: {each['message']}"
        for each in document["unknown"]
    ]
    if document["skipped"]:
        listed = ", ".join(document["skipped"])
        ends.append(f"Skipped, because the webhook is not asked about their pods: {listed}")
    for end in ends:
        if document["objects"] or end is not ends[0]:
            yield ()
        yield (end,)
