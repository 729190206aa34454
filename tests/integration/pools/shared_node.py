"""An open-source pool of one node, its cards, and what the commands say of them."""

import json
from typing import Any

from devcluster import names
from tests.kit.bench import NODES, SYSTEM_PODS, Bench
from tests.kit.cluster.command_line import run_command
from tests.kit.cluster.expect import (
    expect_capacity,
    expect_gpu_memory,
    expect_pool_ready,
    expect_running,
)
from tests.kit.values.manifests import build_pod, build_pool

Json = dict[str, Any]

Cards = dict[int, tuple[int, dict[str, int]]]
"""By index, each card's memory, and what each pod holds of it."""
CARD_GIB = 15
SENT = {"gpushare.io/pool": "training"}


def share_cards(bench: Bench, cards: int = 2) -> None:
    """The pool `training` of one node `n1`, which shares so many cards."""
    bench.install("OpenSource")
    bench.add_nodes("n1", cards=cards)
    bench.create_pool(build_pool(edition="OpenSource"))
    expect_pool_ready(bench, nodes=1)


def ask(bench: Bench, *arguments: str) -> Json:
    """What a command says, as data."""
    ended = run_command(*arguments, "-o", "json", kubeconfig=bench.cluster.kubeconfig)
    document: Json = json.loads(ended.out)
    return document


def set_cards(bench: Bench, cards: int) -> None:
    """Other cards in the node, as after it was shut down for it: its plugin counts them anew."""
    notes = {names.CARDS: str(cards)}
    labels = {names.NVIDIA_COUNT: str(cards)}
    bench.call("PATCH", f"{NODES}/n1", {"metadata": {"annotations": notes, "labels": labels}})
    (plugin,) = bench.plugins().values()
    bench.annotate(f"{SYSTEM_PODS}/{plugin['metadata']['name']}", {names.RESTART: "1"})
    expect_gpu_memory(bench, "n1", CARD_GIB * cards)


def run_pods(bench: Bench, *pods: str, gib: int = 10) -> None:
    """These run one after the other."""
    for pod in pods:
        bench.create_pod(build_pod(pod, gib=gib, selects=SENT))
        expect_running(bench, pod)


def expect_memory(bench: Bench, allocated: int, requested: int, *, largest: int) -> None:
    """Until the status of the pool says so of its memory, and of the largest free block."""
    expect_capacity(
        bench, memoryAllocated=allocated, memoryRequested=requested, largestFreeBlock=largest
    )


def list_rejections(told: Json) -> list[list[str]]:
    """Of `explain pod`: what keeps the pod off each node."""
    return [[each["reason"] for each in node["rejections"]] for node in told["nodes"]]


def list_cards(bench: Bench) -> Cards:
    """Of `inspect --pools`."""
    (pool,) = ask(bench, "inspect", "--pools")["pools"]
    (node,) = pool["nodes"]
    return {card["index"]: (card["total"], card["held"]) for card in node["cards"]}


def list_codes(bench: Bench) -> dict[str, tuple[str, str]]:
    """Of `doctor`: each code with its severity and what it is about."""
    found = ask(bench, "doctor")["findings"]
    return {each["code"]: (each["severity"], each["object"]) for each in found}
