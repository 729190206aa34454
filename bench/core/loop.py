"""``python -m bench.core.loop KUBECONFIG``: a bare loop of server-side applies, the floor.

The loop prints that it is ready, reads labels and the UIDs of the nodes as JSON, and prints when it
is done. It runs until it is ended, so that its resource usage can be read.
"""

import asyncio
import sys
from collections.abc import Mapping
from functools import partial
from pathlib import Path

import orjson

from bench.core.api import APPLY_PATCH, Api, for_each
from bench.core.nodewatch import NODES

MANAGER = "gpushare-bench-floor"


async def _apply(api: Api, labels: Mapping[str, str], node: tuple[str, str]) -> None:
    name, uid = node
    meta = {"name": name, "uid": uid, "labels": labels}
    await api.call(
        "PATCH",
        f"{NODES}/{name}",
        {"apiVersion": "v1", "kind": "Node", "metadata": meta},
        content_type=APPLY_PATCH,
        manager=MANAGER,
        force="true",
    )


async def _main(kubeconfig: Path) -> None:
    async with Api(kubeconfig) as api:
        await api.call("GET", "version")
        print("ready", flush=True)
        labels, uids = orjson.loads(await asyncio.to_thread(sys.stdin.buffer.readline))
        await for_each(partial(_apply, api, labels), uids.items())
        print("done", flush=True)
        await asyncio.to_thread(sys.stdin.buffer.read)


if __name__ == "__main__":
    asyncio.run(_main(Path(sys.argv[1])))
