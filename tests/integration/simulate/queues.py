"""Draws queues of pods, and plays them on kube-scheduler and the simulated GPU scheduler."""

import json
import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from devcluster.editions import Edition
from devcluster.waiting import wait_until
from tests.kit.bench import PODS, Bench
from tests.kit.cluster.command_line import run_command
from tests.kit.cluster.expect import expect_pool_ready
from tests.kit.cluster.simulated_queue import predict_pending
from tests.kit.values.manifests import Json, build_pod, build_pool

POOL = "gpushare.io/pool"
_HOSTNAME = "kubernetes.io/hostname"
_CARD = 15


@dataclass(frozen=True)
class Stage:
    """Pools and nodes on which queues are played: the number of cards of each node, by pool."""

    edition: Edition
    schedules: dict[str, Json]
    nodes: dict[str, Sequence[int]]

    def build(self, bench: Bench) -> None:
        """Build the stage on an empty cluster, with the operator running."""
        bench.install(self.edition)
        bench.operators.standard()
        for pool, cards in self.nodes.items():
            for number, count in enumerate(cards):
                bench.add_nodes(f"{pool}-{number}", node_pool=pool, cards=count)
            bench.create_pool(
                build_pool(pool, edition=self.edition, node_pool=pool, **self.schedules[pool])
            )
        for pool, cards in self.nodes.items():
            expect_pool_ready(bench, pool, nodes=len(cards), within=180)


STAGES = {
    "open-source": Stage("OpenSource", {"all": {"schedule": "share"}}, {"all": (2, 1, 2)}),
    "basic": Stage(
        "Basic",
        {"train": {"schedule": "cgpu"}, "infer": {"schedule": "share"}},
        {"train": (2, 1), "infer": (1, 2)},
    ),
    "professional": Stage(
        "Professional",
        {
            "pack": {"schedule": "cgpu", "placement": "binpack"},
            "wide": {"schedule": "share", "placement": "spread"},
        },
        {"pack": (2, 2), "wide": (2, 1)},
    ),
}


@dataclass(frozen=True)
class Queue:
    """Pods that run before, those of them that end then, and the pods that come after."""

    before: Sequence[Json] = ()
    ended: frozenset[str] = frozenset()
    pods: Sequence[Json] = ()


@dataclass
class Played:
    """What was predicted for a queue, and what happened each time."""

    name: str
    predicted: frozenset[str]
    """Names of the pods that stay pending."""
    happened: list[frozenset[str]] = field(default_factory=list)
    pods: int = 0

    @property
    def is_settled(self) -> bool:
        """Whether all runs ended alike."""
        return len(set(self.happened)) == 1

    @property
    def is_right(self) -> bool:
        """Whether what was predicted happened, at least once."""
        return self.predicted in self.happened

    @property
    def difference(self) -> int:
        """By how many pods the prediction differs from the nearest of the runs."""
        return min(abs(len(self.predicted) - len(each)) for each in self.happened)

    def __str__(self) -> str:
        told = ["; ".join(sorted(each)) or "none" for each in (self.predicted, *self.happened)]
        return f"{self.name} ({self.pods} pods): pending {told[0]} | runs: {' | '.join(told[1:])}"


def draw_queue(stage: Stage, seed: int) -> Queue:
    """Draw a queue; two of three begin on a fragmented cluster, and most overfill it."""
    choice = random.Random(seed)
    before, ended = [], set()
    if seed % 3:
        for pool, cards in stage.nodes.items():
            for number, count in enumerate(cards):
                for index in range(count * 2):
                    name, units = f"before-{pool}-{number}-{index}", choice.randint(2, 6)
                    selects = {POOL: pool, _HOSTNAME: f"{pool}-{number}"}
                    pod = build_pod(name, gib=units, selects=selects)
                    cpu = {"cpu": f"{choice.randint(1, 20)}00m"}
                    pod["spec"]["containers"][0]["resources"]["requests"] |= cpu
                    before.append(pod)
                    if choice.random() < 0.4:
                        ended.add(name)
    total = sum(map(sum, stage.nodes.values())) * _CARD
    room = choice.uniform(0.6, 1.4) * total
    pods: list[Json] = []
    while room > 0:
        pod = _draw_pod(choice, f"p{len(pods):02}", stage)
        pods.append(pod)
        room -= int(pod["spec"]["containers"][0]["resources"]["limits"]["aliyun.com/gpu-mem"])
    return Queue(before, frozenset(ended), pods)


def _draw_pod(choice: random.Random, name: str, stage: Stage) -> Json:
    units = choice.choice((2, 3, 4, 5, 6, 7, 8, 10, 12))
    annotations = {"gpushare.io/isolation": "none"} if choice.random() < 0.5 else {}
    labels = {}
    if stage.edition == "Professional" and units % 2 == 0 and choice.random() < 0.2:
        labels = {"aliyun.com/gpu-count": "2"}
    pod = build_pod(name, gib=units, annotations=annotations, labels=labels)
    host = {"cpu": f"{choice.randint(5, 40)}00m", "memory": f"{choice.randint(2, 24)}Gi"}
    if choice.random() < 0.9:
        # Of nodes with an equal score kube-scheduler takes any.
        pod["spec"]["containers"][0]["resources"]["requests"] |= host
    if choice.random() < 0.15:
        begins = build_pod("init", gib=None)["spec"]["containers"][0] | {"name": "init"}
        begins["resources"] = {"requests": {"cpu": "2"}}
        pod["spec"]["initContainers"] = [begins]
        if choice.random() < 0.5:
            begins["restartPolicy"] = "Always"
    return pod


def play(bench: Bench, name: str, queue: Queue, folder: Path, runs: range) -> Played:
    """Predict what becomes of a queue, and let it happen several times: where none is as predicted,
    up to the end of `runs`, since three that end alike may do so by chance."""
    manifest = folder / f"{name}.json"
    items = {"apiVersion": "v1", "kind": "List", "items": list(queue.pods)}
    manifest.write_text(json.dumps(items, indent=1))
    _prepare(bench, queue)
    snapshot = str(folder / f"{name}.snapshot.json")
    taken = run_command("snapshot", "-o", snapshot, kubeconfig=bench.cluster.kubeconfig)
    assert taken.code == 0, taken
    played = Played(name, predict_pending(snapshot, manifest), pods=len(queue.pods))
    while len(played.happened) < runs.start or not played.is_right:
        if len(played.happened) == runs.stop:
            break
        if played.happened:
            _prepare(bench, queue)
        played.happened.append(_happen(bench, queue))
        _end_pods(bench)
    ended = [sorted(each) for each in played.happened]
    (folder / f"{name}.runs.json").write_text(json.dumps(ended))
    return played


def _prepare(bench: Bench, queue: Queue) -> None:
    for pod in queue.before:
        bench.create_pod(pod)
    _settle(bench)
    for name in queue.ended:
        bench.delete_pod(name)
    wait_until(
        lambda: not queue.ended & {pod["metadata"]["name"] for pod in bench.pods()},
        expectation="pods have ended",
        timeout_seconds=60,
    )
    for pod in bench.pods():
        if not pod["spec"].get("nodeName"):
            bench.delete_pod(pod["metadata"]["name"])
    wait_until(
        lambda: _is_observed(bench),
        expectation="the pools show what is allocated",
        timeout_seconds=60,
    )


def _is_observed(bench: Bench) -> bool:
    held = sum(
        int(pod["spec"]["containers"][0]["resources"]["limits"]["aliyun.com/gpu-mem"])
        for pod in bench.pods()
        if pod["spec"].get("nodeName")
    )
    pools = bench.call("GET", "/apis/gpushare.io/v1alpha1/gpusharepools")["items"]
    shown = [pool["status"]["capacity"] for pool in pools]
    allocated = sum(each["memoryAllocated"] for each in shown)
    requested = sum(each["memoryRequested"] for each in shown)
    return bool(allocated == requested == held)


def _happen(bench: Bench, queue: Queue) -> frozenset[str]:
    for pod in queue.pods:
        bench.create_pod(pod)
    _settle(bench)
    wanted = {pod["metadata"]["name"] for pod in queue.pods}
    return frozenset(
        pod["metadata"]["name"]
        for pod in bench.pods()
        if pod["metadata"]["name"] in wanted and not pod["spec"].get("nodeName")
    )


def _settle(bench: Bench) -> None:
    """Wait until the scheduler has placed or refused each pod."""

    def is_tried(pod: Json) -> bool:
        conditions = pod["status"].get("conditions") or ()
        refused = any(each.get("reason") == "Unschedulable" for each in conditions)
        return bool(pod["spec"].get("nodeName")) or refused

    wait_until(
        lambda: all(map(is_tried, bench.pods())),
        expectation="each pod is placed or refused",
        timeout_seconds=90,
    )


def _end_pods(bench: Bench) -> None:
    bench.call("DELETE", f"{PODS}?gracePeriodSeconds=0")
    wait_until(lambda: not bench.pods(), expectation="all pods are gone", timeout_seconds=60)
