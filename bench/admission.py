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

POOLS = (3, 20, 100)
_BEFORE = "cpu_selecting_20_pools"
FIGURES = (
    Figure("cpu_3_pools", "times the bare handler", limit=1.56, goal=1.2),
    Figure("cpu_20_pools", "times the bare handler", limit=1.76, goal=1.25),
    Figure("cpu_100_pools", "times the bare handler", limit=2.22, goal=1.35),
    *(Figure(f"p50_{pools}_pools", "times the bare handler") for pools in POOLS),
    Figure(_BEFORE, "times the webhook before", limit=1.05),
)
_CONNECTIONS = 8
_SELECTING_ROUNDS = 7


Round = Mapping[int, Loop]
"""Times and costs of calls by pools."""


def find_values(rounds: Sequence[Round]) -> dict[str, float]:
    """Find the ratios to the floor of the same round."""
    return {
        f"{name}_{pools}_pools": find_ratio(
            (read(each[FLOOR]), read(each[pools])) for each in rounds
        )
        for name, read in (("cpu", attrgetter("cpu_us")), ("p50", attrgetter("p50_ms")))
        for pools in POOLS
    }


def _are_steady(rounds: Sequence[Round]) -> bool:
    """Tell whether figures with a limit are precise enough."""
    costs = [[each[pools].cpu_us / each[FLOOR].cpu_us for each in rounds] for pools in POOLS]
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
    """Measure, print each round and the figures, and fail where one is beyond its limit."""
    if before is not None:
        pairs = asyncio.run(_measure_selecting(before.resolve()))
        values = {_BEFORE: find_ratio(pairs)}
    else:
        values = find_values(asyncio.run(_measure()))
    report_figures("admission", FIGURES, values)


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
            turns = await take_turns(pairs, _CONNECTIONS)
            costs.append((turns["before"].cpu_us, turns["now"].cpu_us))
            say(f"round {len(costs)}: {costs[-1][0]:.0f} us before, {costs[-1][1]:.0f} us now")
    return costs


async def _measure() -> list[Round]:
    rounds: list[Round] = []
    async with _open_pairs() as pairs:
        while not _are_steady(rounds):
            rounds.append(await take_turns(pairs, _CONNECTIONS))
            say(f"round {len(rounds)}: {rounds[-1]}")
    return rounds


@asynccontextmanager
async def _open_pairs() -> AsyncIterator[Mapping[int, Pair]]:
    """Run servers and clients, by pools, within the block."""
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="gpushare-bench-")))
        write_certificate(folder)
        yield {pools: await open_pair(stack, folder, pools) for pools in (FLOOR, *POOLS)}


if __name__ == "__main__":
    run(bench)
