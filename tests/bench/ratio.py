"""From the pool's creation to every node correct, beside a bare loop of the same writes."""

import asyncio
import statistics
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial

import orjson

from tests.bench import floor
from tests.bench.rig import LABELS, Rig, is_labelled
from tests.bench.waiting import BenchError
from tests.bench.writes import count_applies

_WITHIN_SECONDS = 900


@dataclass(frozen=True)
class Round:
    """One floor and one run of the operator, seconds each."""

    nodes: int
    floor_seconds: float
    operator_seconds: float
    audited: int
    """Writes to nodes by the operator, in the audit log."""
    counted: int
    """The same by the API server's counter of applies."""
    other: int
    """The operator's writes to anything else: the pool and its status, Events."""

    @property
    def ratio(self) -> float:
        return self.operator_seconds / self.floor_seconds

    @property
    def stray_writes(self) -> int:
        """Writes to nodes more or fewer than one each, by the counter that differs most."""
        return max(abs(count - self.nodes) for count in (self.audited, self.counted))


def find_ratio(rounds: Sequence[Round]) -> float:
    """The median: one slow round is the machine's, not the operator's."""
    return statistics.median(each.ratio for each in rounds)


async def measure_round(rig: Rig) -> Round:
    """One round; the nodes are as they joined before and after it, and no controller runs."""
    floor_seconds = await measure_floor(rig)
    await rig.clear()
    result = await measure_operator(rig, floor_seconds)
    await rig.clear()
    return result


async def measure_operator(rig: Rig, floor_seconds: float) -> Round:
    """The round that began with the floor; its pool stays Ready, and the controller idle."""
    await rig.start_operator()
    rig.audit.read_our_writes()
    applies = await count_applies(rig.api)
    operator_seconds = await _time(rig, rig.create_pool, "the operator labels the nodes")
    # A second write to a node would come late.
    await rig.until_ready()
    writes = rig.audit.read_our_writes()
    nodes = [write for write in writes if write.resource == "nodes"]
    return Round(
        nodes=len(rig.fleet),
        floor_seconds=floor_seconds,
        operator_seconds=operator_seconds,
        audited=len(nodes),
        counted=await count_applies(rig.api) - applies,
        other=len(writes) - len(nodes),
    )


async def measure_floor(rig: Rig) -> float:
    """Seconds that the bare loop takes; its labels stay on the nodes."""
    uids = {name: meta["uid"] for name, meta in rig.nodes.metadata.items()}
    loop = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", floor.__name__, str(rig.installation.cluster.kubeconfig)),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    assert loop.stdin is not None
    assert loop.stdout is not None
    await loop.stdout.readline()
    start = partial(loop.stdin.write, orjson.dumps([LABELS, uids]) + b"\n")
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(_expect_success(loop))
        timed = tasks.create_task(_time(rig, start, "the bare loop labels the nodes"))
    return timed.result()


async def _expect_success(loop: asyncio.subprocess.Process) -> None:
    if status := await loop.wait():
        raise BenchError(f"the bare loop ended with status {status}; what it said is above")


async def _time(rig: Rig, start: Callable[[], Awaitable[None] | None], what: str) -> float:
    """Seconds from `start` until the watch has shown every node labelled."""
    await rig.until_server_rests()
    labelled = rig.nodes.when_all(is_labelled)
    started = time.monotonic()
    if (call := start()) is not None:
        await call
    finished = await rig.nodes.wait(labelled, what, seconds=_WITHIN_SECONDS)
    if not all(is_labelled(meta) for meta in rig.nodes.metadata.values()):
        raise BenchError(f"{what}: some lost their labels again")
    return finished - started
