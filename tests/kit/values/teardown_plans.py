"""Builds nodes in their teardown with their Jobs, and plans for them."""

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from gpushare.api.k8s.job import Job, JobState
from gpushare.api.k8s.node import Node
from gpushare.api.k8s.pod import Pod
from gpushare.api.pool import Pool, Schedule
from gpushare.core.nodechange.phases.teardown import name_job
from gpushare.core.records.change_record import Change, ChangePhase, Teardown
from gpushare.core.records.node_records import NodeRecords, parse_records
from gpushare.core.snapshot.actions import JobPhase, NodePlan
from tests.kit.values import node_plans
from tests.kit.values.node_plans import (
    CGPU,
    OURS,
    SHARE,
    applied,
    expect_apply,
    expect_change,
    plan_of,
    under_way,
    written,
)
from tests.kit.values.objects import MEMORY, NOW, a_node, a_plugin_pod, a_pool

LONG_AFTER = NOW + timedelta(days=3)
"""A time after any deadline."""
PLUGIN = a_plugin_pod("plugin-1")


def manual_pool(**more: Any) -> Pool:
    """Build a pool in mode share with a manual teardown."""
    return a_pool(schedule="share", **more)


def job_pool(reboot: str = "Manual", **more: Any) -> Pool:
    """Build a pool in mode share with a teardown by Jobs."""
    teardown = {"policy": "Job", "reboot": reboot}
    return a_pool(schedule="share", isolation_teardown=teardown, **more)


def a_teardown(
    phase: ChangePhase, attempt: int = 1, *, not_ready: bool = False, **more: Any
) -> NodeRecords:
    """Build the records of a node that changes from cgpu to share, labelled at NOW in boot-1."""
    way = {
        "from_mode": Schedule.CGPU,
        "to": Schedule.SHARE,
        "boot_id": None if phase is ChangePhase.CORDONED else "boot-1",
        "teardown": Teardown(attempt=attempt, not_ready=True if not_ready else None),
    }
    change = under_way(phase, **{**way, **more}).change
    return applied(Schedule.CGPU).model_copy(update={"change": change})


def teardown_node(
    phase: ChangePhase, *, boot: str = "boot-1", records: NodeRecords | None = None, **more: Any
) -> Node:
    """Build a cordoned node in this phase, which offers its resource."""
    labels = CGPU if phase is ChangePhase.CORDONED else SHARE
    values: dict[str, Any] = {
        "unschedulable": True,
        "owns_cordon": True,
        "allocatable": {MEMORY: 15},
        **more,
    }
    node = a_node(labels={**labels, **OURS}, records=records or a_teardown(phase), **values)
    return replace(node, boot_id=boot)


def a_job(
    node: Node,
    phase: JobPhase,
    state: JobState = JobState.RUNNING,
    message: str = "",
    *,
    leaves_sentinel: bool = False,
) -> Job:
    change = change_of(node)
    name = name_job(node, change, phase)
    made = Job("gpushare-teardown", name, f"uid-of-{name}", node.name, state, message)
    return replace(made, args=(phase, "sentinel") if leaves_sentinel else (phase,))


def change_of(node: Node) -> Change:
    return node_plans.change_of(parse_records(node))


def plan_teardown(
    node: Node,
    pool: Pool,
    *jobs: Job,
    pods: Iterable[Pod] = (PLUGIN,),
    now: datetime = NOW,
    may_tear_down: bool = True,
) -> NodePlan:
    """Plan a node, and check that a second plan is equal."""
    plans = [
        plan_of(node, pool, *pods, jobs=jobs, now=now, may_tear_down=may_tear_down)
        for _ in range(2)
    ]
    assert plans[0] == plans[1]
    return plans[0]


def write(node: Node, plan: NodePlan) -> Node:
    """Return the node after the plan's write; labels of others stay."""
    return written(node, plan.action)


def expect_written(plan: NodePlan) -> Change:
    """Return the change in the plan's write, and check that the cordon stays."""
    assert expect_apply(plan).cordon
    return expect_change(plan)
