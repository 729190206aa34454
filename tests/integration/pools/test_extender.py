"""The scheduler extender behind the real kube-scheduler: away, or with a ledger of its own. Seen
beside the extender itself before it was put into the simulator."""

import json
from pathlib import Path
from typing import Any

import pytest

from devcluster import names
from devcluster.installation import OperatorProcess
from tests.kit.bench import NODES, PODS, SYSTEM_PODS, Bench, Json
from tests.kit.cluster.command_line import run_command
from tests.kit.cluster.expect import (
    expect,
    expect_bound,
    expect_capacity,
    expect_offered,
    expect_pool_ready,
    expect_reason,
    expect_running,
    find_condition,
    read_events,
)
from tests.kit.cluster.namespaces import default_namespace
from tests.kit.cluster.operator_processes import read_metric
from tests.kit.cluster.pod_admission import decision_of, expect_known, pool_of
from tests.kit.cluster.scheduler import scheduled_by
from tests.kit.values.manifests import IMAGE, build_container, build_pod, build_pool

CARD_GIB = 15
SENT = {"gpushare.io/pool": "training"}
NOWHERE = "http://127.0.0.1:9"
"""The port `discard`, on which nobody listens."""


@pytest.fixture
def sharing(bench: Bench, operator: OperatorProcess) -> Bench:
    """An open-source pool of one node with two cards."""
    share_cards(bench)
    return bench


def share_cards(bench: Bench, cards: int = 2) -> None:
    """The pool `training` of one node `n1`, which shares so many cards."""
    bench.install("OpenSource")
    bench.add_nodes("n1", cards=cards)
    bench.create_pool(build_pool(edition="OpenSource"))
    expect_pool_ready(bench, nodes=1)


def set_cards(bench: Bench, cards: int) -> None:
    """Other cards in the node, as after it was shut down for it: its plugin counts them anew."""
    notes = {names.CARDS: str(cards)}
    labels = {names.NVIDIA_COUNT: str(cards)}
    bench.call("PATCH", f"{NODES}/n1", {"metadata": {"annotations": notes, "labels": labels}})
    (plugin,) = bench.plugins().values()
    bench.annotate(f"{SYSTEM_PODS}/{plugin['metadata']['name']}", {names.RESTART: "1"})
    expect_offered(bench, "n1", CARD_GIB * cards)


def run_pods(bench: Bench, *pods: str, gib: int) -> None:
    """These run one after the other."""
    for pod in pods:
        bench.create_pod(build_pod(pod, gib=gib, selects=SENT))
        expect_running(bench, pod)


def _asking(name: str, gib: int, **more: Any) -> Json:
    """A container that asks for so much GPU memory."""
    return build_container(name, memory=str(gib)) | {"image": IMAGE, **more}


def _pod_of(*containers: Json, **spec: Any) -> Json:
    """The pod `p` of the pool, with these containers."""
    pod = build_pod("p", selects=SENT, **spec)
    pod["spec"]["containers"] = list(containers)
    return pod


def expect_memory(bench: Bench, allocated: int, requested: int, *, largest: int) -> None:
    """Until the status of the pool says so of its memory, and of the largest free block."""
    expect_capacity(
        bench, memoryAllocated=allocated, memoryRequested=requested, largestFreeBlock=largest
    )


def ask(bench: Bench, *arguments: str) -> Json:
    """What a command says, as data."""
    ended = run_command(*arguments, "-o", "json", kubeconfig=bench.cluster.kubeconfig)
    document: Json = json.loads(ended.out)
    return document


def expect_waiting(bench: Bench, pod: str, reason: str) -> Json:
    """What `explain pod` says, once the pod waits for this reason."""

    def probe() -> Json | None:
        told = ask(bench, "explain", "pod", pod)
        return told if (told["waits"] or {}).get("reason") == reason else None

    return expect(bench, f"{pod} waits by {reason}", probe)


def expect_room_after_restart(bench: Bench) -> None:
    """The extender refuses a pod of 10 GiB that there is room for, until it is restarted."""
    bench.create_pod(build_pod("late", gib=10, selects=SENT))
    told = expect_waiting(bench, "late", "ExtenderStale")
    assert list_rejections(told) == [["ExtenderStale"]]
    assert "rollout restart" in told["smallestChange"]

    bench.cluster.restart_extender()
    bench.delete_pod("late")
    run_pods(bench, "again", gib=10)


def list_rejections(told: Json) -> list[list[str]]:
    """Of `explain pod`: what keeps the pod off each node."""
    return [[each["reason"] for each in node["rejections"]] for node in told["nodes"]]


def list_cards(bench: Bench) -> dict[int, tuple[int, dict[str, int]]]:
    """Of `inspect --pools`: by index, each card's memory, and what each pod holds of it."""
    (pool,) = ask(bench, "inspect", "--pools")["pools"]
    (node,) = pool["nodes"]
    return {card["index"]: (card["total"], card["held"]) for card in node["cards"]}


def list_findings(bench: Bench) -> dict[str, Json]:
    """Of `doctor`, by their code."""
    return {each["code"]: each for each in ask(bench, "doctor")["findings"]}


def test_an_extender_that_is_away_is_told_everywhere_and_no_node_is_said_to_fit(
    sharing: Bench, operator: OperatorProcess, tmp_path: Path
) -> None:
    rendered = run_command(
        "render", "scheduler-config", "--extender-url", NOWHERE,
        "--kubeconfig", str(sharing.cluster.kubeconfig),
    )  # fmt: skip
    with scheduled_by(sharing, rendered.out, tmp_path):
        sharing.create_pod(build_pod("waits", gib=4, selects=SENT))
        (event,) = expect(
            sharing,
            "the pod has an Event",
            lambda: read_events(sharing, sharing.pod("waits"), "SchedulerUnavailable"),
        )
        assert NOWHERE in event["note"]
        counted = read_metric(
            operator, "gpushare_unschedulable_pods", reason="SchedulerUnavailable"
        )
        assert counted == 1
        found = list_findings(sharing)["SchedulerUnavailable"]
        assert (found["severity"], NOWHERE in found["message"]) == ("error", True)
        told = ask(sharing, "explain", "pod", "waits")
        assert told["waits"]["reason"] == "SchedulerUnavailable"
        assert [node["fits"] for node in told["nodes"]] == [False]


def test_a_pod_whose_init_containers_alone_ask_is_told_that_the_extender_never_binds_it(
    sharing: Bench,
) -> None:
    asking = _asking("asks", 4)
    sharing.create_pod(build_pod("p", gib=None, selects=SENT, initContainers=[asking]))
    (event,) = expect(
        sharing, "it has an Event", lambda: read_events(sharing, sharing.pod("p"), "Unschedulable")
    )
    assert "HTTP 500" in event["note"]
    assert list_rejections(expect_waiting(sharing, "p", "Unschedulable")) == [["NoContainerAsks"]]
    (waiting,) = ask(sharing, "inspect", "--pools")["waiting"]
    assert (waiting["name"], waiting["reason"], waiting["requested"]) == ("p", "Unschedulable", 4)
    expect_memory(sharing, 0, 4, largest=15)


def test_a_card_that_a_tenant_made_up_counts_nowhere_and_leaves_the_node_ready(
    sharing: Bench,
) -> None:
    run_pods(sharing, "a", gib=8)
    sharing.annotate(f"{PODS}/a", {names.MEM_IDX: "7"})
    expect_reason(sharing, "n1", "ExtenderStale", "default/a")
    (event,) = expect(
        sharing, "an Event", lambda: read_events(sharing, sharing.node("n1"), "ExtenderStale")
    )
    assert event["type"] == "Warning"
    run_pods(sharing, "b", gib=7)
    expect_memory(sharing, 7, 15, largest=15)
    made_up = {7: (0, {"default/a": 8})}
    assert list_cards(sharing) == {0: (15, {"default/b": 7}), 1: (15, {})} | made_up
    pool = expect_pool_ready(sharing, nodes=1)
    assert (pool["status"]["nodes"]["ready"], pool["status"]["nodes"]["blocked"]) == (1, 0)
    assert find_condition(pool)["reason"] == "AllNodesReady"
    found = list_findings(sharing)["ExtenderStale"]
    assert (found["severity"], found["object"]) == ("warning", "node n1")


def test_units_that_the_extender_keeps_of_a_pod_that_is_gone_are_told(sharing: Bench) -> None:
    run_pods(sharing, "a", gib=10)
    sharing.annotate(f"{PODS}/a", {names.MEM_IDX: "1"})
    sharing.delete_pod("a")
    run_pods(sharing, "b", gib=10)
    expect_memory(sharing, 10, 10, largest=15)
    assert list_cards(sharing) == {0: (15, {}), 1: (15, {"default/b": 10})}
    expect_room_after_restart(sharing)
    assert list_cards(sharing)[0] == (15, {"default/again": 10})


def test_a_pod_on_a_card_that_was_taken_out_is_told_on_its_node(
    bench: Bench, operator: OperatorProcess
) -> None:
    share_cards(bench, 4)
    run_pods(bench, "a", "b", gib=8)
    set_cards(bench, 2)
    # The extender remembers four cards, and the third is the first that is empty.
    run_pods(bench, "late", gib=8)
    expect_reason(bench, "n1", "ExtenderStale", "default/late")
    expect_memory(bench, 16, 24, largest=6)
    assert list_cards(bench)[2] == (0, {"default/late": 8})
    assert bench.pool()["status"]["capacity"]["gpus"] == 2
    found = list_findings(bench)["ExtenderStale"]
    assert (found["severity"], found["object"]) == ("warning", "node n1")

    bench.delete_pod("late")
    bench.cluster.restart_extender()
    run_pods(bench, "again", gib=7)
    expect_memory(bench, 23, 23, largest=7)
    assert sorted(list_cards(bench)) == [0, 1]
    assert "ExtenderStale" not in list_findings(bench)


def test_what_a_sidecar_asks_is_no_room_though_the_extender_does_not_count_it(
    sharing: Bench,
) -> None:
    sidecar = _asking("sidecar", 3, restartPolicy="Always")
    sharing.create_pod(_pod_of(_asking("main", 2), initContainers=[sidecar]))
    expect_running(sharing, "p")
    run_pods(sharing, "large", gib=14)
    sharing.create_pod(build_pod("late", gib=12, selects=SENT))
    told = expect_waiting(sharing, "late", "NoFreeBlock")
    assert list_rejections(told) == [["NotEnoughFree"]]
    # The extender counts 2 + 14, kube-scheduler 5 + 14, and what waits asks for 12.
    expect_memory(sharing, 16, 31, largest=11)
    assert list_cards(sharing) == {0: (15, {"default/p": 2}), 1: (15, {"default/large": 14})}


def test_a_pod_of_two_containers_that_ask_is_bound_and_told_why_it_never_starts(
    sharing: Bench,
) -> None:
    sharing.create_pod(_pod_of(_asking("a", 2), _asking("b", 3)))
    assert expect_bound(sharing, "p") == "n1"
    told = expect_waiting(sharing, "p", "SeveralContainersAsk")
    assert (told["placed"]["phase"], told["placed"]["cards"]) == ("Pending", {"0": 5})
    expect_memory(sharing, 5, 5, largest=15)
    assert list_cards(sharing) == {0: (15, {"default/p": 5}), 1: (15, {})}


@pytest.mark.parametrize(
    ("key", "value", "cards", "largest"),
    [
        (names.MEM_POD, "1", {0: (15, {"default/a": 8, "default/b": 7}), 1: (15, {})}, 15),
        (names.MEM_IDX, "+1", {0: (15, {"default/b": 7}), 1: (15, {"default/a": 8})}, 8),
    ],
)
def test_an_edited_annotation_is_read_as_the_extender_reads_it(
    sharing: Bench, key: str, value: str, cards: dict[int, tuple[int, dict[str, int]]], largest: int
) -> None:
    run_pods(sharing, "a", gib=8)
    sharing.annotate(f"{PODS}/a", {key: value})
    run_pods(sharing, "b", gib=7)
    expect_memory(sharing, 15, 15, largest=largest)
    assert list_cards(sharing) == cards
    (node,) = ask(sharing, "inspect")["nodes"]
    assert [card["allocated"] for card in node["cards"]] == [
        sum(held.values()) for _, held in cards.values()
    ]
    assert "ExtenderStale" not in list_findings(sharing)


def test_while_the_controller_is_away_room_that_was_promised_counts_as_reserved(
    bench: Bench,
) -> None:
    bench.install("OpenSource")
    controller = bench.operators.start("controller", identity="controller")
    bench.operators.start("webhook", identity="webhook", env={"GPUSHARE_WEBHOOK_REPLICAS": "1"})
    space = default_namespace(bench)
    for pool in ("first", "second"):
        bench.add_nodes(f"{pool}-1", node_pool=pool, cards=2)
        bench.create_pool(build_pool(pool, edition="OpenSource", node_pool=pool))
        expect_pool_ready(bench, pool, nodes=1)
        expect_known(space, pool)
        expect_capacity(bench, pool, memoryAllocated=0)
    controller.kill()
    for pod, pool in (("a", "first"), ("b", "second")):
        created = space.create(build_pod(pod, gib=8))
        assert pool_of(created) == pool
        expect_running(bench, pod)
    assert decision_of(created)["lost"] == {"Reserved": ["first"]}
    assert bench.pool("first")["status"]["capacity"]["memoryRequested"] == 0

    bench.operators.restart(controller)
    for pool in ("first", "second"):
        expect_capacity(bench, pool, memoryAllocated=8)
    told = ask(bench, "explain", "pod", "b")
    assert told["decidedThen"]["lost"] == {"Reserved": ["first"]}

    def is_believed() -> bool:
        sent = space.send(build_pod("c", gib=8))
        return (pool_of(sent), decision_of(sent)["lost"]) == ("first", {"LaterName": ["second"]})

    expect(bench, "no room counts as promised any more", is_believed)


def test_cards_that_were_added_are_not_said_to_fit_before_the_extender_restarts(
    sharing: Bench,
) -> None:
    run_pods(sharing, "a", "b", gib=10)
    set_cards(sharing, 4)
    expect_room_after_restart(sharing)
