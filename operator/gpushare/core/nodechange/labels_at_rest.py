"""The labels and records of a node whose mode is in force."""

from collections.abc import Mapping
from dataclasses import replace

from gpushare import names
from gpushare.api.pool import Pool
from gpushare.core.deviceplugin.findings import NotYet, find_plugin_problem
from gpushare.core.nodechange.blockers import find_pods_of_another_mode
from gpushare.core.nodechange.kernel_module import note_module
from gpushare.core.nodechange.last_applied import update_last_applied
from gpushare.core.nodechange.ongoing_change import build_last_applied
from gpushare.core.ownership.drift import Verdict
from gpushare.core.records.applied_record import LastApplied
from gpushare.core.records.node_records import extend_initial_values
from gpushare.core.snapshot.actions import READY_WITH_WARNING, NodeState, StepResult, build_apply
from gpushare.core.snapshot.effective_mode import describe_unknown
from gpushare.core.snapshot.node import NodeSnapshot, ReconcileContext
from gpushare.editions.edition import Mode
from gpushare.editions.registry import desired_labels
from gpushare.names import Reason


def plan_labels(
    seen: NodeSnapshot,
    pool: Pool,
    mode: Mode,
    verdict: Verdict,
    ctx: ReconcileContext,
    *,
    restart_pending: bool = False,
) -> StepResult:
    """The mode is in force: one apply where a label or a record is missing, else ready.

    Labels that were given up to a rival are left out. With `restart_pending` the
    plugin waits for a user to restart it.
    """
    wanted = desired_labels(pool.name, pool.spec)
    labels = {key: value for key, value in wanted.items() if key not in verdict.given_up}
    if not mode.labels.items() <= seen.node.labels.items() and (
        blocker := find_pods_of_another_mode(mode, seen.pods)
    ):
        return seen.plan(NodeState.BLOCKED, blocker.reason, blocker.message)
    applied: LastApplied | None
    missing: NotYet | None = None
    if restart_pending:
        applied = build_last_applied(seen, pool.name, mode, restart_pending=True)
    else:
        applied, missing = update_last_applied(seen, pool, mode, ctx)
    found = extend_initial_values(seen.records.initial_values, seen.node, frozenset(labels))
    if names.LABEL_PLACEMENT not in wanted:
        # The pool has let go of it: whoever writes it next is no rival.
        found.pop(names.LABEL_PLACEMENT, None)
    is_unknown = seen.records.mode_unknown and (applied is None or bool(applied.mode_unknown))
    records = seen.records.model_copy(
        update={
            "initial_values": found,
            "change": None,
            "applied": applied,
            "drift": verdict.record,
            "mode_unknown": is_unknown,
        }
    )
    noted = note_module(seen, records, mode, ctx)
    # A mode that isolates says as much by itself: nothing is written for that alone.
    needed = records if mode.isolated else noted
    trouble = missing or find_plugin_problem(seen.node, seen.pods, mode, ctx)
    if missing is not None:
        state, reason = NodeState.BLOCKED, missing.reason
        told = f"labelled {mode.schedule}, but {missing.message}"
    elif applied is not None and applied.restart_pending:
        state, reason = NodeState.BLOCKED, Reason.PLUGIN_RESTART_NEEDED
        told = (
            f"labelled {mode.schedule}; {ctx.name_of(mode.plugin)} gives the former mode until it, "
            "or its kubelet, restarts, and devicePlugin.restart is Never: "
            f"{advise_restart(seen, mode)}"
        )
    elif applied is not None and applied.mode_unknown:
        state, reason = NodeState.BLOCKED, Reason.MODE_UNKNOWN
        told = (
            f"{describe_unknown(applied)}; devicePlugin.restart is Never: "
            f"{advise_restart(seen, mode)}"
        )
    elif verdict.fought_over:
        state, reason, told = NodeState.BLOCKED, Reason.LABEL_CONFLICT, verdict.message
    elif trouble is not None and trouble.wait is None:
        state = NodeState.READY if trouble.reason in READY_WITH_WARNING else NodeState.BLOCKED
        reason, told = trouble.reason, trouble.message
    else:
        state, reason, told = NodeState.READY, Reason.APPLIED, "as the pool says"
    # Its change was removed by hand: half-way changed, it must not take pods.
    cordon = seen.node.owns_cordon and missing is not None
    message = "labels put back" if verdict.puts_back else "labels and records are written"
    action = build_apply(seen.node, labels, noted, cordon=cordon, message=message)
    if _is_settled(seen, action.labels, needed.annotations(), cordon=cordon):
        wait = trouble.wait.total_seconds() if trouble is not None and trouble.wait else None
        return replace(seen.plan(state, reason, told), requeue_after_seconds=wait)
    why = Reason.DRIFT_REVERTED if verdict.puts_back else Reason.UPDATING
    return seen.plan(NodeState.UPDATING, why, message, action)


def advise_restart(seen: NodeSnapshot, mode: Mode) -> str:
    """What a person does so that the plugin reads its labels."""
    pods = sorted((p.namespace, p.name) for p in seen.pods if p.daemonset == mode.plugin)
    if not pods:
        return "delete its pod on this node"
    return "; ".join(f"kubectl -n {namespace} delete pod {name}" for namespace, name in pods)


def _is_settled(
    seen: NodeSnapshot,
    labels: Mapping[str, str],
    annotations: Mapping[str, str],
    *,
    cordon: bool,
) -> bool:
    """Whether exactly this is on the node and ours."""
    node = seen.node
    return (
        labels.items() <= node.labels.items()
        and labels.keys() | annotations.keys() == node.owned
        and annotations == dict(node.annotations)
        and node.owns_cordon is cordon
    )
