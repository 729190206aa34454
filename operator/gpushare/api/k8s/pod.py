"""A Pod, with its ResourceClaims, as far as decisions about nodes, and the pod itself, need it.

Tens of thousands live in memory, and each pod event of the cluster comes through here: what pods
have in common is kept once, and what is of no interest is left at the first look.
"""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import lru_cache
from sys import intern
from types import MappingProxyType
from typing import Any, cast

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
from gpushare.api.k8s.node_selection import CHOOSING
from gpushare.api.k8s.pod_owner import Workload, name_workload
from gpushare.api.k8s.pod_request import read_pod_request
from gpushare.api.k8s.pod_shape import Container, PodShape, Spec, parse_pod_shape
from gpushare.api.k8s.resources.host import NO_REQUEST, HostResources

_MESSAGES = 1024
"""Of the scheduler that are not read again: pods that are alike have the same."""
MAX_MESSAGE = 300
"""Of the scheduler's message; it lists every node's refusal, the first ones tell."""

MAX_LAST_WORDS = 120
"""Of the message with which a container ended: its end tells why."""
NO_CARD = "no-gpu-has-"
"""Begins the name of the card that a container is given by a plugin that found none for it."""
REFUSED_BY_RUNTIME = ("StartError", "ContainerCannotRun")
"""Reasons of containerd and of Docker for a container whose program never ran."""
CRASH_LOOP = "CrashLoopBackOff"
NOTHING: Mapping[Any, int] = MappingProxyType({})
NOT_LOOKED_AT = ("", "")
_NO_SELECTION: frozenset[tuple[str, str]] = frozenset()
_SELECTED = CHOOSING | {names.LABEL_ISOLATION_VERIFIED}
"""What a mode that is given up breaks."""
SCHEDULER_ERROR = "SchedulerError"
"""Reason of a pod that the scheduler failed on, as where its extender does not answer."""
_REFUSED = "Unschedulable"
"""Reason of a pod for which the scheduler found no node."""
_UNSCHEDULABLE = (_REFUSED, SCHEDULER_ERROR)
_LACKS_GPU = re.compile(
    rf"Insufficient (?:GPU|{'|'.join(map(re.escape, names.SHARED_RESOURCES))})(?=[,.]?(?:\s|$))",
    re.IGNORECASE,
)
"""Of a node that lacks what shared cards give (kube-scheduler, plugins/noderesources/fit.go), or
GPU Memory on one card (gpushare-scheduler-extender). Anybody may ask for `example.com/gpu`."""
_MIRROR = "kubernetes.io/config.mirror"
"""On the API server's image of a static pod, which its kubelet alone starts and ends."""
_SOURCE = "kubernetes.io/config.source"
"""From where the kubelet has the pod: `file` is a static one."""


@dataclass(frozen=True, slots=True)
class SharingContainer:
    """A container that shares a card, for as long as its pod lives."""

    name: str
    opts_out: bool | None = False
    """CGPU_DISABLE in its own environment takes isolation off; None where its value is read from
    somewhere when the container starts."""


@dataclass(frozen=True, slots=True)
class Pod:
    """A projection of a Pod that asks for GPUs, selects a mode, or runs a node component."""

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
    """Of a node component: its container that the kubelet keeps restarting, and how that ended last
    time; empty where there is none."""
    requests: Mapping[str, int] = field(default_factory=lambda: NOTHING)
    """GPU resources that it asks for, as kube-scheduler counts them."""
    card_memory: int = 0
    """Units of GPU memory that it needs of its cards, as the scheduler extender counts them."""
    claims: tuple[str, ...] = ()
    """Its ResourceClaims by `namespace/name`, once it is bound; one that is not made yet has no
    name."""
    has_claimed_cards: bool | None = False
    """Whether it holds cards by its ResourceClaims; None where nobody knows."""
    selects: frozenset[tuple[str, str]] = _NO_SELECTION
    """Pool and mode labels, with the values that it needs its node to have."""
    containers: tuple[SharingContainer, ...] = ()
    """Those that share a card; init containers, which end, are left out."""
    requires_isolation: bool = False
    daemonset: str = ""
    """Standard name of the owning DaemonSet, where it is one of the plugins' namespace, or runs
    NVIDIA's or HAMi's plugin, in any namespace. Of any other pod that runs gpushare's plugin
    `UNNAMED` before its name; `UNKNOWN_PLUGIN` of one that may be a device plugin."""
    unrequested: str = ""
    """What shows that it may hold cards, although it asks for none; empty where nothing does, and
    for the pods of DaemonSets, which belong to the node."""
    is_static_plugin: bool = False
    """The whole-card plugin as a static pod: nothing but its node's kubelet can restart it."""
    cards: Mapping[int, int] = field(default_factory=lambda: NOTHING)
    """Units of GPU memory that the scheduler's ledger gives it, by index of the card."""
    has_card: bool | None = True
    """False: a container can't start, because the plugin gave it no card. None: the plugin has not
    marked the card of the scheduler's ledger as given."""
    card_count: int = 1
    """Cards over which its label spreads its GPU memory evenly (Professional)."""
    created: datetime | None = None
    started: datetime | None = None
    """When its kubelet admitted it, by the node's clock; of pods that ask for whole cards or for
    replicas of them alone."""
    unschedulable: str = ""
    """The scheduler's message, cut, where it found no node, or failed."""
    unscheduled: tuple[str, str] = field(default=NOT_LOOKED_AT, compare=False)
    """Why it has no node: the reason and the message, cut, of its condition PodScheduled."""
    lacks_gpu: bool | None = None
    """Whether the scheduler's message names shared GPU that some node lacks; None where the
    scheduler has refused it no node."""
    host: HostResources = NO_REQUEST
    """CPU and memory that it requests; of pods without a node that ask for GPU memory alone."""
    gates: tuple[str, ...] = ()
    """Scheduling gates: no scheduler looks at it before they are removed."""
    owner: str = ""
    """UID of what controls it, such as a ReplicaSet: its pods are all alike."""
    workload: Workload | None = None
    """What it is one of; of pods that ask for GPU memory alone."""
    ranked_pools: tuple[str, ...] = ()
    """Of a pod without a node: other pools that could take it, too, when it was created."""
    unrouted: bool = False
    """It asks for shared GPU, and neither its owner nor anything else says on which nodes."""
    is_evictable: bool = True
    """Evicting it frees its node: not so for a DaemonSet's pods, which come back to a cordoned
    node at once, nor for mirror pods ("Safely Drain a Node" in the Kubernetes documentation)."""

    @property
    def is_live(self) -> bool:
        return self.phase not in ("Succeeded", "Failed")

    @property
    def may_hold_cards(self) -> bool:
        """Whether it may hold cards that nobody counts; those that may use any device hardly do."""
        is_sign = self.unrequested not in ("", ALL_DEVICES)
        return is_sign and self.is_live and not self.has_claimed_cards

    @property
    def gpu_memory(self) -> int:
        """Units of GPU memory that it asks its node for."""
        return self.requests.get(names.RESOURCE_GPU_MEMORY, 0)

    def gpu_memory_per_card(self, *, is_extended: bool) -> int:
        """Units of GPU memory that each of its cards must have free; `is_extended` is whether a
        scheduler extender allocates them."""
        counts = self.gpu_memory, self.card_memory, self.card_count
        return count_per_card(*counts, is_extended=is_extended)[0]

    @property
    def pools(self) -> tuple[str, ...]:
        """Names of the pools that it selects: one, unless its affinity lists several."""
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

    `standard_names` maps names of DaemonSets in the cluster to the standard ones. `schedulers` give
    out GPU memory card by card: pods of others are never unrouted. With `for_users` pods are parsed
    too on which no decision depends, but that a user wants to know of.
    """
    meta, shape = raw["metadata"], parse_pod_shape(raw)
    spec = shape.spec or Spec()
    requests = count_gpu_requests(spec)
    owner = _find_controller(meta)
    by_daemonset = owner.get("kind") == "DaemonSet"
    # A DaemonSet's pods come and go with the label that they select; nobody has to wait for them.
    selects = _NO_SELECTION if by_daemonset else _find_selected(spec)
    is_routed = any(key in CHOOSING for key, _ in selects)
    namespace = meta["namespace"]
    raw_spec, daemonset, unrequested = raw.get("spec") or {}, "", ""
    paths = list_host_paths(raw_spec)
    if by_daemonset:
        daemonset = _find_daemonset(meta, owner, spec, paths, plugin_namespaces, standard_names)
    annotations = meta.get("annotations") or {}
    static = namespace in plugin_namespaces and _is_static_plugin(meta, annotations)
    status = raw.get("status") or {}
    node = spec.node_name or ""
    if paths and not static:
        named, containers = str(owner.get("name", "")), raw_spec.get("containers") or ()
        daemonset = identify_plugin_by_folder(daemonset, named, containers, paths)
    if node and not (requests or by_daemonset or static):
        unrequested = find_unrequested_cards(raw_spec, spec, paths)
    if not for_users:
        unrequested = "" if unrequested == ALL_DEVICES else unrequested
        daemonset = "" if daemonset == UNKNOWN_PLUGIN else daemonset
    claims = list_claims(namespace, spec, status) if node else ()
    if not (requests or selects or daemonset or static or claims or unrequested):
        return None
    ready = _find_condition(status, "Ready")
    since = ready.get("lastTransitionTime") if ready.get("status") == "True" else None
    created, started = meta.get("creationTimestamp"), status.get("startTime")
    shares = names.RESOURCE_GPU_MEMORY in requests
    asks_for_cards = bool(requests) and not shares
    card_memory = _sum_card_memory(spec.containers) if shares else 0
    scheduled = _find_condition(status, "PodScheduled")
    reason = intern(scheduled.get("reason") or "")
    in_full = scheduled.get("message") or ""
    message = intern(in_full[:MAX_MESSAGE])
    past = None if node else parse_past_decision(annotations)
    return Pod(
        namespace=intern(namespace),
        name=meta["name"],
        uid=meta["uid"],
        node=intern(node),
        phase=intern(status.get("phase") or "Pending"),
        deleting="deletionTimestamp" in meta,
        ready=since is not None,
        ready_since=datetime.fromisoformat(since) if since else None,
        restarts=sum(
            container.get("restartCount", 0) for container in status.get("containerStatuses") or ()
        ),
        crash=_describe_crash(status) if daemonset or static else "",
        requests=share_mapping(tuple(requests.items())) if requests else NOTHING,
        card_memory=card_memory,
        claims=claims,
        selects=share(selects) if selects else _NO_SELECTION,
        containers=share(_find_sharing(spec)) if shares else (),
        requires_isolation=(
            annotations.get(names.ANNOTATION_ISOLATION) == names.ISOLATION_REQUIRED
        ),
        daemonset=intern(daemonset),
        is_static_plugin=static,
        unrequested=intern(unrequested),
        owner=intern(str(owner.get("uid", ""))),
        workload=share(name_workload(meta, owner)) if shares else None,
        # A binding that failed leaves its entry behind, on a pod that holds nothing.
        cards=_read_cards(spec, annotations, card_memory) if shares and node else NOTHING,
        has_card=_find_card(annotations, status) if shares else True,
        card_count=_count_cards(meta) if shares else 1,
        created=datetime.fromisoformat(created) if created else None,
        started=datetime.fromisoformat(started) if started and asks_for_cards else None,
        unschedulable=message if reason in _UNSCHEDULABLE else "",
        unscheduled=share((reason, message)),
        lacks_gpu=_finds_lack(in_full) if in_full and reason == _REFUSED else None,
        host=NO_REQUEST if node or not shares else count_host_requests(spec),
        gates=_list_gates(spec) if spec.scheduling_gates else (),
        ranked_pools=share(past.ranked_pools) if past is not None else (),
        unrouted=bool(requests) and not is_routed and _is_unrouted(shape, schedulers),
        is_evictable=not by_daemonset and _MIRROR not in annotations,
    )


def judge_claims(pod: Pod, claims: Mapping[str, bool | None] | None) -> Pod:
    """Return `pod` with `has_claimed_cards` set.

    `claims` has what `allocates_cards` tells, by `namespace/name`; None where claims can't be read.
    A kubelet starts no pod with a claim that is not allocated.
    """
    if not pod.claims:
        return pod
    is_waiting = claims is not None and pod.phase == "Pending"
    told = {(claims or {}).get(key) for key in pod.claims}
    unknown = None in told and not is_waiting
    return replace(pod, has_claimed_cards=True if True in told else None if unknown else False)


def _read_cards(spec: Spec, annotations: Mapping[str, str], card_memory: int) -> Mapping[int, int]:
    limit = card_memory + _sum_card_memory(spec.init_containers)
    return parse_ledger(annotations, card_memory, limit)


def _sum_card_memory(containers: Iterable[Container] | None) -> int:
    return count_card_memory(map(count_container, containers or ()))


def _find_selected(spec: Spec) -> frozenset[tuple[str, str]]:
    """Find our labels that the node selector or required affinity (In) asks for: all of them, even
    where no node could have them together, or there are too many to be evaluated."""
    found = {(key, each) for key, each in (spec.node_selector or {}).items() if key in _SELECTED}
    affinity = spec.affinity and spec.affinity.node_affinity
    for term in (affinity and affinity.required and affinity.required.node_selector_terms) or ():
        for wanted in term.match_expressions or ():
            if wanted.operator == "In" and wanted.key in _SELECTED:
                found.update((wanted.key, value) for value in wanted.values or ())
    return frozenset(found)


def _find_sharing(spec: Spec) -> tuple[SharingContainer, ...]:
    found = []
    for container in list_running(spec):
        if names.RESOURCE_GPU_MEMORY in count_container(container):
            said = read_gpu_environment(container)
            opts_out: bool | None = said.disables_isolation
            if said.may_disable_isolation and not opts_out:
                opts_out = None
            found.append(SharingContainer(intern(container.name or ""), opts_out))
    return tuple(found)


@lru_cache(_MESSAGES)
def _finds_lack(message: str) -> bool:
    return _LACKS_GPU.search(message) is not None


def _list_gates(spec: Spec) -> tuple[str, ...]:
    return share(tuple([each.name or "" for each in spec.scheduling_gates or ()]))


def _is_static_plugin(meta: Mapping[str, Any], annotations: Mapping[str, str]) -> bool:
    """Recognize a plugin's static pod by the label that the DaemonSet's pods carry too, and by the
    source that only the kubelet sets (vendor's page on updating the device plugin)."""
    if (meta.get("labels") or {}).get("component") != "nvidia-device-plugin":
        return False
    return annotations.get(_SOURCE) == "file" or _MIRROR in annotations


def _find_controller(meta: Mapping[str, Any]) -> Mapping[str, Any]:
    for reference in meta.get("ownerReferences") or ():
        if reference.get("controller"):
            return cast(Mapping[str, Any], reference)
    return {}


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


def _describe_crash(status: Mapping[str, Any]) -> str:
    """Describe the first container that waits for its next restart after crashes."""
    for container in status.get("containerStatuses") or ():
        waiting = (container.get("state") or {}).get("waiting") or {}
        if waiting.get("reason") != CRASH_LOOP:
            continue
        ended = (container.get("lastState") or {}).get("terminated") or {}
        said = " ".join((ended.get("message") or "").split())[-MAX_LAST_WORDS:]
        return (
            f"container {container['name']} is in {CRASH_LOOP} "
            f"({container.get('restartCount', 0)} restarts, last exit code "
            f"{ended.get('exitCode', 'unknown')}){f': {said}' if said else ''}"
        )
    return ""


def _find_card(annotations: Mapping[str, str], status: Mapping[str, Any]) -> bool | None:
    for container in status.get("containerStatuses") or ():
        waiting = (container.get("state") or {}).get("waiting") or {}
        ended = (container.get("lastState") or {}).get("terminated") or {}
        # The message of a container that ran is what its program wrote.
        was_refused = ended.get("reason") in REFUSED_BY_RUNTIME
        for message in (waiting.get("message"), ended.get("message") if was_refused else ""):
            if NO_CARD in (message or ""):
                return False
    return None if annotations.get(names.ANNOTATION_ASSIGNED) == "false" else True


def _count_cards(meta: Mapping[str, Any]) -> int:
    """Read the Professional edition's card count; 1 without a valid number."""
    return parse_count((meta.get("labels") or {}).get(names.LABEL_CARD_COUNT, "")) or 1


def _is_unrouted(pod: PodShape, schedulers: Collection[str]) -> bool:
    """Tell whether the webhook would route the pod, leaving out the node that the scheduler set."""
    spec = pod.spec or Spec()
    if spec.scheduling_gates:
        # Held back by somebody who may still say where it goes.
        return False
    unbound = PodShape(pod.metadata, msgspec.structs.replace(spec, node_name=None))
    return read_pod_request(unbound).is_left_to_admission(schedulers)
