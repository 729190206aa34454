"""Labels at two sizes, with as little waiting as may be: what is Ready already is measured on."""

import random

from tests.bench.event import measure_event_cost, measure_repairs
from tests.bench.figures import Figures
from tests.bench.progress import show_event_cost, show_repairs, show_rest, show_round
from tests.bench.ratio import measure_floor, measure_operator, measure_round
from tests.bench.rest import Rest, measure_rest, watching
from tests.bench.rig import Rig
from tests.bench.session import say

_MIDDLE_ROUNDS = 2
_EVENTS = 500
_REST_SECONDS = 20
_SEED = 4


async def measure_middle(rig: Rig, figures: Figures, nodes: int, rounds: int) -> None:
    """Rounds of loop and operator, two at most, and an event's cost; nothing of them is left."""
    await _grow(rig, nodes)
    found = [await measure_round(rig) for _ in range(min(rounds, _MIDDLE_ROUNDS) - 1)]
    floor_seconds = await measure_floor(rig)
    await rig.clear()
    found.append(await measure_operator(rig, floor_seconds))
    for number, each in enumerate(found, start=1):
        say(show_round(number, each))
    figures.rounds_middle = found
    figures.event_few = await measure_event_cost(rig, events=_EVENTS)
    say(show_event_cost(figures.event_few))
    await rig.clear()


async def measure_all(rig: Rig, figures: Figures, nodes: int) -> Rest:
    """One round, then what loop and operator left is measured on; the pool stays."""
    await _grow(rig, nodes)
    floor_seconds = await measure_floor(rig)
    async with watching(rig) as bare:
        repairs = await measure_repairs(rig, random.Random(_SEED), pid=bare.pid)
    say(show_repairs(repairs, "a bare watcher"))
    figures.bare_repairs = repairs
    await rig.clear()
    figures.rounds_all = [await measure_operator(rig, floor_seconds)]
    say(show_round(1, figures.rounds_all[0]))
    figures.repairs = await measure_repairs(rig, random.Random(_SEED), pid=rig.pid)
    say(show_repairs(figures.repairs))
    rest = await measure_rest(rig, _REST_SECONDS)
    say(show_rest(rest))
    figures.event_all = await measure_event_cost(rig, events=_EVENTS)
    say(show_event_cost(figures.event_all))
    return rest


async def _grow(rig: Rig, nodes: int) -> None:
    seconds = await rig.grow(nodes)
    say(f"{nodes} nodes with their plugin, after {seconds:.0f} s")
