"""``python -m tests.bench.floor KUBECONFIG``: a bare loop of server-side applies, the floor.

A process of its own, as the operator is, so that both have the same share of the machine. It says
that it is ready, takes one line of JSON (labels, and the UIDs of the nodes by name), and applies
the labels to every node, 64 in flight. No watch, no records, no decisions.
"""

import asyncio
import sys
from collections.abc import Mapping
from functools import partial
from pathlib import Path

import orjson

from tests.bench.api import APPLY_PATCH, Api, for_each
from tests.bench.nodewatch import NODES

MANAGER = "gpushare-bench-floor"


async def apply_labels(api: Api, labels: Mapping[str, str], node: tuple[str, str]) -> None:
    """Apply `labels` to a node, given by its name and its UID."""
    name, uid = node
    await api.call(
        "PATCH",
        f"{NODES}/{name}",
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name, "uid": uid, "labels": labels},
        },
        content_type=APPLY_PATCH,
        manager=MANAGER,
        force="true",
    )


async def _main(kubeconfig: Path) -> None:
    async with Api(kubeconfig) as api:
        await api.call("GET", "version")
        print("ready", flush=True)
        labels, uids = orjson.loads(sys.stdin.buffer.readline())
        await for_each(partial(apply_labels, api, labels), uids.items())


if __name__ == "__main__":
    asyncio.run(_main(Path(sys.argv[1])))
