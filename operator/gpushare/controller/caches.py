"""Copies in memory of what a pass looks at."""

import asyncio
from collections import defaultdict
from collections.abc import Callable

from gpushare.api.node import Node, parse_node
from gpushare.api.pod import Pod, parse_pod
from gpushare.api.pool import Pool
from gpushare.core.modes import MODES
from gpushare.core.plan import World
from gpushare.core.records import Change, RecordError, Step, parse_records
from gpushare.kube.client import ApiServer, Json
from gpushare.kube.reflector import Reflector
from gpushare.observe.metrics import Metrics


class Caches:
    """Nodes, the pods that matter, and the names of the plugins' DaemonSets.

    `on_change` is called whenever something in them changed.
    """

    def __init__(
        self,
        api: ApiServer,
        *,
        plugin_namespace: str,
        on_change: Callable[[], None],
        metrics: Metrics,
    ):
        self._notify = on_change
        self._zeroed: set[str] = set()

        def project_pod(raw: Json) -> Pod | None:
            return parse_pod(raw, plugin_namespace=plugin_namespace)

        self.nodes: Reflector[Node] = Reflector(
            api,
            "api/v1/nodes",
            parse_node,
            on_change=self._on_node,
            on_alive=lambda: metrics.observe_watch("nodes"),
        )
        self.pods: Reflector[Pod] = Reflector(
            api,
            "api/v1/pods",
            project_pod,
            on_change=self._on_other,
            on_alive=lambda: metrics.observe_watch("pods"),
        )
        self.daemonsets: Reflector[str] = Reflector(
            api,
            f"apis/apps/v1/namespaces/{plugin_namespace}/daemonsets",
            lambda raw: str(raw["metadata"]["name"]),
            on_change=self._on_other,
            on_alive=lambda: metrics.observe_watch("daemonsets"),
        )

    @property
    def is_synced(self) -> bool:
        return all(r.synced.is_set() for r in (self.nodes, self.pods, self.daemonsets))

    async def run(self) -> None:
        """Keep the copies up to date, for ever."""
        async with asyncio.TaskGroup() as group:
            for reflector in (self.nodes, self.pods, self.daemonsets):
                group.create_task(reflector.run())

    async def wait_synced(self) -> None:
        """Until each was listed completely once; before that, absence means nothing."""
        for reflector in (self.nodes, self.pods, self.daemonsets):
            await reflector.synced.wait()

    def observe_world(
        self, pools: tuple[Pool, ...], unreadable: frozenset[str], busy: frozenset[str]
    ) -> World:
        """What a pass looks at, as it is now."""
        pods: defaultdict[str, list[Pod]] = defaultdict(list)
        for pod in self.pods.records.values():
            if pod.node:
                pods[pod.node].append(pod)
        return World(
            pools=pools,
            unreadable_pools=unreadable,
            nodes=dict(self.nodes.records),
            pods=dict(pods),
            daemonsets=frozenset(self.daemonsets.records.values()),
            busy=busy,
            zeroed=frozenset(self._zeroed),
        )

    def _on_node(self, key: str, old: object | None, new: object | None) -> None:
        restarting = _find_restart(new) if isinstance(new, Node) else None
        if isinstance(new, Node) and restarting is not None:
            resource = MODES[restarting.edition, restarting.to].resource
            if resource and not new.allocatable.get(resource):
                self._zeroed.add(key)
        else:
            self._zeroed.discard(key)
        self._notify()

    def _on_other(self, key: str, old: object | None, new: object | None) -> None:
        self._notify()


def _find_restart(node: Node) -> Change | None:
    """The change on `node` while its plugin restarts: only then does a zero tell something.

    Kept in memory only: a process that starts anew falls back to waiting a little longer.
    """
    try:
        change = parse_records(node).change
    except RecordError:
        return None
    return change if change is not None and change.step is Step.RESTARTING else None
