"""The scheduler extender away, or wrong about a node, behind the real kube-scheduler."""

import json
from pathlib import Path
from typing import Any

import pytest

from devcluster import names
from devcluster.installation import OperatorProcess
from tests.kit.bench import NODES, PODS, Bench
from tests.kit.builders import build_pod, build_pool
from tests.kit.commandline import run_command
from tests.kit.expect import expect, expect_pool_ready, expect_running
from tests.kit.operator import read_metric
from tests.kit.ownscheduler import scheduled_by
from tests.kit.told import read_events

Json = dict[str, Any]

NOWHERE = "http://127.0.0.1:9"
"""The port `discard`, on which nobody listens."""
SENT = {"gpushare.io/pool": "training"}


@pytest.fixture
def sharing(bench: Bench, operator: OperatorProcess) -> Bench:
    """An open-source pool of one node with two cards."""
    bench.install("OpenSource")
    bench.add_nodes("n1", cards=2)
    bench.create_pool(build_pool(edition="OpenSource"))
    expect_pool_ready(bench, nodes=1)
    return bench


def ask(bench: Bench, *arguments: str) -> Json:
    ended = run_command(*arguments, "-o", "json", kubeconfig=bench.cluster.kubeconfig)
    document: Json = json.loads(ended.out)
    return document


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
        counted = read_metric(operator, "gpushare_unplaced_pods", reason="SchedulerUnavailable")
        assert counted == 1
        findings = ask(sharing, "doctor")["findings"]
        (found,) = [each for each in findings if each["code"] == "SchedulerUnavailable"]
        assert (found["severity"], NOWHERE in found["message"]) == ("error", True)
        told = ask(sharing, "explain", "pod", "waits")
        assert told["waits"]["reason"] == "SchedulerUnavailable"
        assert [node["fits"] for node in told["nodes"]] == [False]


def set_cards(bench: Bench, cards: int) -> None:
    """Other cards in the node, as after it was shut down for it: its plugin counts them anew."""
    notes: Json = {"metadata": {"annotations": {names.CARDS: str(cards)}}}
    bench.call("PATCH", f"{NODES}/n1", notes)
    (plugin,) = bench.plugins().values()
    path = f"/api/v1/namespaces/kube-system/pods/{plugin['metadata']['name']}"
    bench.call("PATCH", path, {"metadata": {"annotations": {names.RESTART: "1"}}})
    expect(
        bench,
        f"{cards} cards are offered",
        lambda: bench.node("n1")["status"]["allocatable"].get(names.GPU_MEM) == str(15 * cards),
        within_seconds=60,
    )


def run_pods(bench: Bench, *pods: str) -> None:
    for pod in pods:
        bench.create_pod(build_pod(pod, gib=10, selects=SENT))
        expect_running(bench, pod)


def test_cards_that_were_added_are_not_said_to_fit_before_the_extender_restarts(
    sharing: Bench,
) -> None:
    run_pods(sharing, "a", "b")
    set_cards(sharing, 4)
    sharing.create_pod(build_pod("late", gib=10, selects=SENT))

    def explain() -> Json | None:
        told = ask(sharing, "explain", "pod", "late")
        return told if (told["waits"] or {}).get("reason") == "ExtenderStale" else None

    told = expect(sharing, "explain says why the pod waits", explain)
    assert [[each["reason"] for each in node["obstacles"]] for node in told["nodes"]] == [
        ["ExtenderStale"]
    ]
    assert "rollout restart" in told["smallestChange"]

    sharing.cluster.restart_extender()
    sharing.delete_pod("late")
    run_pods(sharing, "again")


def test_a_pod_on_a_card_that_was_taken_out_is_told_on_its_node(sharing: Bench) -> None:
    run_pods(sharing, "a", "b")
    moved = {"metadata": {"annotations": {names.MEM_IDX: "2"}}}
    sharing.call("PATCH", f"{PODS}/b", moved)

    def told() -> Json | None:
        samples = sharing.pool()["status"].get("samples") or [{}]
        return samples[0] if samples[0].get("reason") == "ExtenderStale" else None

    sample = expect(sharing, "the pool's status names the node", told)
    assert (sample["node"], "default/b" in sample["message"]) == ("n1", True)
    codes = {each["code"]: each["object"] for each in ask(sharing, "doctor")["findings"]}
    assert codes["ExtenderStale"] == "node n1"
