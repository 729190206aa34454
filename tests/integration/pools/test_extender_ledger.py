"""What the operator says of pods and ledgers that the scheduler extender counts its own way, behind
the real kube-scheduler. Seen beside the extender itself before it was put into the simulator."""

from typing import Any

import pytest

from devcluster import names
from devcluster.installation import OperatorProcess
from tests.integration.pools.shared_node import (
    SENT,
    ask,
    expect_memory,
    list_cards,
    list_codes,
    list_rejections,
    run_pods,
    set_cards,
    share_cards,
)
from tests.kit.bench import PODS, Bench
from tests.kit.cluster.expect import (
    expect,
    expect_capacity,
    expect_pool_ready,
    expect_reason,
    expect_running,
    find_condition,
    read_events,
)
from tests.kit.cluster.namespaces import default_namespace
from tests.kit.cluster.pod_admission import decision_of, expect_known, pool_of
from tests.kit.values.manifests import IMAGE, build_container, build_pod, build_pool

Json = dict[str, Any]


@pytest.fixture
def sharing(bench: Bench, operator: OperatorProcess) -> Bench:
    """A pool of one node with two cards of 15 GiB."""
    share_cards(bench)
    return bench


def expect_waiting(bench: Bench, pod: str, reason: str) -> Json:
    """What `explain pod` says, once the pod waits for this reason."""

    def probe() -> Json | None:
        told = ask(bench, "explain", "pod", pod)
        return told if (told["waits"] or {}).get("reason") == reason else None

    return expect(bench, f"{pod} waits by {reason}", probe)


# Which containers ask.


def test_a_pod_whose_init_containers_alone_ask_is_told_that_the_extender_never_binds_it(
    sharing: Bench,
) -> None:
    asking = build_container("asks", memory="4") | {"image": IMAGE}
    sharing.create_pod(build_pod("p", gib=None, selects=SENT, initContainers=[asking]))
    (event,) = expect(
        sharing, "it has an Event", lambda: read_events(sharing, sharing.pod("p"), "Unschedulable")
    )
    assert "HTTP 500" in event["note"]
    assert list_rejections(expect_waiting(sharing, "p", "Unschedulable")) == [["NoContainerAsks"]]
    (waiting,) = ask(sharing, "inspect", "--pools")["waiting"]
    assert (waiting["name"], waiting["reason"], waiting["requested"]) == ("p", "Unschedulable", 4)
    expect_memory(sharing, 0, 4, largest=15)


# Annotations that somebody edits.


def test_a_card_that_a_tenant_made_up_counts_nowhere_and_leaves_the_node_ready(
    sharing: Bench,
) -> None:
    run_pods(sharing, "a", gib=8)
    sharing.annotate(f"{PODS}/a", {names.MEM_IDX: "7"})
    sample = expect_reason(sharing, "n1", "ExtenderStale")
    assert "default/a" in sample["message"]
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
    assert list_codes(sharing)["ExtenderStale"] == ("warning", "node n1")


def test_units_that_the_extender_keeps_of_a_pod_that_is_gone_are_told(sharing: Bench) -> None:
    run_pods(sharing, "a")
    sharing.annotate(f"{PODS}/a", {names.MEM_IDX: "1"})
    sharing.delete_pod("a")
    run_pods(sharing, "b")
    expect_memory(sharing, 10, 10, largest=15)
    assert list_cards(sharing) == {0: (15, {}), 1: (15, {"default/b": 10})}
    sharing.create_pod(build_pod("late", gib=10, selects=SENT))
    told = expect_waiting(sharing, "late", "ExtenderStale")
    assert list_rejections(told) == [["ExtenderStale"]]
    assert "rollout restart" in told["smallestChange"]

    sharing.cluster.restart_extender()
    sharing.delete_pod("late")
    run_pods(sharing, "again")
    assert list_cards(sharing)[0] == (15, {"default/again": 10})


# A node that loses cards.


def test_a_pod_on_a_card_that_was_taken_out_is_told_on_its_node(
    bench: Bench, operator: OperatorProcess
) -> None:
    share_cards(bench, 4)
    run_pods(bench, "a", "b", gib=8)
    set_cards(bench, 2)
    # The extender remembers four cards, and the third is the first that is empty.
    run_pods(bench, "late", gib=8)
    sample = expect_reason(bench, "n1", "ExtenderStale")
    assert "default/late" in sample["message"]
    expect_memory(bench, 16, 24, largest=6)
    assert list_cards(bench)[2] == (0, {"default/late": 8})
    assert bench.pool()["status"]["capacity"]["gpus"] == 2
    assert list_codes(bench)["ExtenderStale"] == ("warning", "node n1")

    bench.delete_pod("late")
    bench.cluster.restart_extender()
    run_pods(bench, "again", gib=7)
    expect_memory(bench, 23, 23, largest=7)
    assert sorted(list_cards(bench)) == [0, 1]
    assert "ExtenderStale" not in list_codes(bench)


# Room that was promised.


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
