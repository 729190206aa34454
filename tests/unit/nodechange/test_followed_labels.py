"""What NVIDIA's plugin has followed beside the operator's label, and the pods that came then."""

from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from gpushare import names
from gpushare.api.k8s.node import Node
from gpushare.api.k8s.pod import Pod
from gpushare.core.nodechange.releasing import plan_release
from gpushare.core.records.applied_record import LastApplied
from gpushare.core.records.drift_record import Drift, DriftRevert
from gpushare.core.records.node_records import parse_records
from gpushare.core.snapshot.actions import ApplyNode, NodeState
from gpushare.core.snapshot.node import NodeSnapshot, ReconcileContext
from gpushare.names import Reason
from tests.kit.values.configurations import (
    EDITED,
    GPU,
    HOLDER,
    KEY,
    PODS,
    SLICES,
    context,
    member,
    node,
    step,
)
from tests.kit.values.node_plans import seconds_to_next
from tests.kit.values.objects import NOW, a_gpu_pod


def drifted(age: timedelta | None) -> Node:
    """A member whose label somebody changed so long ago; None: they took it away."""
    found = member()
    labels = {**found.labels, KEY: "b"}
    if age is None:
        del labels[KEY]
    return replace(
        found,
        labels=labels,
        owned=found.owned - {KEY},
        written_at={KEY: NOW - age} if age is not None else {},
    )


def test_a_label_that_was_changed_a_moment_ago_is_put_back() -> None:
    plan = step(drifted(timedelta(seconds=3)), HOLDER)
    assert isinstance(plan.action, ApplyNode)
    assert plan.action.labels[KEY] == "a"
    assert seconds_to_next(plan) is not None


@pytest.mark.parametrize("age", [timedelta(hours=1), None], ids=["long ago", "nobody knows when"])
def test_what_the_plugin_followed_for_a_while_is_left_without_pods(age: timedelta | None) -> None:
    plan = step(drifted(age), HOLDER)
    assert (plan.reason, plan.action) == (Reason.WORKLOADS_PRESENT, None)
    assert KEY in plan.message


@pytest.mark.parametrize("age", [timedelta(hours=1), None], ids=["long ago", "nobody knows when"])
def test_a_label_is_put_back_on_a_node_without_pods_however_long_it_was_another(
    age: timedelta | None,
) -> None:
    plan = step(drifted(age))
    assert isinstance(plan.action, ApplyNode)
    assert plan.action.labels[KEY] == "a"


def test_a_label_that_another_client_put_back_is_one_that_pods_came_beside() -> None:
    found = member()
    found = replace(found, owned=found.owned - {KEY}, managers={KEY: "kubectl-label"})
    assert step(found, HOLDER).reason is Reason.WORKLOADS_PRESENT
    assert isinstance(step(found).action, ApplyNode)


def mark(found: Node, *pods: Pod, ctx: ReconcileContext | None = None) -> Node:
    """The node after the operator has written on it that pods may hold other devices, and nothing
    else."""
    plan = step(found, *pods, ctx=ctx)
    assert isinstance(plan.action, ApplyNode)
    written = LastApplied.model_validate_json(plan.action.annotations["gpushare.io/applied"])
    assert written.mode_unknown
    return replace(found, annotations=plan.action.annotations)


def reverted(at: datetime) -> Node:
    """A member whose label the operator put back then."""
    records = parse_records(member())
    drift = Drift(reverts=(DriftRevert(key=KEY, manager="kubectl", theirs="b", at=at),))
    return node({**member().labels}, records=records.model_copy(update={"drift": drift}))


def started(at: datetime) -> Pod:
    return a_gpu_pod(requests={GPU: 1}, started=at)


@pytest.mark.parametrize("after", [timedelta(seconds=-12), timedelta(seconds=2)])
def test_pods_that_came_while_a_label_was_put_back_must_go(after: timedelta) -> None:
    at = NOW - timedelta(minutes=5)
    pod = started(at + after)
    marked = mark(reverted(at), pod)
    assert step(marked, pod).reason is Reason.WORKLOADS_PRESENT
    assert step(marked).verdict.start is not None


def test_pods_that_came_while_the_plugin_offered_what_was_edited_must_go() -> None:
    pod = started(NOW)
    shown = replace(member(), allocatable={GPU: 16})
    restored = replace(mark(shown, pod, ctx=context(EDITED)), allocatable={GPU: 8})
    assert step(restored, pod).reason is Reason.WORKLOADS_PRESENT


@pytest.mark.parametrize("text", [EDITED, SLICES], ids=["edited", "restored, but still loaded"])
def test_whatever_the_plugin_offers_more_says_that_pods_came_with_it(text: str) -> None:
    mark(replace(member(), allocatable={GPU: 16}), started(NOW), ctx=context(text))


def test_edited_content_that_offers_less_is_told_by_what_is_offered() -> None:
    mark(replace(member(), allocatable={GPU: 2}), started(NOW), ctx=context("version: v1\n"))


def test_a_label_is_not_put_back_where_its_key_says_something_else_now() -> None:
    plan = step(drifted(timedelta(hours=1)), ctx=context(EDITED))
    assert plan.verdict.start is not None


def test_no_doubt_outlives_a_boot() -> None:
    pod = started(NOW - timedelta(minutes=5))
    marked = replace(mark(reverted(NOW - timedelta(minutes=5)), pod), boot_id="another")
    assert step(marked, started(NOW)).reason is not Reason.WORKLOADS_PRESENT


def test_a_node_whose_pods_may_hold_other_devices_is_marked_when_it_is_released() -> None:
    found = member()
    theirs = replace(found, owned=found.owned - {KEY}, managers={KEY: "kubectl-label"})
    for doubtful in (drifted(None), theirs):
        seen = NodeSnapshot(doubtful, (*PODS, HOLDER), parse_records(doubtful))
        plan = plan_release(seen, None, context())
        assert plan is not None
        assert isinstance(plan.action, ApplyNode)
        assert names.ANNOTATION_MODE_UNKNOWN in plan.action.annotations


@pytest.mark.parametrize(
    ("found", "text", "at"),
    [
        (replace(member(), allocatable={GPU: 16}), EDITED, NOW - timedelta(days=1)),
        (
            replace(reverted(NOW - timedelta(seconds=3)), allocatable={GPU: 16}),
            SLICES,
            NOW + timedelta(seconds=20),
        ),
        (replace(member(), allocatable={GPU: 4}), EDITED, NOW),
        (member(**{f"{GPU}.replicas": "8"}), EDITED, NOW),
    ],
    ids=["before the plugin", "a label was put back", "unhealthy card", "discovery restarted"],
)
def test_pods_stay_that_no_other_configuration_admitted(
    found: Node, text: str, at: datetime
) -> None:
    assert step(found, started(at), ctx=context(text)).action is None


def test_pods_that_came_before_or_after_a_label_was_put_back_stay() -> None:
    at = NOW - timedelta(minutes=5)
    for moment in (at - timedelta(minutes=1), at + timedelta(minutes=1)):
        assert step(reverted(at), started(moment)).state is NodeState.READY
