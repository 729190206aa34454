"""A burst of GPU pods while the operator has all hands full: 5,000 nodes, 20 pools, one rolling."""

import time
from dataclasses import dataclass
from functools import partial

from tests.bench.admission.creation import Creator
from tests.bench.admission.histogram import parse_failed_open
from tests.bench.admission.webhook import Webhook
from tests.bench.api import MERGE_PATCH, Json, for_each
from tests.bench.fleet import POOL_LABEL
from tests.bench.footprint import read_rss_mib
from tests.bench.nodewatch import NODES
from tests.bench.rig import Rig
from tests.bench.waiting import BenchError, until
from tests.kit.builders import build_pool

POOLS = 20
PODS, WRITERS = 1000, 64
SLICE_LABEL = "bench.example/slice"
"""Which of the pools a node is in."""
ROLLING = f"pool-{POOLS - 1:02}"
POOLS_PATH = "apis/gpushare.io/v1alpha1/gpusharepools"
_READY_SECONDS = 600


@dataclass(frozen=True)
class Burst:
    """What became of the pods, and what the webhook needed."""

    nodes: int
    pods: int
    seconds: float
    failed_open: int
    """By the API server's counter, or by the pods without our selector: the larger."""
    changed: tuple[int, int]
    """Nodes of the rolling pool that were in their new mode before the burst, and after it."""
    rss_mib: float

    def __str__(self) -> str:
        before, after = self.changed
        return (
            f"{self.pods} pods from {WRITERS} writers in {self.seconds:.1f} s, {self.nodes} nodes, "
            f"{POOLS} pools, {ROLLING} rolling ({before} nodes changed before, {after} after): "
            f"{self.failed_open} failed open; the webhook has {self.rss_mib:.0f} MiB"
        )


async def settle_pools(rig: Rig) -> None:
    """The nodes in pools that share, all of them Ready."""
    await for_each(partial(_put_in_slice, rig), enumerate(sorted(rig.nodes.metadata)))
    await rig.start_operator()
    for number in range(POOLS):
        await rig.api.call("POST", POOLS_PATH, build_slice_pool(number))
    await until(
        partial(_are_ready, rig), "the pools are Ready", seconds=_READY_SECONDS, poll_seconds=1
    )


async def begin_rollout(rig: Rig) -> None:
    """One pool is to isolate from now on; on return some of its nodes do, and more are at it."""
    spec = {"schedule": "cgpu"}
    await rig.api.call("PATCH", f"{POOLS_PATH}/{ROLLING}", {"spec": spec}, content_type=MERGE_PATCH)

    async def has_begun() -> bool:
        return 0 < await count_changed(rig) < len(rig.fleet) // POOLS

    await until(has_begun, f"{ROLLING} is rolling", seconds=_READY_SECONDS, poll_seconds=1)


def build_slice_pool(number: int) -> Json:
    """A pool of a slice of the nodes."""
    return build_pool(
        f"pool-{number:02}",
        nodes={"selector": {"matchLabels": {SLICE_LABEL: str(number)}}},
        rollout={"maxUnavailable": "10%"},
    )


async def measure_burst(rig: Rig, webhook: Webhook, namespace: str) -> Burst:
    """Create the pods, all of them for good, and look what came of them."""
    failed = partial(_count_failed_open, rig, webhook)
    changed, before = await count_changed(rig), await failed()
    started = time.monotonic()
    await Creator(rig.api, namespace, keep=True).create_closed(PODS, WRITERS)
    seconds = time.monotonic() - started
    rss = read_rss_mib(webhook.pid)
    after = await count_changed(rig)
    if after >= len(rig.fleet) // POOLS:
        raise BenchError(f"{ROLLING} came to its end during the burst, which took {seconds:.0f} s")
    pods = await rig.api.call("GET", f"api/v1/namespaces/{namespace}/pods")
    strays = sum(POOL_LABEL not in pod["spec"].get("nodeSelector", ()) for pod in pods["items"])
    return Burst(
        nodes=len(rig.fleet),
        pods=len(pods["items"]),
        seconds=seconds,
        failed_open=max(strays, await failed() - before),
        changed=(changed, after),
        rss_mib=rss,
    )


async def count_changed(rig: Rig) -> int:
    """Nodes of the rolling pool that are Ready in their new mode."""
    pool = await rig.api.call("GET", f"{POOLS_PATH}/{ROLLING}")
    ready: int = pool.get("status", {}).get("nodes", {}).get("ready", 0)
    return ready


async def _count_failed_open(rig: Rig, webhook: Webhook) -> int:
    return parse_failed_open(await rig.api.text("metrics"), webhook.names)


async def _put_in_slice(rig: Rig, node: tuple[int, str]) -> None:
    number, name = node
    labels = {SLICE_LABEL: str(number % POOLS)}
    await rig.api.call(
        "PATCH", f"{NODES}/{name}", {"metadata": {"labels": labels}}, content_type=MERGE_PATCH
    )


async def _are_ready(rig: Rig) -> bool:
    pools = (await rig.api.call("GET", POOLS_PATH))["items"]
    return all(map(_is_ready, pools))


def _is_ready(pool: Json) -> bool:
    conditions = pool.get("status", {}).get("conditions", ())
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)
