"""The webhook's application over pools and namespaces that a test makes up."""

import asyncio
import itertools
import time
from collections.abc import Callable, Iterable

from gpushare.api.namespace import Namespace
from gpushare.api.pool import Schedule
from gpushare.core.admission import PoolView, Rules
from gpushare.observe.metrics import Metrics
from gpushare.webhook.admitter import Admitter
from gpushare.webhook.journal import Journal
from gpushare.webhook.memory import NAMESPACES, POOLS, Memory
from gpushare.webhook.server import AdmissionServer

INFERENCE = PoolView("inference", Schedule.SHARE, 100)
TRAINING = PoolView("training", Schedule.CGPU, 100)
DEFAULT = Namespace("default")
_STALE_SECONDS = 60.0


def build_memory(
    pools: Iterable[PoolView] = (INFERENCE, TRAINING),
    namespaces: Iterable[Namespace] = (DEFAULT,),
    clock: Callable[[], float] = time.monotonic,
) -> Memory:
    """A memory that has just heard of all this."""
    memory = Memory(_STALE_SECONDS, clock)
    for pool in pools:
        memory.put_pool(pool.name, None, pool)
    for namespace in namespaces:
        memory.put_namespace(namespace.name, None, namespace)
    memory.hear_of(POOLS)
    memory.hear_of(NAMESPACES)
    return memory


def build_webhook(
    memory: Memory | None = None,
    *,
    rules: Rules | None = None,
    metrics: Metrics | None = None,
    replicas: int = 1,
    max_calls: int = 256,
) -> AdmissionServer:
    """What `gpushare webhook` serves, out of this memory."""
    metrics = metrics or Metrics()
    admitter = build_admitter(memory, rules=rules, metrics=metrics, replicas=replicas)
    return AdmissionServer(admitter, metrics, max_calls)


def build_admitter(
    memory: Memory | None = None,
    *,
    rules: Rules | None = None,
    metrics: Metrics | None = None,
    replicas: int = 1,
) -> Admitter:
    """What decides there, without a server."""
    return Admitter(
        memory or build_memory(),
        Journal(),
        metrics or Metrics(),
        rules=rules or Rules(),
        replicas=replicas,
    )


async def until(condition: Callable[[], object]) -> None:
    """Let the others go on until it holds; a test's own time limit ends what never does."""
    for _ in itertools.count():
        if condition():
            return
        await asyncio.sleep(0)
