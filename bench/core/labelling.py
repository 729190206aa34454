"""Measures how the operator, and a bare loop of equal writes, set two labels on all nodes."""

import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import orjson

from bench.core import loop
from bench.core.fleet import RECORDS
from bench.core.nodewatch import Holds
from bench.core.processes import read_cpu_seconds, read_peak_rss_mib, read_rss_mib, running
from bench.core.rig import LABELS, Rig, is_labelled
from tests.kit.cluster.audit_log import Call

_WITHIN_SECONDS = 900


@dataclass(frozen=True)
class Labelling:
    """Time and cost of labelling all nodes."""

    seconds: float
    """Time until the benchmark's watch has shown every node labelled."""
    cpu_seconds: float
    """CPU time until the process is idle again."""
    rest_mib: float
    """Resident memory when idle, followed by its peak."""
    peak_mib: float
    node_writes: int
    other_writes: int


@dataclass(frozen=True)
class Contestant:
    """A process that can label the nodes, idle until `start` is awaited."""

    name: str
    pid: int
    start: Callable[[], Awaitable[object]]
    rests: Callable[[], Awaitable[object]]
    """Returns once the process is idle."""
    read_writes: Callable[[], Sequence[Call]]
    """Returns the writes since the last call."""
    holds: Holds = is_labelled


Annotations = Mapping[str, Mapping[str, str]]
"""The operator's annotations by node: its records."""


def read_records(rig: Rig) -> Annotations:
    """Read the records that the operator has written to the nodes."""
    return {
        name: {key: value for key, value in meta["annotations"].items() if key.startswith(RECORDS)}
        for name, meta in rig.nodes.metadata.items()
    }


async def label_bare(rig: Rig, records: Annotations | None = None) -> Labelling:
    """Measure the bare loop, which applies `records`, too; what it writes stays on the nodes."""
    asked = orjson.dumps(
        [
            {"name": name, "uid": meta["uid"], "labels": LABELS}
            | ({"annotations": records[name]} if records is not None else {})
            for name, meta in rig.nodes.metadata.items()
        ]
    )
    async with running(loop.__name__, str(rig.installation.cluster.kubeconfig)) as bare:
        await bare.listen()
        contestant = Contestant(
            "the bare loop", bare.pid, partial(bare.ask, asked), _at_once, writes(rig, loop.MANAGER)
        )
        return await measure(rig, contestant)


async def label_by_operator(rig: Rig) -> Labelling:
    """Measure the operator with a new pool; its controller was started before, and runs on.

    The measurement ends once the pool is Ready, so that a second write to a node is included.
    """
    read_writes = rig.audit.read_our_writes
    contestant = Contestant("the operator", rig.pid, rig.create_pool, rig.until_ready, read_writes)
    return await measure(rig, contestant)


async def measure(rig: Rig, contestant: Contestant) -> Labelling:
    """Measure from the start, with an idle API server, until the process is idle."""
    await rig.until_server_rests()
    contestant.read_writes()
    pid, cpu = contestant.pid, read_cpu_seconds(contestant.pid)
    labelled = rig.nodes.when_all(contestant.holds)
    started = time.monotonic()
    await contestant.start()
    what = f"{contestant.name} labels the nodes"
    finished = await rig.nodes.wait(labelled, what, seconds=_WITHIN_SECONDS)
    await contestant.rests()
    cpu = read_cpu_seconds(pid) - cpu
    written = [write.resource.partition("/")[0] for write in contestant.read_writes()]
    to_nodes = written.count("nodes")
    return Labelling(
        finished - started,
        cpu,
        read_rss_mib(pid),
        read_peak_rss_mib(pid),
        to_nodes,
        len(written) - to_nodes,
    )


def writes(rig: Rig, mark: str) -> Callable[[], Sequence[Call]]:
    """Return a function that reads later writes with this mark in the audit log."""

    def read() -> Sequence[Call]:
        return [call for call in rig.audit.read(about=(mark.encode(),)) if call.is_write]

    return read


async def _at_once() -> None:
    """Return at once: a loop that has reported its end is idle."""
