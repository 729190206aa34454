"""Builds the webhook's server, handler and cache with a test's pools and namespaces."""

import asyncio
import itertools
import time
from collections.abc import Callable, Iterable, Sequence

from gpushare.api.k8s.namespace import Namespace
from gpushare.api.pool import Schedule
from gpushare.core.admission.pool_view import PoolView
from gpushare.core.admission.request import Rules
from gpushare.observe.metrics import Metrics
from gpushare.webhook.cache import NAMESPACES, POOLS, PoolCache
from gpushare.webhook.decision_log import DecisionLog
from gpushare.webhook.handler import AdmissionHandler
from gpushare.webhook.server import AdmissionServer
from gpushare.workload_kinds import WorkloadKind, merge_kinds

INFERENCE = PoolView("inference", Schedule.SHARE, 100)
TRAINING = PoolView("training", Schedule.CGPU, 100)
DEFAULT = Namespace("default")
_STALE_SECONDS = 60.0


def build_memory(
    pools: Iterable[PoolView] = (INFERENCE, TRAINING),
    namespaces: Iterable[Namespace] = (DEFAULT,),
    clock: Callable[[], float] = time.monotonic,
) -> PoolCache:
    """Build a cache with these pools and namespaces."""
    cache = PoolCache(_STALE_SECONDS, clock)
    for pool in pools:
        cache.put_pool(pool.name, None, pool)
    for namespace in namespaces:
        cache.put_namespace(namespace.name, None, namespace)
    cache.note_event(POOLS)
    cache.note_event(NAMESPACES)
    return cache


def build_webhook(
    cache: PoolCache | None = None,
    *,
    metrics: Metrics | None = None,
    replicas: int = 1,
    max_calls: int = 256,
) -> AdmissionServer:
    """Build the server of `gpushare webhook` with this cache."""
    metrics = metrics or Metrics()
    handler = build_handler(cache, metrics=metrics, replicas=replicas)
    return AdmissionServer(handler, metrics, max_calls)


def build_handler(
    cache: PoolCache | None = None,
    *,
    rules: Rules | None = None,
    metrics: Metrics | None = None,
    replicas: int = 1,
    added_kinds: Sequence[WorkloadKind] = (),
) -> AdmissionHandler:
    """Build the handler, without a server."""
    return AdmissionHandler(
        cache or build_memory(),
        DecisionLog(),
        metrics or Metrics(),
        rules=rules or Rules(),
        replicas=replicas,
        kinds=merge_kinds(added_kinds),
    )


async def until(condition: Callable[[], object]) -> None:
    """Yield to other tasks until the condition holds, without a limit of its own."""
    for _ in itertools.count():
        if condition():
            return
        await asyncio.sleep(0)
