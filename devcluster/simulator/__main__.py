"""`python -m devcluster.simulator --kubeconfig FILE --port PORT`."""

import argparse
import asyncio
import logging
import signal
from pathlib import Path

from aiohttp import web

from devcluster.client import Client
from devcluster.simulator.extender import Extender
from devcluster.simulator.faults import KUBELET_PERIOD_SECONDS, Faults
from devcluster.simulator.player import Player


async def simulate(kubeconfig: Path, port: int, usual: Faults) -> None:
    """Play a cluster's GPUs until SIGTERM or SIGINT; `/version` answers once it does."""
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    async with Client(kubeconfig, user_agent="devcluster-simulator") as client:
        player = Player(client, usual)
        runner = web.AppRunner(Extender(client, player).build_application(), access_log=None)
        await runner.setup()
        watching = asyncio.create_task(player.cluster.run())
        begin = asyncio.create_task(_begin(player, runner, port))
        stopping = asyncio.create_task(stop.wait())
        try:
            await asyncio.wait({watching, stopping}, return_when=asyncio.FIRST_COMPLETED)
            if watching.done():
                watching.result()
        finally:
            for task in (watching, begin, stopping):
                task.cancel()
            await asyncio.gather(watching, begin, stopping, return_exceptions=True)
            await runner.cleanup()


async def _begin(player: Player, runner: web.AppRunner, port: int) -> None:
    await player.cluster.wait_synced()
    player.start()
    await web.TCPSite(runner, "127.0.0.1", port).start()
    logging.getLogger(__name__).info("playing; extender on port %d", port)


def main() -> None:
    """Parse the command line and run."""
    parser = argparse.ArgumentParser(prog="python -m devcluster.simulator", description=__doc__)
    parser.add_argument("--kubeconfig", type=Path, required=True)
    parser.add_argument("--port", type=int, required=True, help="of the scheduler extender")
    parser.add_argument(
        "--kubelet-period-seconds",
        type=float,
        default=KUBELET_PERIOD_SECONDS,
        help="between a kubelet's reports of its status; default %(default)s",
    )
    arguments = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    usual = Faults(report_period_seconds=arguments.kubelet_period_seconds)
    asyncio.run(simulate(arguments.kubeconfig, arguments.port, usual))


if __name__ == "__main__":
    main()
