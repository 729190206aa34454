"""What is measured of admission: the server alone, and in front of an API server."""

import tempfile
from collections.abc import Sequence
from pathlib import Path

from tests.bench.admission import alone, front
from tests.bench.admission.alone import Entries
from tests.bench.admission.burst import POOLS_PATH
from tests.bench.admission.figures import Figures
from tests.bench.admission.front import LOADS, Load
from tests.bench.admission.pairing import paired
from tests.bench.admission.pools import build_raw_pool
from tests.bench.admission.webhook import serving
from tests.bench.api import MERGE_PATCH
from tests.bench.rig import Rig
from tests.bench.session import say

FRONT_POOLS = 3


async def measure_alone(figures: Figures, rounds: Sequence[Entries]) -> None:
    """The entries of each round, in turns."""
    found: list[alone.Round] = []
    async with alone.open_arena() as arena:
        for number, entries in enumerate(rounds, start=1):
            found.append(await arena.measure_round(entries))
            say(alone.show_round(number, found[-1]))
    figures.alone = found
    for contestant in alone.CONTESTANTS[1:]:
        costs = (alone.find_costs(found, contestant, count) for count in alone.CONNECTIONS)
        ratios = (f"{alone.find_cpu_ratio(each):5.2f}x" for each in costs if each)
        say(f"{contestant!s:15} {'   '.join(ratios)}")


async def measure_front(
    rig: Rig, figures: Figures, rounds: int, loads: Sequence[Load] = LOADS
) -> None:
    """Both webhooks under each load, in turns; no pool is left."""
    for number in range(FRONT_POOLS):
        pool = build_raw_pool(number)
        path = f"{POOLS_PATH}/{pool['metadata']['name']}/status"
        await rig.api.call("POST", POOLS_PATH, pool)
        await rig.api.call("PATCH", path, {"status": pool["status"]}, content_type=MERGE_PATCH)
    found: list[front.Round] = []
    with tempfile.TemporaryDirectory(prefix="gpushare-bench-") as folder:
        async with serving(rig) as webhook, paired(rig.api, webhook, Path(folder)) as sides:
            for number in range(1, rounds + 1):
                found.append(await front.measure_round(rig.api, sides, loads))
                say(front.show_round(number, found[-1]))
            calls = await front.count_calls_without_gpu(rig.api, sides[1], webhook)
    say(f"calls for pods without GPU: {calls}")
    figures.front, figures.calls_without_gpu = found, calls
    await rig.api.call("DELETE", POOLS_PATH)
