"""``python -m bench.peers``: the operator's work compared with that of NFD and HAMi."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Annotated, Generic, TypeVar

import typer

from bench.core.hami import build_hami, serving_hami
from bench.core.labelling import Labelling, label_bare, label_by_operator
from bench.core.nfd import build_master, install, label_by_master
from bench.core.reviewclient import Loop
from bench.core.rig import Rig, open_rig
from bench.core.session import own_cluster, run, say
from bench.core.turns import FLOOR, open_client, open_pair, take_turns, write_certificate
from devcluster.cluster import Cluster

WORKERS = (10, 64)
"""nfd-master's default, and the number of writes in flight of our controller and the loop."""
_CONNECTIONS = 8
_POOLS = 3
_HAMI: Mapping[str, Sequence[str]] = {
    "HAMi's webhook, as shipped": (),
    "HAMi's webhook, log level 0": ("-v=0",),
}
"""Flags of HAMi by name in the report. HAMi's chart sets log level 4, some nine lines a call."""

Run = TypeVar("Run")
Results = Mapping[str, Sequence[Run]]
"""Results by contestant and round."""


@dataclass(frozen=True)
class Column(Generic[Run]):
    """A column of the report: a median with its range."""

    title: str
    read: Callable[[Run], float]
    form: str = ".1f"

    def format(self, runs: Sequence[Run]) -> str:
        values = [self.read(each) for each in runs]
        middle, low, high = (
            f"{value:{self.form}}" for value in (median(values), min(values), max(values))
        )
        return middle if low == high else f"{middle} ({low} to {high})"


_LABELS: Sequence[Column[Labelling]] = (
    Column("seconds", lambda each: each.seconds),
    Column("CPU s", lambda each: each.cpu_seconds),
    Column("MiB after", lambda each: each.rest_mib, ".0f"),
    Column("MiB peak", lambda each: each.peak_mib, ".0f"),
    Column("writes to nodes", lambda each: each.node_writes, ".0f"),
    Column("other writes", lambda each: each.other_writes, ".0f"),
)
_CALLS: Sequence[Column[Loop]] = (
    Column("CPU us a call", lambda each: each.cpu_us, ".0f"),
    Column("median ms", lambda each: each.p50_ms, ".2f"),
    Column("calls a second", lambda each: each.per_second, ".0f"),
)


def list_rows(title: str, columns: Sequence[Column[Run]], results: Results[Run]) -> Iterable[str]:
    """List the rows of a table in Markdown, one for each contestant."""
    yield " | ".join((f"| {title}", *(column.title for column in columns))) + " |"
    yield "|---" * (1 + len(columns)) + "|"
    for name, runs in results.items():
        yield " | ".join((f"| {name}", *(column.format(runs) for column in columns))) + " |"


def bench(
    nodes: Annotated[int, typer.Option(help="how many are labelled")] = 5000,
    rounds: Annotated[int, typer.Option(help="how often everybody has a turn")] = 3,
    hami: Annotated[
        Path | None,
        typer.Option(
            exists=True, file_okay=False, resolve_path=True, help="folder of HAMi's source"
        ),
    ] = None,
) -> None:
    """Measure all in turns, and print two tables; there is no bound."""
    master = build_master()
    with own_cluster() as cluster:
        calls = asyncio.run(_call(cluster, rounds, hami))
        labels = asyncio.run(_label(cluster, nodes, rounds, master))
    print(*list_rows(f"{nodes} nodes labelled, {rounds} rounds", _LABELS, labels), "", sep="\n")
    print(*list_rows(f"admission, {_CONNECTIONS} connections", _CALLS, calls), sep="\n")
    if hami is None:
        print("HAMi is left out: say with --hami where its source is.")


async def _call(cluster: Cluster, rounds: int, hami: Path | None) -> Results[Loop]:
    """Measure admission while the cluster has no nodes, which HAMi's scheduler watches."""
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="gpushare-bench-")))
        certificate = write_certificate(folder)
        pairs = {
            "a bare handler": await open_pair(stack, folder, FLOOR),
            f"our webhook, {_POOLS} pools": await open_pair(stack, folder, _POOLS),
        }
        if hami is not None:
            await build_hami(hami, folder)
            for name, flags in _HAMI.items():
                serving = serving_hami(cluster, hami, certificate, folder, *flags)
                pid, port = await stack.enter_async_context(serving)
                pairs[name] = await open_client(stack, folder, pid, port, "hami")
        results: dict[str, list[Loop]] = {name: [] for name in pairs}
        for number in range(rounds):
            for name, loop in (await take_turns(pairs, _CONNECTIONS)).items():
                results[name].append(loop)
                say(f"round {number + 1}: {name}: {loop}")
        return results


async def _label(cluster: Cluster, nodes: int, rounds: int, master: Path) -> Results[Labelling]:
    async with open_rig(cluster) as rig:
        await rig.grow(nodes)
        await install(rig)
        results: dict[str, list[Labelling]] = {}
        for number in range(rounds):
            async for name, labelling in _label_in_turns(rig, master):
                results.setdefault(name, []).append(labelling)
                say(f"round {number + 1}: {name}: {labelling}")
        return results


async def _label_in_turns(rig: Rig, master: Path) -> AsyncIterator[tuple[str, Labelling]]:
    """Measure one after another; nodes are reset before each, and after the last."""
    yield "a bare loop", await label_bare(rig)
    await rig.fleet.reset()
    await rig.start_operator()
    yield "our controller", await label_by_operator(rig)
    await rig.clear()
    for workers in WORKERS:
        labelling = await label_by_master(rig, master, workers)
        yield f"nfd-master, {workers} workers", labelling


if __name__ == "__main__":
    run(bench)
