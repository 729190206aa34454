"""Which rule applies to a node, and what comes next, in each phase and situation.

The pool wants cgpu, with the defaults of its spec; the node changes from share. docs/nodes.md shows
the same rules to users.
"""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from gpushare import names
from gpushare.api.k8s.node import Node
from gpushare.api.k8s.pod import Pod
from gpushare.core.cause import Cause
from gpushare.core.nodechange.phases.labelled import plan_restart
from gpushare.core.records.change_record import ChangePhase, PluginPod
from gpushare.core.records.node_records import parse_records
from gpushare.core.rollout.change_kinds import hash_kinds
from gpushare.core.snapshot.actions import Action, ApplyNode, RecheckPods, RecordPlugins
from gpushare.core.snapshot.cluster import ClusterSnapshot
from gpushare.core.snapshot.node import NodeSnapshot
from gpushare.names import Reason
from tests.kit.values.doc_pages import DOCS, Page
from tests.kit.values.node_plans import (
    INSTALLER,
    a_kind,
    a_settled,
    agreed,
    cordoned,
    done,
    failed,
    has_failed,
    recheck,
    under_way,
    unlabelled,
)
from tests.kit.values.objects import MEMORY, NOW, a_gpu_pod, a_plugin_pod, a_pool, a_snapshot
from tests.unit.planner.planner_output import plan_snapshot

EXPECTED = """
At rest    | nothing       | mode-in-force           | ready    | -
At rest    | pool deleted  |                         | updating | ReleaseNode
At rest    | plugin is new | mode-in-force           | updating | ApplyNode cordon=False: Stable
At rest    | label changed | mode-in-force           | updating | ApplyNode cordon=False: Stable
Stable     | nothing       | start                   | updating | ApplyNode cordon=True: Cordoned
Stable     | uncordoned    | start                   | updating | ApplyNode cordon=True: Cordoned
Stable     | NotReady      | node-not-ready          | waiting  | -
Stable     | pod bound     | workloads-present       | blocked  | -
Stable     | pool deleted  |                         | updating | ReleaseNode
Stable     | pool paused   | paused                  | waiting  | -
Stable     | pool observes | observes                | waiting  | -
Stable     | window closes | start                   | waiting  | -
Stable     | write refused | write-refused           | blocked  | ApplyNode cordon=True: Cordoned
Stable     | plugin is new | plugin-restarted        | updating | ApplyNode cordon=False: Stable
Stable     | label changed | label-drifted           | updating | ApplyNode cordon=False: Stable
Stable     | pool halts    | start                   | waiting  | -
Stable     | plan approved | start                   | updating | ApplyNode cordon=True: Cordoned
Cordoned   | nothing       | recheck-pods            | updating | RecheckPods: Labelled
Cordoned   | uncordoned    | uncordoned-by-user      | updating | ApplyNode cordon=False: Deferred
Cordoned   | NotReady      | node-not-ready          | updating | ApplyNode cordon=False: Stable
Cordoned   | pod bound     | recheck-pods            | updating | RecheckPods: Deferred
Cordoned   | pool deleted  |                         | updating | ApplyNode cordon=False: Stable
Cordoned   | pool paused   | recheck-pods            | updating | RecheckPods: Labelled
Cordoned   | pool observes | observes                | waiting  | -
Cordoned   | window closes | window-closed           | updating | ApplyNode cordon=False: Stable
Cordoned   | write refused | write-refused           | blocked  | RecheckPods: Labelled
Cordoned   | plugin is new | recheck-pods            | updating | RecheckPods: Labelled
Cordoned   | label changed | recheck-pods            | updating | RecheckPods: Labelled
Cordoned   | pool halts    | rollout-halted          | updating | ApplyNode cordon=False: Stable
Cordoned   | plan approved | recheck-pods            | updating | RecheckPods: Labelled
Labelled   | nothing       | restart-needed          | updating | RecordPlugins: Restarting
Labelled   | uncordoned    | labels-or-cordon-undone | updating | ApplyNode cordon=True: Labelled
Labelled   | NotReady      | restart-needed          | updating | RecordPlugins: Restarting
Labelled   | pod bound     | restart-needed          | blocked  | -
Labelled   | pool deleted  | restart-needed          | updating | RecordPlugins: Restarting
Labelled   | pool paused   | restart-needed          | updating | RecordPlugins: Restarting
Labelled   | pool observes | observes                | waiting  | -
Labelled   | window closes | restart-needed          | updating | RecordPlugins: Restarting
Labelled   | write refused | write-refused           | blocked  | RecordPlugins: Restarting
Labelled   | plugin is new | restart-needed          | updating | RecordPlugins: Restarting
Labelled   | label changed | labels-or-cordon-undone | updating | ApplyNode cordon=True: Labelled
Labelled   | pool halts    | restart-needed          | updating | RecordPlugins: Restarting
Labelled   | plan approved | restart-needed          | updating | RecordPlugins: Restarting
Restarting | nothing       | plugin-runs             | updating | DeletePlugins
Restarting | uncordoned    | labels-or-cordon-undone | updating | ApplyNode cordon=True: Restarting
Restarting | NotReady      | plugin-runs             | updating | DeletePlugins
Restarting | pod bound     | plugin-runs             | updating | DeletePlugins
Restarting | pool deleted  | plugin-runs             | updating | DeletePlugins
Restarting | pool paused   | plugin-runs             | updating | DeletePlugins
Restarting | pool observes | observes                | waiting  | -
Restarting | window closes | plugin-runs             | updating | DeletePlugins
Restarting | write refused | write-refused           | blocked  | DeletePlugins
Restarting | plugin is new | verify                  | updating | ApplyNode cordon=False: Stable
Restarting | label changed | labels-or-cordon-undone | updating | ApplyNode cordon=True: Labelled
Restarting | pool halts    | plugin-runs             | updating | DeletePlugins
Restarting | plan approved | plugin-runs             | updating | DeletePlugins
Failed     | nothing       | stays-failed            | failed   | -
Failed     | uncordoned    | uncordoned-by-user      | failed   | ApplyNode cordon=True: Failed
Failed     | NotReady      | stays-failed            | failed   | -
Failed     | pod bound     | stays-failed            | failed   | -
Failed     | pool deleted  |                         | updating | ReleaseNode
Failed     | pool paused   | stays-failed            | failed   | -
Failed     | pool observes | stays-failed            | failed   | -
Failed     | window closes | stays-failed            | failed   | -
Failed     | write refused | stays-failed            | failed   | -
Failed     | plugin is new | recovered               | updating | ApplyNode cordon=False: Stable
Failed     | label changed | stays-failed            | failed   | ApplyNode cordon=True: Failed
Failed     | pool halts    | stays-failed            | failed   | -
Failed     | plan approved | tried-again             | updating | ApplyNode cordon=True: Restarting
"""
"""Phase, situation, rule, state, action with the phase after it. No rule releases a node."""

OLD = PluginPod(name="old", uid="old")
LABELLED = under_way(ChangePhase.LABELLED, restart=True)
RESTARTING = under_way(ChangePhase.RESTARTING, restart=True, plugins=(OLD,))
NODES: dict[str, tuple[Node, *tuple[Pod, ...]]] = {
    "At rest": (done("gpu-1"), a_plugin_pod("plugin-gpu-1"), INSTALLER),
    "Stable": (a_settled(), a_plugin_pod()),  # It waits for its start.
    "Cordoned": (unlabelled(), a_plugin_pod()),
    "Labelled": (cordoned(LABELLED), a_plugin_pod()),
    "Restarting": (cordoned(RESTARTING), a_plugin_pod("old")),
    "Failed": (cordoned(failed(restart=True)), a_plugin_pod("new")),
}
"""By phase, a node and its pods."""
APPROVED = {"approval": "Manual", "approved_plan": hash_kinds([a_kind()])}
CLOSED = {"windows": [{"schedule": "0 22 * * *", "duration": "1h"}]}
DENIED = Cause(Reason.WRITE_REFUSED, "an admission policy denied the write")

Situation = Callable[[ClusterSnapshot], ClusterSnapshot]


def _node(**fields: Any) -> Situation:
    return lambda seen: replace(seen, nodes={"gpu-1": replace(seen.nodes["gpu-1"], **fields)})


def _pool(**spec: Any) -> Situation:
    return lambda seen: replace(seen, pools=(a_pool(**spec),))


def _bind_pod(seen: ClusterSnapshot) -> ClusterSnapshot:
    return replace(seen, pods={"gpu-1": [*seen.pods["gpu-1"], a_gpu_pod()]})


def _restart_plugin(seen: ClusterSnapshot) -> ClusterSnapshot:
    plugin = a_plugin_pod("another", ready_since=NOW - timedelta(minutes=1))
    return _node(allocatable={MEMORY: 15})(replace(seen, pods={"gpu-1": [plugin, INSTALLER]}))


def _change_label(seen: ClusterSnapshot) -> ClusterSnapshot:
    node, key = seen.nodes["gpu-1"], names.LABEL_SCHEDULE
    labels = {**node.labels, key: "default"}
    return _node(labels=labels, owned=node.owned - {key}, managers={key: "terraform"})(seen)


SITUATIONS: dict[str, Situation] = {
    "nothing": lambda seen: seen,
    "uncordoned": _node(unschedulable=False, owns_cordon=False),
    "NotReady": _node(ready=False),
    "pod bound": _bind_pod,
    "pool deleted": _pool(deleting=True, generation=2),
    "pool paused": _pool(reconcile="Paused", generation=2),
    "pool observes": _pool(reconcile="Observe", generation=2),
    "window closes": _pool(rollout=CLOSED),
    "write refused": lambda seen: replace(seen, refusals={"gpu-1": DENIED}),
    "plugin is new": _restart_plugin,
    "label changed": _change_label,
    "pool halts": lambda seen: replace(seen, nodes={**seen.nodes, "gpu-2": has_failed("gpu-2")}),
    "plan approved": _pool(rollout=APPROVED, status=agreed(a_kind()), generation=2),
}
ROWS = [tuple(cell.strip() for cell in row.split("|")) for row in EXPECTED.strip().splitlines()]


@pytest.mark.parametrize(("phase", "situation", "rule", "state", "action"), ROWS)
def test_a_situation_has_its_rule_and_what_comes_next(
    phase: str, situation: str, rule: str, state: str, action: str
) -> None:
    seen = SITUATIONS[situation](_observe(phase))
    planned = plan_snapshot(seen)
    plan = planned.decided.get("gpu-1") or planned.members["training"][0]
    pods = seen.pods["gpu-1"]
    node = NodeSnapshot(seen.nodes["gpu-1"], pods, parse_records(seen.nodes["gpu-1"]))
    own = f"{phase.replace('At rest', 'Stable')}: "
    shown = (plan.rule.removeprefix(own), str(plan.state), _describe(plan.action, node))
    assert shown == (rule, state, action)


def test_the_page_of_nodes_shows_these_rules() -> None:
    phases = list(NODES)[1:]
    rows = Page(DOCS / "nodes.md").find_rows("## What happens when")
    shown = {
        (phase, situation): cell.partition(":")[0].removeprefix("no rule")
        for (_, *cells), situation in zip(rows, SITUATIONS, strict=True)
        for cell, phase in zip(cells, phases, strict=True)
    }
    assert shown == {(phase, what): rule for phase, what, rule, *_ in ROWS if phase in phases}


def _observe(phase: str) -> ClusterSnapshot:
    node, *pods = NODES[phase]
    # The operator wrote the mode's label, so it restores it.
    once = {"initial_values": {names.LABEL_SCHEDULE: None}}
    records = parse_records(node).model_copy(update=once)
    node = replace(node, annotations=records.annotations())
    return a_snapshot(pools=(a_pool(),), nodes=(node,), pods=tuple(pods))


def _describe(action: Action | None, seen: NodeSnapshot) -> str:
    """Name the action, and the phase of the node after it where the action writes the phase."""
    name = type(action).__name__ if action is not None else "-"
    if isinstance(action, RecheckPods):
        action = recheck(seen.node, *seen.pods)
    elif isinstance(action, RecordPlugins):
        action = plan_restart(seen, NOW)
    if not isinstance(action, ApplyNode):
        return name
    change = parse_records(replace(seen.node, annotations=action.annotations)).change
    phase = "Stable" if change is None else "Failed" if change.failure else str(change.phase)
    cordon = f" cordon={action.cordon}" if name == "ApplyNode" else ""
    return f"{name}{cordon}: {phase}"
