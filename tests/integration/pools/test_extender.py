"""The scheduler extender away, or wrong about a node, behind the real kube-scheduler."""

from pathlib import Path
from typing import Any

import pytest

from devcluster.installation import OperatorProcess
from tests.integration.pools.shared_node import (
    SENT,
    ask,
    list_rejections,
    run_pods,
    set_cards,
    share_cards,
)
from tests.kit.bench import Bench
from tests.kit.cluster.command_line import run_command
from tests.kit.cluster.expect import expect, read_events
from tests.kit.cluster.operator_processes import read_metric
from tests.kit.cluster.scheduler import scheduled_by
from tests.kit.values.manifests import build_pod

Json = dict[str, Any]

NOWHERE = "http://127.0.0.1:9"
"""The port `discard`, on which nobody listens."""


@pytest.fixture
def sharing(bench: Bench, operator: OperatorProcess) -> Bench:
    """An open-source pool of one node with two cards."""
    share_cards(bench)
    return bench


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
        findings = ask(sharing, "doctor")["findings"]
        (found,) = [each for each in findings if each["code"] == "SchedulerUnavailable"]
        assert (found["severity"], NOWHERE in found["message"]) == ("error", True)
        told = ask(sharing, "explain", "pod", "waits")
        assert told["waits"]["reason"] == "SchedulerUnavailable"
        assert [node["fits"] for node in told["nodes"]] == [False]


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
    assert list_rejections(told) == [["ExtenderStale"]]
    assert "rollout restart" in told["smallestChange"]

    sharing.cluster.restart_extender()
    sharing.delete_pod("late")
    run_pods(sharing, "again")
