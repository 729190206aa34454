"""Parses a Pod, with its ResourceClaims, for decisions about nodes and the pod itself.

Tens of thousands of pods are in memory, and each pod event of the cluster is parsed here: common
values are shared, and pods without GPUs are skipped early.
"""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import lru_cache
from sys import intern
from types import MappingProxyType
from typing import Any, NamedTuple, cast

import msgspec

from gpushare import names
from gpushare.api.decision_annotation import parse_past_decision
from gpushare.api.k8s.card_annotations import parse_count, parse_ledger
from gpushare.api.k8s.daemonset import (
    NONE_RENAMED,
    UNKNOWN_PLUGIN,
    find_standard_name,
    identify_plugin_by_folder,
)
from gpushare.api.k8s.dynamic_resources import list_claims
from gpushare.api.k8s.gpu_request import (
    ALL_DEVICES,
    count_card_memory,
    count_container,
    count_gpu_requests,
    count_host_requests,
    count_per_card,
    find_unrequested_cards,
    list_host_paths,
    list_running,
    read_gpu_environment,
)
from gpushare.api.k8s.interning import share, share_mapping
from gpushare.api.k8s.node_selection import CHOOSING, FOLLOWING
from gpushare.api.k8s.pod_owner import Workload, name_workload
from gpushare.api.k8s.pod_request import PodInfo, read_pod_request, read_waiting_info
from gpushare.api.k8s.pod_shape import Container, PodShape, Spec, parse_pod_shape
from gpushare.api.k8s.resources.host import NO_REQUEST, HostResources

_MESSAGES = 1024
"""Limit of the scheduler's messages that are cached, since similar pods have equal ones."""
MAX_MESSAGE = 300
"""Limit of the scheduler's message in characters; it lists the refusals of all nodes."""
MAX_LAST_WORDS = 120
"""Limit of a container's termination message in characters; its end has the cause."""
NO_CARD = "no-gpu-has-"
"""Prefix of the card's name that a plugin sets for a container if it found no card."""
REFUSED_BY_RUNTIME = ("StartError", "ContainerCannotRun")
"""Reasons of containerd and of Docker for a container whose program never ran."""
CRASH_LOOP = "CrashLoopBackOff"
NOTHING: Mapping[Any, int] = MappingProxyType({})
NOT_LOOKED_AT = ("", "")
_NO_SELECTION: frozenset[tuple[str, str]] = frozenset()
SCHEDULER_ERROR = "SchedulerError"
"""Reason of a pod on which the scheduler failed, such as by an extender that does not answer."""
_REFUSED = "Unschedulable"
"""Reason of a pod for which the scheduler found no node."""
_UNSCHEDULABLE = (_REFUSED, SCHEDULER_ERROR)
_LACKS_GPU = re.compile(
    rf"Insufficient (?:GPU|{'|'.join(map(re.escape, names.SHARED_RESOURCES))})(?=[,.]?(?:\s|$))",
    re.IGNORECASE,
)
"""The scheduler's message for a node that lacks resources of shared cards (kube-scheduler,
plugins/noderesources/fit.go), or GPU Memory on one card (gpushare-scheduler-extender), but not
another resource such as `example.com/gpu`."""
_PLUGIN = "nvidia-device-plugin"
"""Value of the label `component` of the whole-card plugin's pods."""
_MIRROR = "kubernetes.io/config.mirror"
"""Annotation of a mirror pod, which stands for a static pod."""
_SOURCE = "kubernetes.io/config.source"
"""Annotation with the kubelet's source of the pod: `file` for a static pod."""


@dataclass(frozen=True, slots=True)
class SharingContainer:
    """A container that shares a card, for as long as its pod lives."""

    name: str
    opts_out: bool | None = False
    """Whether CGPU_DISABLE in its environment turns isolation off; None where the value is only
    known when the container starts."""


@dataclass(frozen=True, slots=True)
class Pod:
    """The fields of a Pod that requests GPUs, selects a mode, or runs a node component."""

    namespace: str
    name: str
    uid: str
    node: str = ""
    phase: str = "Pending"
    deleting: bool = False
    ready: bool = False
    ready_since: datetime | None = None
    restarts: int = 0
    crash: str = ""
    """Container of a node component in CrashLoopBackOff, and how it ended last; else empty."""
    requests: Mapping[str, int] = field(default_factory=lambda: NOTHING)
    """Requested GPU resources, as kube-scheduler counts them."""
    card_memory: int = 0
    """Requested units of GPU memory of cards, as the scheduler extender counts them."""
    claims: tuple[str, ...] = ()
    """ResourceClaims of a bound pod by `namespace/name`; one that is not made yet has no name."""
    has_claimed_cards: bool | None = False
    """Whether the pod holds cards by ResourceClaims; None where that is unknown."""
    selects: frozenset[tuple[str, str]] = _NO_SELECTION
    """Pool and mode labels that the pod selects, with their values."""
    containers: tuple[SharingContainer, ...] = ()
    """Containers that share a card, without init containers, which end."""
    requires_isolation: bool = False
    daemonset: str = ""
    """Standard name of the owning DaemonSet, if it is in the plugins' namespace, or runs NVIDIA's
    or HAMi's plugin in any namespace. For another pod with gpushare's plugin `UNNAMED` and its
    name; `UNKNOWN_PLUGIN` for one that may be a device plugin."""
    unrequested: str = ""
    """Sign that the pod may hold cards that are not counted; empty where there is none, and for
    pods of DaemonSets, which belong to the node."""
    is_static_plugin: bool = False
    """Whether this is the whole-card plugin as a static pod, which only its kubelet can restart."""
    cards: Mapping[int, int] = field(default_factory=lambda: NOTHING)
    """Units of GPU memory allocated in the scheduler's ledger, by index of the card."""
    has_card: bool | None = True
    """False: a container can't start, because the plugin gave it no card. None: the plugin has not
    marked the card of the scheduler's ledger as given."""
    card_count: int = 1
    """Number of cards over which the label spreads the GPU memory evenly (Professional)."""
    created: datetime | None = None
    started: datetime | None = None
    """Time of the kubelet's admission, by the node's clock; only for pods that request whole cards
    or replicas of them."""
    unschedulable: str = ""
    """The scheduler's message, cut, where it found no node, or failed."""
    unscheduled: tuple[str, str] = field(default=NOT_LOOKED_AT, compare=False)
    """Reason and message, cut, of the condition PodScheduled."""
    lacks_gpu: bool | None = None
    """Whether the scheduler's message names shared GPU that some node lacks; None without a
    refusal of the scheduler."""
    host: HostResources = NO_REQUEST
    """Requested CPU and memory; only for pods without a node that request GPU memory."""
    info: PodInfo | None = None
    """What the schedulers need to know; only of pods without a node that they are to place."""
    gates: tuple[str, ...] = ()
    """Scheduling gates, which keep the scheduler from the pod until they are removed."""
    owner: str = ""
    """UID of the controller, such as a ReplicaSet, whose pods are all alike."""
    workload: Workload | None = None
    """Workload of the pod; only for pods that request GPU memory."""
    ranked_pools: tuple[str, ...] = ()
    """Other pools that could take a pod without a node when it was created."""
    unrouted: bool = False
    """Whether the pod requests shared GPU without any selection of nodes."""
    is_evictable: bool = True
    """Whether an eviction frees the node: not for pods of DaemonSets, which return to a cordoned
    node at once, nor for mirror pods ("Safely Drain a Node" in the Kubernetes documentation)."""

    @property
    def is_live(self) -> bool:
        return self.phase not in ("Succeeded", "Failed")

    @property
    def may_hold_cards(self) -> bool:
        """Whether the pod may hold cards that are not counted; `ALL_DEVICES` is too weak a sign."""
        is_sign = self.unrequested not in ("", ALL_DEVICES)
        return is_sign and self.is_live and not self.has_claimed_cards

    @property
    def gpu_memory(self) -> int:
        """Requested units of GPU memory."""
        return self.requests.get(names.RESOURCE_GPU_MEMORY, 0)

    def gpu_memory_per_card(self, *, is_extended: bool) -> int:
        """Count the units of GPU memory that each card must have free; `is_extended` tells whether
        a scheduler extender allocates them."""
        counts = self.gpu_memory, self.card_memory, self.card_count
        return count_per_card(*counts, is_extended=is_extended)[0]

    @property
    def pools(self) -> tuple[str, ...]:
        """Names of the selected pools: one, unless the affinity lists several."""
        return tuple(sorted(value for key, value in self.selects if key == names.LABEL_POOL))


def parse_pod(
    raw: dict[str, Any],
    *,
    plugin_namespaces: Collection[str],
    standard_names: Mapping[str, str] = NONE_RENAMED,
    schedulers: Collection[str] = (names.DEFAULT_SCHEDULER,),
    for_users: bool = False,
) -> Pod | None:
    """Parse a Pod from the API server's JSON; None where no decision depends on it.

    `standard_names` maps names of DaemonSets in the cluster to the standard ones. `schedulers` are
    those that allocate GPU memory by card: pods of others are never unrouted. With `for_users` also
    pods are parsed that only matter to a user.
    """
    meta, shape = raw["metadata"], parse_pod_shape(raw)
    spec, status = shape.spec or Spec(), raw.get("status") or {}
    owner, annotations = find_controller(meta), meta.get("annotations") or {}
    role = _find_role(raw, spec, owner, plugin_namespaces, standard_names)
    requests, selects, daemonset, unrequested, static, claims = role
    if not for_users:
        daemonset = "" if daemonset == UNKNOWN_PLUGIN else daemonset
        unrequested = "" if unrequested == ALL_DEVICES else unrequested
    if not (requests or selects or daemonset or unrequested or static or claims):
        return None
    shares = names.RESOURCE_GPU_MEMORY in requests
    gpu_share = _read_gpu_share(meta, spec, status, owner) if shares else _NO_GPU_SHARE
    created = _parse_time(meta.get("creationTimestamp"))
    ready_since = _find_ready_since(status, created)
    unschedulable, unscheduled, lacks_gpu = _read_scheduling(status)
    return Pod(
        namespace=intern(meta["namespace"]),
        name=meta["name"],
        uid=meta["uid"],
        node=intern(spec.node_name or ""),
        phase=intern(status.get("phase") or "Pending"),
        deleting="deletionTimestamp" in meta,
        ready=ready_since is not None,
        ready_since=ready_since,
        restarts=_count_restarts(status),
        crash=_describe_crash(status) if daemonset or static else "",
        requests=share_mapping(tuple(requests.items())) if requests else NOTHING,
        claims=claims,
        selects=share(selects) if selects else _NO_SELECTION,
        requires_isolation=annotations.get(names.ANNOTATION_ISOLATION) == names.ISOLATION_REQUIRED,
        daemonset=intern(daemonset),
        is_static_plugin=static,
        unrequested=intern(unrequested),
        owner=intern(str(owner.get("uid", ""))),
        created=created,
        started=_parse_time(status.get("startTime")) if requests and not shares else None,
        unschedulable=unschedulable,
        unscheduled=unscheduled,
        lacks_gpu=lacks_gpu,
        info=read_waiting_info(shape, schedulers) if requests else None,
        gates=_list_gates(spec) if spec.scheduling_gates else (),
        ranked_pools=() if spec.node_name else _list_ranked_pools(annotations),
        unrouted=_is_unrouted(shape, spec, requests, selects, schedulers),
        is_evictable=owner.get("kind") != "DaemonSet" and _MIRROR not in annotations,
        card_memory=gpu_share.card_memory,
        containers=gpu_share.containers,
        workload=gpu_share.workload,
        cards=gpu_share.cards,
        has_card=gpu_share.has_card,
        card_count=gpu_share.card_count,
        host=gpu_share.host,
    )


def judge_claims(pod: Pod, claims: Mapping[str, bool | None] | None) -> Pod:
    """Return `pod` with `has_claimed_cards` set.

    `claims` has the results of `allocates_cards` by `namespace/name`; None where claims can't be
    read. A kubelet starts no pod with a claim that is not allocated.
    """
    if not pod.claims:
        return pod
    is_waiting = claims is not None and pod.phase == "Pending"
    results = {(claims or {}).get(key) for key in pod.claims}
    unknown = None in results and not is_waiting
    return replace(pod, has_claimed_cards=True if True in results else None if unknown else False)


class _Role(NamedTuple):
    """Fields of a `Pod` of which one at least is set where decisions depend on the pod."""

    requests: Mapping[str, int]
    selects: frozenset[tuple[str, str]]
    daemonset: str
    unrequested: str
    is_static_plugin: bool
    claims: tuple[str, ...]


def _find_role(
    raw: Mapping[str, Any],
    spec: Spec,
    owner: Mapping[str, Any],
    plugin_namespaces: Collection[str],
    standard_names: Mapping[str, str],
) -> _Role:
    meta, raw_spec = raw["metadata"], raw.get("spec") or {}
    by_daemonset, static = (
        owner.get("kind") == "DaemonSet",
        _is_static_plugin(meta, plugin_namespaces),
    )
    requests, paths = count_gpu_requests(spec), list_host_paths(raw_spec)
    daemonset = unrequested = ""
    if by_daemonset:
        daemonset = _find_daemonset(meta, owner, spec, paths, plugin_namespaces, standard_names)
    if paths and not static:
        named, containers = str(owner.get("name", "")), raw_spec.get("containers") or ()
        daemonset = identify_plugin_by_folder(daemonset, named, containers, paths)
    if spec.node_name and not (requests or by_daemonset or static):
        unrequested = find_unrequested_cards(raw_spec, spec, paths)
    # A DaemonSet's pods follow the label that they select, so they block no change.
    selects = _NO_SELECTION if by_daemonset else _find_selected(spec)
    claims = list_claims(meta["namespace"], spec, raw.get("status") or {}) if spec.node_name else ()
    return _Role(requests, selects, daemonset, unrequested, static, claims)


class _GpuShare(NamedTuple):
    """Fields of a `Pod` that requests GPU memory, and their values for any other."""

    card_memory: int = 0
    containers: tuple[SharingContainer, ...] = ()
    workload: Workload | None = None
    cards: Mapping[int, int] = NOTHING
    has_card: bool | None = True
    card_count: int = 1
    host: HostResources = NO_REQUEST


_NO_GPU_SHARE = _GpuShare()


def _read_gpu_share(
    meta: Mapping[str, Any], spec: Spec, status: Mapping[str, Any], owner: Mapping[str, Any]
) -> _GpuShare:
    annotations, is_bound = meta.get("annotations") or {}, bool(spec.node_name)
    card_memory = _sum_card_memory(spec.containers)
    return _GpuShare(
        card_memory,
        share(_find_sharing(spec)),
        share(name_workload(meta, owner)),
        # A failed binding leaves its entry on a pod that holds no card.
        _read_cards(spec, annotations, card_memory) if is_bound else NOTHING,
        _find_card(annotations, status),
        _count_cards(meta),
        NO_REQUEST if is_bound else count_host_requests(spec),
    )


def _read_cards(spec: Spec, annotations: Mapping[str, str], card_memory: int) -> Mapping[int, int]:
    limit = card_memory + _sum_card_memory(spec.init_containers)
    return parse_ledger(annotations, card_memory, limit)


def _sum_card_memory(containers: Iterable[Container] | None) -> int:
    return count_card_memory(map(count_container, containers or ()))


def _find_selected(spec: Spec) -> frozenset[tuple[str, str]]:
    """Find our labels in the node selector or required affinity (In), also where no node could
    match, or the affinity is too long to be evaluated."""
    selected = {(key, each) for key, each in (spec.node_selector or {}).items() if key in FOLLOWING}
    affinity = spec.affinity and spec.affinity.node_affinity
    for term in (affinity and affinity.required and affinity.required.node_selector_terms) or ():
        for wanted in term.match_expressions or ():
            if wanted.operator == "In" and wanted.key in FOLLOWING:
                selected.update((wanted.key, value) for value in wanted.values or ())
    return frozenset(selected)


def _find_sharing(spec: Spec) -> tuple[SharingContainer, ...]:
    sharing = []
    for container in list_running(spec):
        if names.RESOURCE_GPU_MEMORY in count_container(container):
            environment = read_gpu_environment(container)
            opts_out: bool | None = environment.disables_isolation
            if environment.may_disable_isolation and not opts_out:
                opts_out = None
            sharing.append(SharingContainer(intern(container.name or ""), opts_out))
    return tuple(sharing)


def _read_scheduling(status: Mapping[str, Any]) -> tuple[str, tuple[str, str], bool | None]:
    """Return `unschedulable`, `unscheduled` and `lacks_gpu` of a `Pod`."""
    condition = _find_condition(status, "PodScheduled")
    reason, in_full = intern(condition.get("reason") or ""), condition.get("message") or ""
    message = intern(in_full[:MAX_MESSAGE])
    lacks_gpu = _finds_lack(in_full) if in_full and reason == _REFUSED else None
    return message if reason in _UNSCHEDULABLE else "", share((reason, message)), lacks_gpu


@lru_cache(_MESSAGES)
def _finds_lack(message: str) -> bool:
    return _LACKS_GPU.search(message) is not None


def _list_gates(spec: Spec) -> tuple[str, ...]:
    return share(tuple([each.name or "" for each in spec.scheduling_gates or ()]))


def _list_ranked_pools(annotations: Mapping[str, str]) -> tuple[str, ...]:
    past = parse_past_decision(annotations)
    return share(past.ranked_pools) if past is not None else ()


def _is_static_plugin(meta: Mapping[str, Any], plugin_namespaces: Collection[str]) -> bool:
    """Tell whether this is the plugin's static pod, by the label that the DaemonSet's pods have too
    and the source that only the kubelet sets (vendor's page on updating the device plugin)."""
    if meta["namespace"] not in plugin_namespaces:
        return False
    labels, annotations = meta.get("labels") or {}, meta.get("annotations") or {}
    if labels.get("component") != _PLUGIN:
        return False
    return annotations.get(_SOURCE) == "file" or _MIRROR in annotations


def find_controller(meta: Mapping[str, Any]) -> Mapping[str, Any]:
    """Find the owner reference of a pod's controller in its metadata; empty without one."""
    owners: Iterable[Mapping[str, Any]] = meta.get("ownerReferences") or ()
    return next((each for each in owners if each.get("controller")), {})


def _find_daemonset(
    meta: Mapping[str, Any],
    owner: Mapping[str, Any],
    spec: Spec,
    paths: Sequence[str],
    plugin_namespaces: Collection[str],
    standard_names: Mapping[str, str],
) -> str:
    name, is_plugins = str(owner["name"]), meta["namespace"] in plugin_namespaces
    known = standard_names.get(name, name) if is_plugins else name
    labels, containers = meta.get("labels") or {}, spec.containers or ()
    return find_standard_name(known, labels, containers, paths, is_plugins=is_plugins)


def _find_condition(status: Mapping[str, Any], kind: str) -> Mapping[str, Any]:
    for condition in status.get("conditions") or ():
        if condition.get("type") == kind:
            return cast(Mapping[str, Any], condition)
    return {}


def _find_ready_since(status: Mapping[str, Any], created: datetime | None) -> datetime | None:
    """Return since when the pod is Ready; the clock of its node may be behind the API server's."""
    ready = _find_condition(status, "Ready")
    since = _parse_time(ready.get("lastTransitionTime")) if ready.get("status") == "True" else None
    return max(since, created) if since and created else since


def _parse_time(text: str | None) -> datetime | None:
    return datetime.fromisoformat(text) if text else None


def _count_restarts(status: Mapping[str, Any]) -> int:
    return sum(each.get("restartCount", 0) for each in status.get("containerStatuses") or ())


def _describe_crash(status: Mapping[str, Any]) -> str:
    """Describe the first container that waits for its next restart after crashes."""
    for container in status.get("containerStatuses") or ():
        waiting = (container.get("state") or {}).get("waiting") or {}
        if waiting.get("reason") != CRASH_LOOP:
            continue
        ended = (container.get("lastState") or {}).get("terminated") or {}
        message = " ".join((ended.get("message") or "").split())[-MAX_LAST_WORDS:]
        return (
            f"container {container['name']} is in {CRASH_LOOP} "
            f"({container.get('restartCount', 0)} restarts, last exit code "
            f"{ended.get('exitCode', 'unknown')}){f': {message}' if message else ''}"
        )
    return ""


def _find_card(annotations: Mapping[str, str], status: Mapping[str, Any]) -> bool | None:
    for container in status.get("containerStatuses") or ():
        waiting = (container.get("state") or {}).get("waiting") or {}
        ended = (container.get("lastState") or {}).get("terminated") or {}
        # The message of a container that ran is its program's.
        was_refused = ended.get("reason") in REFUSED_BY_RUNTIME
        for message in (waiting.get("message"), ended.get("message") if was_refused else ""):
            if NO_CARD in (message or ""):
                return False
    return None if annotations.get(names.ANNOTATION_ASSIGNED) == "false" else True


def _count_cards(meta: Mapping[str, Any]) -> int:
    """Read the Professional edition's card count; 1 without a valid number."""
    return parse_count((meta.get("labels") or {}).get(names.LABEL_CARD_COUNT, "")) or 1


def _is_unrouted(
    pod: PodShape,
    spec: Spec,
    requests: Mapping[str, int],
    selects: Iterable[tuple[str, str]],
    schedulers: Collection[str],
) -> bool:
    """Tell whether the webhook would route the pod, apart from the node that the scheduler set."""
    if not requests or any(key in CHOOSING for key, _ in selects):
        return False
    if spec.scheduling_gates:
        # The owner of the gate may still select nodes for it.
        return False
    unbound = PodShape(pod.metadata, msgspec.structs.replace(spec, node_name=None))
    return read_pod_request(unbound).is_left_to_admission(schedulers)
