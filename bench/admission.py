"""``python -m bench.admission``: the cost of a webhook call, compared with a bare handler."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from operator import attrgetter
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import typer

from bench.core.figure import Figure, find_ratio, is_steady, report_figures
from bench.core.reviewclient import Loop
from bench.core.session import run, say
from bench.core.turns import FLOOR, Pair, open_pair, take_turns, write_certificate

CONNECTIONS = (1, 8, 32)
MOST_RATIOS = {3: 1.3, 20: 1.35, 100: 1.5}
"""Limits of CPU time on `BOUNDED` connections relative to the floor's, by number of pools."""
BOUNDED = 8
MOST_BY_BEFORE = 1.05
"""Limit of a call's cost relative to the call before labels of nodes were published."""
_SELECTING_ROUNDS = 7


Round = Mapping[tuple[int, int], Loop]
"""Times and costs of calls by pools and connections."""


def list_figures(rounds: Sequence[Round]) -> list[Figure]:
    """List the ratios to the floor of the same round."""
    figures = []
    for pools, most in MOST_RATIOS.items():
        for count in CONNECTIONS:
            for name, read, bound in (
                ("cpu", attrgetter("cpu_us"), most if count == BOUNDED else None),
                ("p50", attrgetter("p50_ms"), None),
                ("rate", attrgetter("per_second"), None),
            ):
                pairs = [(read(each[FLOOR, count]), read(each[pools, count])) for each in rounds]
                name_of = f"{name}_ratio_{count}_{pools}_pools"
                figures.append(Figure(name_of, find_ratio(pairs), most=bound))
    return figures


def _are_steady(rounds: Sequence[Round]) -> bool:
    """Tell whether figures with a bound are precise enough."""
    costs = [
        [each[pools, BOUNDED].cpu_us / each[FLOOR, BOUNDED].cpu_us for each in rounds]
        for pools in MOST_RATIOS
    ]
    return all(map(is_steady, costs))


def bench(
    before: Annotated[
        Path | None,
        typer.Option(
            help="Checkout of another commit. Measures instead what calls cost beside that one's "
            "webhook, which knows no labels of nodes: half of the pods select some."
        ),
    ] = None,
) -> None:
    """Measure, print each round and a line of figures, and fail where one misses its bound."""
    if before is not None:
        pairs = asyncio.run(_measure_selecting(before.resolve()))
        figures = [Figure("cpu_ratio_selecting_20_pools", find_ratio(pairs), most=MOST_BY_BEFORE)]
        report_figures("admission", figures)
        return
    report_figures("admission", list_figures(asyncio.run(_measure())))


async def _measure_selecting(before: Path) -> list[tuple[float, float]]:
    """Measure a call's CPU time before and now, by rounds: equal pods, and 20 pools, which now
    publish 20 combinations of labels each."""
    costs: list[tuple[float, float]] = []
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="gpushare-bench-")))
        write_certificate(folder)
        pairs = {
            "before": await open_pair(stack, folder, 20, checkout=before, whose="selecting"),
            "now": await open_pair(stack, folder, 20, "20", whose="selecting"),
        }
        while len(costs) < _SELECTING_ROUNDS:
            turns = await take_turns(pairs, BOUNDED)
            costs.append((turns["before"].cpu_us, turns["now"].cpu_us))
            say(f"round {len(costs)}: {costs[-1][0]:.0f} us before, {costs[-1][1]:.0f} us now")
    return costs


async def _measure() -> list[Round]:
    rounds: list[Round] = []
    async with _open_pairs() as pairs:
        while not _are_steady(rounds):
            loops: dict[tuple[int, int], Loop] = {}
            for connections in CONNECTIONS:
                turns = await take_turns(pairs, connections)
                loops |= {(pools, connections): loop for pools, loop in turns.items()}
            rounds.append(loops)
            say(f"round {len(rounds)}: {loops}")
    return rounds


@asynccontextmanager
async def _open_pairs() -> AsyncIterator[Mapping[int, Pair]]:
    """Run servers and clients, by pools, within the block."""
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="gpushare-bench-")))
        write_certificate(folder)
        yield {pools: await open_pair(stack, folder, pools) for pools in (FLOOR, *MOST_RATIOS)}


if __name__ == "__main__":
    run(bench)
