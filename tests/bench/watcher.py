"""``python -m tests.bench.watcher KUBECONFIG``: a bare watcher that puts labels back, the floor.

A process of its own, as the operator is. It takes a line of JSON, the labels, says that it
watches, and ends with its stdin. It decides nothing, keeps nothing, and knows no other writer.
"""

import asyncio
import contextlib
import sys
from collections.abc import Mapping
from pathlib import Path

import orjson

from tests.bench.api import METADATA_LIST, Api
from tests.bench.floor import apply_labels
from tests.bench.nodewatch import NODES


async def keep(api: Api, labels: Mapping[str, str], version: str) -> None:
    """Apply the labels to every node that comes without them, for ever."""
    async with asyncio.TaskGroup() as repairs:
        while True:
            async with contextlib.aclosing(api.watch(NODES, version)) as events:
                async for event in events:
                    meta = event["object"]["metadata"]
                    version = meta["resourceVersion"]
                    # A bookmark carries no node.
                    if event["type"] == "MODIFIED" and not labels.items() <= meta["labels"].items():
                        node = meta["name"], meta["uid"]
                        repairs.create_task(apply_labels(api, labels, node))


async def _main(kubeconfig: Path) -> None:
    labels = orjson.loads(sys.stdin.buffer.readline())
    async with Api(kubeconfig) as api:
        # For the version of the list; the nodes themselves are of no interest.
        listed = await api.call("GET", NODES, accept=METADATA_LIST, limit="1")
        keeping = asyncio.create_task(keep(api, labels, listed["metadata"]["resourceVersion"]))
        print("watching", flush=True)
        ended = asyncio.create_task(asyncio.to_thread(sys.stdin.read))
        await asyncio.wait((keeping, ended), return_when=asyncio.FIRST_COMPLETED)
        if keeping.done():
            keeping.result()
        keeping.cancel()


if __name__ == "__main__":
    asyncio.run(_main(Path(sys.argv[1])))
