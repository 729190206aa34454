"""What the operator uses while nothing changes, beside processes that do next to nothing."""

import asyncio
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import orjson

from gpushare.kube.events import COUNT_SECONDS
from tests.bench import watcher
from tests.bench.admission import server
from tests.bench.admission.certificate import write_certificate
from tests.bench.admission.server import Kind
from tests.bench.admission.webhook import serving
from tests.bench.figure import Figure, Unit
from tests.bench.footprint import Use, measure_uses, until_quiet
from tests.bench.partner import Partner, running
from tests.bench.rig import LABELS, Rig
from tests.bench.waiting import until

_WRITTEN_SECONDS = 2.0
_SILENT_SECONDS = 120


@dataclass(frozen=True)
class Rest:
    """The same seconds of five processes, with all pools Ready."""

    nodes: int
    seconds: float
    writes: int
    """The operator's, its Lease aside."""
    controller: Use
    watcher: Use
    """The bare one."""
    webhook: Use
    handler: Use
    """The bare one."""
    apiserver: Use


@asynccontextmanager
async def watching(rig: Rig) -> AsyncIterator[Partner]:
    """The bare watcher, at work within the block."""
    with tempfile.TemporaryDirectory(prefix="gpushare-bench-") as folder:
        kubeconfig = str(rig.installation.cluster.kubeconfig)
        log = Path(folder) / "watcher.log"
        async with running(watcher.__name__, kubeconfig, log=log) as bare:
            await bare.ask(orjson.dumps(LABELS).decode())
            yield bare


@asynccontextmanager
async def handling() -> AsyncIterator[Partner]:
    """The bare handler of reviews, that nobody calls."""
    with tempfile.TemporaryDirectory(prefix="gpushare-bench-") as folder:
        certificate, _ = write_certificate(Path(folder))
        asked = (Kind.FLOOR, str(certificate), "0")
        async with running(server.__name__, *asked, log=Path(folder) / "handler.log") as bare:
            await bare.hear()
            yield bare


async def measure_rest(rig: Rig, seconds: float) -> Rest:
    """The controller that runs, a webhook beside it, and the two bare ones."""
    async with watching(rig) as bare, serving(rig) as webhook, handling() as handler:
        pids = {
            "controller": rig.pid,
            "watcher": bare.pid,
            "webhook": webhook.pid,
            "handler": handler.pid,
            "apiserver": rig.installation.cluster.pid("kube-apiserver"),
        }
        await asyncio.gather(until_quiet(rig.pid), until_quiet(webhook.pid))
        await until_all_is_told(rig)
        # Nothing can be waited for: that nothing happens is what is measured.
        uses = await measure_uses(pids, seconds)
        return Rest(len(rig.fleet), seconds, len(rig.audit.read_our_writes()), **uses)


async def until_all_is_told(rig: Rig) -> None:
    """Until nothing follows what was done before: how often an Event came is written later."""

    async def is_silent() -> bool:
        rig.audit.read_our_writes()
        await asyncio.sleep(COUNT_SECONDS + _WRITTEN_SECONDS)
        return not rig.audit.read_our_writes()

    await until(is_silent, "the operator has nothing left to write", seconds=_SILENT_SECONDS)


def build_figures(rest: Rest) -> Iterator[Figure]:
    """Of the controller and the webhook, each beside a process that does the least."""
    yield Figure(
        name="writes",
        what=f"writes of the operator in {rest.seconds:.0f} s, its Lease aside",
        value=rest.writes,
        unit=Unit.COUNT,
        bound=0,
    )
    for process, use, floor, bare in (
        ("controller", rest.controller, "a bare watcher of nodes", rest.watcher),
        ("webhook", rest.webhook, "a bare handler of reviews", rest.handler),
    ):
        what = f"of the {process} at rest, with {rest.nodes:,} nodes"
        cores = {"floor_cores": rest.apiserver.cores, "operator_cores": use.cores}
        memory = {"floor_mib": bare.rss_mib, "operator_mib": use.rss_mib}
        yield Figure(
            name=f"{process}_cores",
            what=f"CPU {what}",
            value=use.cores,
            unit=Unit.CORES,
            rounds=(cores,),
        )
        yield Figure(
            name=f"{process}_cpu_share",
            what=f"CPU {what}",
            value=use.cores / rest.apiserver.cores,
            unit=Unit.SHARE,
            floor="kube-apiserver in the same seconds",
            rounds=(cores,),
        )
        yield Figure(
            name=f"{process}_mib",
            what=f"memory {what}",
            value=use.rss_mib,
            unit=Unit.MIB,
            rounds=(memory,),
        )
        yield Figure(
            name=f"{process}_memory_ratio",
            what=f"memory {what}",
            value=use.rss_mib / bare.rss_mib,
            floor=floor,
            rounds=(memory,),
        )
