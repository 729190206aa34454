"""Keeps copies in memory of what decisions use, and notes what changed in them."""

import asyncio
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any

from gpushare import names
from gpushare.api.k8s.daemonset import DaemonSet, list_standard_names, parse_daemonset
from gpushare.api.k8s.job import Job, parse_job
from gpushare.api.k8s.namespace import Namespace, parse_namespace
from gpushare.api.k8s.node import Node, UnhealthyCards, parse_node, parse_unhealthy_cards
from gpushare.api.k8s.pod import Pod, judge_claims, parse_pod
from gpushare.api.windows import Freeze, parse_freeze
from gpushare.controller.dynamic_resources import REFUSAL_SECONDS, DynamicResources
from gpushare.core.records.change_record import Change, ChangePhase
from gpushare.core.records.node_records import parse_records
from gpushare.core.records.record import RecordError
from gpushare.core.snapshot.cluster import ClusterSnapshot
from gpushare.editions.plugin_config_map import parse_configs
from gpushare.editions.plugin_configs import PluginConfigs
from gpushare.editions.plugin_daemonsets import PluginDaemonSets
from gpushare.editions.registry import get_mode
from gpushare.kube.client import ApiClient, Json
from gpushare.kube.informer import EventHandler, Informer, Record
from gpushare.kube.resources.jobs import jobs_path
from gpushare.observe.metrics import Metrics
from gpushare.settings import Settings


class Informers:
    """Nodes, the pods that matter, namespaces, the DaemonSets of the plugins' namespace, and the
    Jobs of teardowns where there may be any.

    `on_change` is called whenever something in them changed, but for a change of a node that is
    not `is_relevant`; `on_pod` for each pod.
    """

    def __init__(
        self,
        api: ApiClient,
        settings: Settings,
        *,
        on_change: Callable[[], None],
        on_pod: EventHandler = lambda key, old, new: None,
        is_relevant: Callable[[Node, Node], bool] = lambda old, new: True,
        metrics: Metrics,
    ):
        self._notify = on_change
        self._note_pod = on_pod
        self._is_relevant = is_relevant
        self._metrics = metrics
        self._due_at: dict[str, float] = {}
        """Time by which something is to be received about each kind, by the monotonic clock."""
        self._changed: set[str] = set()
        self._zeroed: set[str] = set()
        self._pods: dict[str, dict[str, Pod]] = {}
        self._jobs: dict[str, dict[str, Job]] = {}
        self.unschedulable_pods: dict[str, Pod] = {}
        """GPU pods that have no node, or that nobody sent to a pool."""
        self._waited_for: set[str] = set()

        self._settings = settings
        self.parse_pod: Callable[[Json], Pod | None] = partial(
            parse_pod,
            plugin_namespaces={settings.plugin_namespace, settings.nvidia_namespace},
            standard_names=list_standard_names(settings.plugin_daemonsets),
            schedulers=settings.schedulers,
        )
        """A Pod from the API server's JSON, as all of them are read here."""
        self._api = api
        self._informers: dict[str, Informer[Any]] = {}
        """Informers that must be synced before anything is decided, by resource."""
        self._optional: dict[str, Informer[Any]] = {}
        """Informers without which, or without the right to which, everything else continues."""
        self.nodes: Informer[Node] = self._add("api/v1/nodes", parse_node, self._on_node)
        self.pods: Informer[Pod] = self._add("api/v1/pods", self.parse_pod, self._on_pod)
        self.daemonsets: Informer[DaemonSet] = self._add(
            f"apis/apps/v1/namespaces/{settings.plugin_namespace}/daemonsets",
            parse_daemonset,
            lambda key, old, new: self._notify(),
        )
        self._nvidias: Mapping[str, DaemonSet] = {}
        self._nvidia_configs: Mapping[str, PluginConfigs] = {}
        """Configurations of NVIDIA's device plugin; pools of its edition wait until they are read.
        """
        if namespace := settings.nvidia_namespace:
            self._nvidias = self._add(
                f"apis/apps/v1/namespaces/{namespace}/daemonsets",
                parse_daemonset,
                lambda key, old, new: self._notify(),
                resource="nvidia-daemonsets",
                is_optional=True,
            ).records
            self._nvidia_configs = self._add(
                f"api/v1/namespaces/{namespace}/configmaps",
                parse_configs,
                lambda key, old, new: self._notify(),
                resource="nvidia-configmaps",
                is_optional=True,
            ).records
        self.namespaces: Informer[Namespace] = self._add(
            "api/v1/namespaces", parse_namespace, lambda key, old, new: None
        )
        self.freezes: Informer[Freeze] = self._add(
            f"api/v1/namespaces/{settings.namespace}/configmaps",
            parse_freeze,
            lambda key, old, new: self._notify(),
            resource="freeze",
            params={"fieldSelector": f"metadata.name={names.FREEZE_CONFIGMAP}"},
        )
        """The freeze of all pools; nothing begins until it is read."""
        self.jobs: Informer[Job] | None = None
        if settings.allow_teardown_jobs:
            path = jobs_path(settings.teardown_namespace)
            self.jobs = self._add(path, parse_job, self._on_job)
        self.unhealthy: Informer[UnhealthyCards] = self._add(
            f"api/v1/namespaces/{names.EXTENDER_NAMESPACE}/configmaps",
            parse_unhealthy_cards,
            self._on_unhealthy,
            is_optional=True,
        )
        """Without these, cards count as healthy. Where the right is taken away the metric of
        watches tells."""
        self.dynamic = DynamicResources(api, metrics, on_change=self.mark_changed)

    def _add(
        self,
        path: str,
        parse: Callable[[Json], Record | None],
        on_change: EventHandler,
        *,
        resource: str = "",
        params: Mapping[str, str] = MappingProxyType({}),
        is_optional: bool = False,
    ) -> Informer[Record]:
        """Add an informer; `resource` is its name in metrics and messages."""
        resource = resource or path.rpartition("/")[2]
        note = self._metrics.observe_watch if is_optional else self.note_event
        informer = Informer(
            self._api,
            path,
            parse,
            on_change=on_change,
            on_alive=partial(note, resource),
            params=params,
            refusal_seconds=REFUSAL_SECONDS if is_optional else 0.0,
        )
        (self._optional if is_optional else self._informers)[resource] = informer
        return informer

    def find_unlisted(self) -> str | None:
        """Name the resources that were never listed completely; None where all were."""
        unlisted = [name for name, r in self._informers.items() if not r.synced.is_set()]
        return f"not listed yet: {', '.join(unlisted)}" if unlisted else None

    def find_stalled(self, limit_seconds: float) -> str | None:
        """Find the first watch that is open and brought nothing for longer than this."""
        informers = self._informers.values()
        stalled = (r.watch_health.find_stalled(limit_seconds) for r in informers)
        return next(filter(None, stalled), None)

    def note_event(self, resource: str, next_in_seconds: float = 0.0) -> None:
        """Note that a list or a watch of it was just answered, and when the next one is due."""
        self._due_at[resource] = time.monotonic() + next_in_seconds
        self._metrics.observe_watch(resource)

    def find_unsynced(self, limit_seconds: float) -> str | None:
        """Find the first resource about which something has been due for longer than this.

        What is known of it may be long gone, whether its watch is silent, refused or unreachable.
        """
        now = time.monotonic()
        for resource, due_at in self._due_at.items():
            if (late_seconds := now - due_at) > limit_seconds:
                return f"nothing was received about {resource}, due {late_seconds:.0f} s ago"
        return None

    async def run(self) -> None:
        """Keep the copies up to date, for ever."""
        async with asyncio.TaskGroup() as group:
            for informer in (self._informers | self._optional).values():
                group.create_task(informer.run())
            group.create_task(self.dynamic.run())

    async def wait_synced(self) -> None:
        """Wait until each was listed completely once; before that, absence means nothing."""
        for informer in self._informers.values():
            await informer.synced.wait()
        for optional in self._optional.values():
            await optional.tried.wait()
        await self.dynamic.wait_tried()

    async def relist(self) -> None:
        """Take in everything as it is now: a watch may be behind, and nobody can tell by how much.

        What another controller did is unknown without this, and would not count in a budget.
        """
        optional = (*self._optional.values(), *self.dynamic.informers)
        present = (r for r in optional if r.synced.is_set())
        await asyncio.gather(*(r.relist() for r in (*self._informers.values(), *present)))

    def observe(self) -> ClusterSnapshot:
        """Return views, not copies, of what is here, without pools and what is under way."""
        settings = self._settings
        nvidias, configs = self._nvidias.values(), self._nvidia_configs.values()
        loaded = {each.config_map for each in nvidias}
        return ClusterSnapshot(
            nodes=self.nodes.records,
            pods=_PodsByNode(self._pods, self.dynamic.claims),
            jobs=self._jobs,
            plugin_daemonsets=PluginDaemonSets(
                settings.plugin_daemonsets,
                frozenset(self.daemonsets.records.values()),
                settings.plugin_namespace,
                settings.nvidia_namespace,
                frozenset(nvidias),
                {each.name: each for each in configs if each.name in loaded},
            ),
            zeroed=self._zeroed,
            freeze=next(iter(self.freezes.records.values()), None),
            unhealthy_cards={each.node: each.cards for each in self.unhealthy.records.values()},
            resource_slices=self.dynamic.slices,
        )

    def mark_changed(self, node: str) -> None:
        """Decide anew about a node, for a reason of the caller's."""
        self._changed.add(node)
        self._notify()

    def take_changed(self) -> set[str]:
        """Return the names of nodes that something happened to since the last call."""
        changed, self._changed = self._changed, set()
        return changed

    def take_waited_for(self) -> set[str]:
        """Return the names of pools for which other pods wait than at the last call."""
        pools, self._waited_for = self._waited_for, set()
        return pools

    def _on_node(self, key: str, old: Node | None, new: Node | None) -> None:
        if old is not None and new is not None and not self._is_relevant(old, new):
            return
        restarting = _find_restart(new) if new is not None else None
        if new is not None and restarting is not None:
            resource = get_mode(restarting.edition, restarting.to).resource
            if resource and not new.allocatable.get(resource):
                self._zeroed.add(key)
        else:
            self._zeroed.discard(key)
        self.mark_changed(key)

    def _on_pod(self, key: str, old: Pod | None, new: Pod | None) -> None:
        self._note_pod(key, old, new)
        self.dynamic.note_pod(key, old, new)
        if old is not None and old.node and (new is None or new.node != old.node):
            on_node = self._pods[old.node]
            del on_node[key]
            if not on_node:
                del self._pods[old.node]
            self._changed.add(old.node)
        if new is not None and new.node:
            self._pods.setdefault(new.node, {})[key] = new
            self._changed.add(new.node)
        is_unschedulable = new is not None and new.is_live and (new.unrouted or not new.node)
        if is_unschedulable or key in self.unschedulable_pods:
            for pod in (old, new):
                self._waited_for.update(pod.pools if pod is not None else ())
            if new is not None and is_unschedulable:
                self.unschedulable_pods[key] = new
            else:
                del self.unschedulable_pods[key]
        self._notify()

    def _on_unhealthy(
        self, key: str, old: UnhealthyCards | None, new: UnhealthyCards | None
    ) -> None:
        if (told := new or old) is not None:
            self.mark_changed(told.node)

    def _on_job(self, key: str, old: Job | None, new: Job | None) -> None:
        if old is not None:
            on_node = self._jobs[old.node]
            del on_node[old.name]
            if not on_node:
                del self._jobs[old.node]
        if new is not None:
            self._jobs.setdefault(new.node, {})[new.name] = new
        self._changed.update(job.node for job in (old, new) if job is not None)
        self._notify()


class _PodsByNode(Mapping[str, tuple[Pod, ...]]):
    """Pods of a node with what their ResourceClaims hold, in an order that does not depend on how
    they came."""

    def __init__(self, pods: Mapping[str, Mapping[str, Pod]], claims: Mapping[str, bool] | None):
        self._pods = pods
        self._claims = claims

    def __getitem__(self, node: str) -> tuple[Pod, ...]:
        pods = (pod for _, pod in sorted(self._pods[node].items()))
        return tuple(judge_claims(pod, self._claims) for pod in pods)

    def __iter__(self) -> Iterator[str]:
        return iter(self._pods)

    def __len__(self) -> int:
        return len(self._pods)


def _find_restart(node: Node) -> Change | None:
    """Return the change on `node` while its plugin restarts: only then does a zero mean anything.

    Kept in memory only: a process that starts anew falls back to waiting a little longer.
    """
    if names.ANNOTATION_CHANGE not in node.annotations:
        return None
    try:
        change = parse_records(node).change
    except RecordError:
        return None
    return change if change is not None and change.phase is ChangePhase.RESTARTING else None
