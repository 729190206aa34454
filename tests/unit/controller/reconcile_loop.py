"""The controller's loop in a unit test, and an API server that takes its writes."""

import asyncio
from collections import Counter
from collections.abc import Coroutine, Sequence
from typing import Any

import pytest

from gpushare import names
from gpushare.api.k8s.daemonset import DaemonSet
from gpushare.api.k8s.node import Node
from gpushare.api.k8s.pod import Pod
from gpushare.api.pool import Pool, UnreadablePool
from gpushare.controller.executor import Executor
from gpushare.controller.informers import Informers
from gpushare.controller.reconciler import Reconciler
from gpushare.core.records.change_record import ChangePhase
from gpushare.core.snapshot.actions import Action, NodePlan
from gpushare.core.snapshot.node import Timing
from gpushare.kube.errors import ApiError
from gpushare.kube.events import Events
from gpushare.kube.resources import pools as pools_api
from gpushare.kube.resources.nodes import PATH as NODES
from gpushare.kube.resources.pools import PoolList
from gpushare.names import Reason
from gpushare.observe.metrics.controller import ControllerMetrics
from gpushare.settings import Settings
from tests.kit.values.node_plans import under_way

Json = dict[str, Any]


class LoopApi:
    """An API server that takes every write, or refuses those to `refused` with `refusal`."""

    def __init__(self, refusal: int | None = None, refused: str = "/nodes/"):
        self.refusal = refusal
        self.refused = refused
        self.objects: dict[str, Json] = {}
        self.writes: list[tuple[str, str]] = []
        self.bodies: list[tuple[str, Json]] = []
        """By path, what was applied and taken."""
        self.created: list[Json] = []
        self.pools: list[Pool | UnreadablePool] = []
        self._lists = 0

    async def list_pools(self) -> PoolList:
        self._lists += 1
        return PoolList(self._lists, tuple(self.pools))

    async def get(self, path: str, **params: str) -> Json:
        return self.objects[path]

    async def find(self, path: str) -> Json | None:
        return await self.get(path)

    async def apply(self, path: str, body: Json) -> Json:
        self.writes.append(("APPLY", path))
        if self.refusal and self.refused in path:
            raise ApiError(self.refusal, b'{"message": "no"}', what=path)
        self.bodies.append((path, body))
        # Of a pool it is no whole answer, and older than any list: nobody takes it in.
        version = "0" if path.startswith(pools_api.PATH) else "9"
        return {**body, "metadata": {**body["metadata"], "resourceVersion": version}}

    async def patch(self, path: str, body: Any, *, content_type: str) -> Json:
        self.writes.append(("PATCH", path))
        return {}

    async def create(self, path: str, body: Json) -> Json:
        self.created.append(body)
        return body

    def written(self, part: str) -> list[str]:
        return [verb for verb, path in self.writes if part in path]


class SlowApi(LoopApi):
    """An API server that is slow with `slow` calls until `go_on` is set; it counts by kind."""

    def __init__(self, *slow: str) -> None:
        super().__init__()
        self.slow = slow
        self.in_flight: Counter[str] = Counter()
        self.go_on = asyncio.Event()

    async def get(self, path: str, **params: str) -> Json:
        await self._take("read")
        return {"items": []} if path == "api/v1/pods" else await super().get(path)

    async def apply(self, path: str, body: Json) -> Json:
        await self._take("write" if NODES in path else "status")
        return await super().apply(path, body)

    async def create(self, path: str, body: Json) -> Json:
        await self._take("eviction" if path.endswith("/eviction") else "Event")
        return {}

    async def _take(self, kind: str) -> None:
        self.in_flight[kind] += 1
        if kind in self.slow:
            await self.go_on.wait()
        await asyncio.sleep(0)
        self.in_flight[kind] -= 1


def build_cordoned(name: str, labels: Json, *, unschedulable: bool = True) -> Json:
    """A node that was cordoned for a change to cgpu, as it is read."""
    notes = under_way(ChangePhase.CORDONED).annotations()
    keys = {"f:labels": labels, "f:annotations": notes}
    fields: Json = {"f:metadata": {k: {f"f:{each}": {} for each in v} for k, v in keys.items()}}
    manager = {"manager": names.FIELD_MANAGER, "operation": "Apply", "fieldsV1": fields}
    metadata = {
        "name": name,
        "uid": f"uid-of-{name}",
        "resourceVersion": "8",
        "labels": labels,
        "annotations": notes,
        "managedFields": [manager],
    }
    return {"metadata": metadata, "spec": {"unschedulable": unschedulable}}


def have_pools_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A list of a `LoopApi` is of its `pools`, as they are."""
    list_pools = pools_api.list_pools

    async def list_them(api: Any) -> PoolList:
        return await (api.list_pools() if isinstance(api, LoopApi) else list_pools(api))

    monkeypatch.setattr(pools_api, "list_pools", list_them)


SETTINGS = Settings(namespace="ns", identity="me", resync_seconds=30)


def build_reconciler(
    api: LoopApi,
    pools: Sequence[Pool],
    *nodes: Node,
    pods: Sequence[Pod] = (),
    metrics: ControllerMetrics | None = None,
    settings: Settings = SETTINGS,
) -> Reconciler:
    """The loop, to which `nodes` and `pods` have just come, after `have_pools_listed`."""
    api.pools = list(pools)
    reconciler = Reconciler(api, settings, metrics or ControllerMetrics())  # type: ignore[arg-type]
    for node in nodes:
        put_node(reconciler, node)
    keyed = {f"{pod.namespace}/{pod.name}": pod for pod in pods}
    reconciler.informers.pods._records = keyed
    for key, pod in keyed.items():
        reconciler.informers._on_pod(key, None, pod)
    reconciler.informers.daemonsets._records = {
        name: DaemonSet(name) for name in ("gpushare-device-plugin-ds", "cgpu-installer")
    }
    return reconciler


def list_pools_anew(reconciler: Reconciler) -> None:
    """The next pass lists the pools."""
    reconciler.pools._list_at = 0.0


def put_node(reconciler: Reconciler, node: Node) -> None:
    """It comes, or changes."""
    reconciler.informers.nodes._records[node.name] = node
    reconciler.informers.mark_changed(node.name)


def start_work(reconciler: Reconciler, plan: NodePlan) -> Coroutine[Any, Any, None]:
    """What the loop does once it has decided this of a node of pool training."""
    reconciler._busy[plan.node] = None  # type: ignore[assignment]
    reconciler._busy_for[plan.node] = "training"
    return reconciler._work_on("training", plan)


async def pass_and_settle(reconciler: Reconciler) -> None:
    """A pass, and all that it begins."""
    await reconciler._pass_safely()
    await settle(reconciler)


async def settle(reconciler: Reconciler) -> None:
    """Until nothing is being done to a node, and no status is being written."""
    statuses = reconciler._status_writer._in_flight.values()
    await asyncio.gather(*reconciler._busy.values(), *statuses)


async def until_quiet(api: SlowApi) -> None:
    """Until everything waits for the API server."""
    seen = None
    while seen != (now := (api.in_flight.total(), len(api.writes))):
        seen = now
        for _ in range(20):
            await asyncio.sleep(0)


async def carry_out(
    api: Any,
    *actions: Action,
    reason: Reason,
    metrics: ControllerMetrics | None = None,
    settings: Settings | None = None,
    nodes: Sequence[Node] = (),
    wanted: bool = True,
) -> Informers:
    """What the applier makes of each action, until all is told of it; the caches after that."""
    metrics, settings = metrics or ControllerMetrics(), settings or Settings()
    informers = Informers(api, settings, on_change=lambda: None, metrics=metrics)
    informers.nodes._records = {node.name: node for node in nodes}
    events = Events(api, "test")
    executor = Executor(api, informers, settings, Timing(), metrics, events)
    try:
        for action in actions:
            await executor.carry_out(
                action, pool="training", reason=reason, is_wanted=lambda: wanted
            )
    finally:
        await asyncio.gather(*events._tasks)
    return informers
