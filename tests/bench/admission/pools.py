"""Pools as the API server keeps them, with figures that nobody changes."""

from tests.bench.api import Json
from tests.kit.builders import build_pool

_SCHEDULES = ("cgpu", "share", "core_mem")


def build_raw_pool(number: int) -> Json:
    """A pool of 400 cards as the API server keeps it, with its capacity; modes take turns."""
    pool = build_pool(f"pool-{number:02}", schedule=_SCHEDULES[number % 3], priority=100)
    pool["metadata"] |= {"uid": f"0c1f6a52-8f3e-4a53-9d5b-{number:012x}", "generation": 1}
    free = 15 - number % 4
    pool["status"] = {
        "observedGeneration": 1,
        "nodes": {"matched": 100, "ready": 100},
        "capacity": {
            "observedAt": "2026-01-01T00:00:00Z",
            "gpus": 400,
            "memoryTotal": 6000,
            "memoryAllocated": 6000 - 400 * free,
            "memoryRequested": 6000 - 400 * free,
            "largestFreeBlock": free,
            "unit": "GiB",
            "largestCard": 15,
            "freeBlocks": [{"size": free, "cards": 400}],
        },
    }
    return pool
