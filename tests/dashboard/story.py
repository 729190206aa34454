"""What the pools of a dashboard's picture go through: one of everything that it can show."""

import time
from collections.abc import Mapping

from devcluster.editions import Edition
from devcluster.names import DISABLE_ISOLATION
from tests.kit.arrange import POOL
from tests.kit.bench import Bench
from tests.kit.builders import build_pod, build_pool, build_workload
from tests.kit.expect import expect, expect_labels, expect_pool_ready, find_condition

EDITION: Edition = "Basic"
"""Its pods stay while their node changes its isolation, and so can become stale."""
SETTINGS = {"GPUSHARE_ALLOW_EVICTION": "true"}
VALUES = {"eviction.enabled": "true"}

_DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
_PER_POOL = 3
_CARDS = {"training": 4, "inference": 8, "notebooks": 2}
_SCHEDULES = {"training": "share", "inference": "cgpu", "notebooks": "share"}
_ADDRESSES = {"training": 10, "inference": 20, "notebooks": 30}
_WORK = (
    ("inference", "ranker", 10, 8),
    ("training", "resnet", 8, 6),
    ("notebooks", "jupyter", 4, 9),
    ("inference", "embed", 6, 8),
    ("training", "whisper", 11, 4),
    ("inference", "search", 12, 5),
    ("notebooks", "lab", 7, 4),
    ("training", "detector", 5, 3),
    ("inference", "speech", 8, 6),
)
"""Pool, name, GiB of each pod, pods."""
_LOST = "nowhere"
_ARRIVES_SECONDS = 4
_SIGHT_SECONDS = 15
_CHANGE_SECONDS = 120


def play(bench: Bench) -> None:
    """All of it, two to three minutes; an operator runs already, with these settings."""
    found_pools(bench)
    work_arrives(bench)
    somebody_writes_a_label(bench)
    pods_find_no_place(bench)
    training_isolates(bench)
    stale_pods_leave(bench)


def found_pools(bench: Bench) -> None:
    """Three, each of nodes of its own."""
    bench.install(EDITION)
    for pool in _CARDS:
        bench.add_nodes(*name_nodes(pool), node_pool=pool, cards=_CARDS[pool])
    for pool, schedule in _SCHEDULES.items():
        bench.create_pool(build_pool(pool, schedule=schedule, edition=EDITION, node_pool=pool))
        expect_pool_ready(bench, pool, nodes=_PER_POOL)


def name_nodes(pool: str) -> list[str]:
    """The nodes of a pool."""
    first = _ADDRESSES[pool] + 1
    return [f"cn-beijing.10.0.1.{number}" for number in range(first, first + _PER_POOL)]


def work_arrives(bench: Bench) -> None:
    """One application after the other, until all their pods run."""
    pods = 0
    for pool, name, gib, replicas in _WORK:
        create(bench, pool, name, gib=gib, replicas=replicas)
        pods += replicas
        _let_be_seen(_ARRIVES_SECONDS)
    # Who does without isolation by their own wish.
    create(bench, "training", "tuner", gib=6, replicas=2, env={"CGPU_DISABLE": "true"})
    expect(bench, "every pod runs", lambda: count_running(bench) == pods + 2)


def create(
    bench: Bench,
    pool: str,
    name: str,
    *,
    gib: int,
    replicas: int,
    env: Mapping[str, str] | None = None,
) -> None:
    """A Deployment of pods that ask for this pool, and for so much memory each."""
    template = build_pod(name, gib=gib, env=env, annotations={POOL: pool})
    workload = build_workload("Deployment", name, replicas=replicas, pod=template)
    bench.call("POST", _DEPLOYMENTS, workload)


def somebody_writes_a_label(bench: Bench) -> None:
    """Twice it is put back; the third time it is given way to, until they think better of it."""
    node, *_ = name_nodes("notebooks")
    for _ in range(2):
        bench.label(node, {DISABLE_ISOLATION: "false"})
        expect_labels(bench, node, {DISABLE_ISOLATION: "true"})
        _let_be_seen(_ARRIVES_SECONDS)
    bench.label(node, {DISABLE_ISOLATION: "false"})
    expect(bench, "the pool gives way", lambda: is_conflicting(bench))
    _let_be_seen(_SIGHT_SECONDS)
    bench.label(node, {DISABLE_ISOLATION: "true"})
    expect(bench, "they agree again", lambda: not is_conflicting(bench))


def is_conflicting(bench: Bench) -> bool:
    """Whether somebody else keeps writing a label of notebooks' nodes."""
    return bool(find_condition(bench.pool("notebooks"), "Conflicting")["status"] == "True")


def pods_find_no_place(bench: Bench) -> None:
    """One is larger than any card, and one selects a pool that does not exist."""
    create(bench, "inference", "large-model", gib=24, replicas=2)
    bench.create_pod(build_pod("stray", selects={POOL: _LOST}))
    _let_be_seen(_SIGHT_SECONDS)


def training_isolates(bench: Bench) -> None:
    """Node by node; the pods go on, without the isolation that their nodes now promise."""
    bench.change_pool("training", schedule="cgpu")
    expect_pool_ready(bench, "training", nodes=_PER_POOL, within=_CHANGE_SECONDS)
    expect(bench, "its pods are stale", lambda: count_stale(bench) > 0)
    _let_be_seen(_SIGHT_SECONDS)


def stale_pods_leave(bench: Bench) -> None:
    """They are evicted, and what comes in their place is isolated."""
    bench.change_pool("training", rollout={"staleWorkloads": "Evict"})
    expect(
        bench,
        "none is stale",
        lambda: count_stale(bench) == 0,
        within_seconds=_CHANGE_SECONDS,
    )
    _let_be_seen(_SIGHT_SECONDS)


def count_stale(bench: Bench) -> int:
    """Containers of training whose isolation is not what their node says."""
    stale: int = bench.pool("training").get("status", {}).get("isolation", {}).get("stale", 0)
    return stale


def count_running(bench: Bench) -> int:
    """Pods of the default namespace."""
    return sum(pod["status"].get("phase") == "Running" for pod in bench.pods())


def _let_be_seen(seconds: float) -> None:
    """Let things stay as they are for a while, so that a picture of them has some width."""
    time.sleep(seconds)
