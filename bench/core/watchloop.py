"""``python -m bench.core.watchloop KUBECONFIG``: a bare loop that receives the events of all nodes.

The loop prints that it watches. It decodes each event, does nothing with it, and runs until it is
ended, so that its CPU time can be read.
"""

import asyncio
import sys
from pathlib import Path

from bench.core.api import MANAGER
from bench.core.nodewatch import NODES
from devcluster.client import Client


async def _main(kubeconfig: Path) -> None:
    async with Client(kubeconfig, user_agent=MANAGER) as client:
        _, version = await client.list(NODES, {})
        print("ready", flush=True)
        while True:
            async for _, node in client.watch(NODES, {}, version):
                version = int(node["metadata"]["resourceVersion"])


if __name__ == "__main__":
    asyncio.run(_main(Path(sys.argv[1])))
