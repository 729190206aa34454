"""``python -m bench.core.loop KUBECONFIG``: a bare loop of server-side applies, the floor.

The loop prints that it is ready, reads what it applies to each node as JSON, and prints when it is
done. It runs until it is ended, so that its resource usage can be read.
"""

import asyncio
import sys
from functools import partial
from pathlib import Path

import orjson

from bench.core.api import APPLY_PATCH, Api, Json, for_each
from bench.core.nodewatch import NODES

MANAGER = "gpushare-bench-floor"


async def _apply(api: Api, meta: Json) -> None:
    await api.call(
        "PATCH",
        f"{NODES}/{meta['name']}",
        {"apiVersion": "v1", "kind": "Node", "metadata": meta},
        content_type=APPLY_PATCH,
        manager=MANAGER,
        force="true",
    )


async def _main(kubeconfig: Path) -> None:
    async with Api(kubeconfig) as api:
        await api.call("GET", "version")
        print("ready", flush=True)
        metadata = orjson.loads(await asyncio.to_thread(sys.stdin.buffer.readline))
        await for_each(partial(_apply, api), metadata)
        print("done", flush=True)
        await asyncio.to_thread(sys.stdin.buffer.read)


if __name__ == "__main__":
    asyncio.run(_main(Path(sys.argv[1])))
