"""Plans the labels of a node whose mode is in force, and the record of that mode."""

from datetime import timedelta

from gpushare import names
from gpushare.core.cause import Cause
from gpushare.core.deviceplugin.findings import find_plugin_problem
from gpushare.core.deviceplugin.verification import verify_mode
from gpushare.core.nodechange.blockers import find_pods_of_another_mode
from gpushare.core.nodechange.configuration import has_doubtful_pods
from gpushare.core.nodechange.kernel_module import note_module
from gpushare.core.nodechange.label_restoration import LABELS_RESTORED, report_conflict
from gpushare.core.nodechange.member_step import MemberStep
from gpushare.core.records.applied_record import LastApplied
from gpushare.core.records.change_record import Change
from gpushare.core.records.node_records import NodeRecords, extend_initial_values
from gpushare.core.snapshot.actions import (
    READY_WITH_WARNING,
    ApplyNode,
    NodeState,
    Verdict,
    build_apply,
)
from gpushare.core.snapshot.admissions import find_admissions, write_admissions
from gpushare.core.snapshot.change_policy import build_attempt
from gpushare.core.snapshot.node import NodeSnapshot, ReconcileContext
from gpushare.core.snapshot.plugin_reading import describe_unknown, running_plugins
from gpushare.editions.edition import Mode
from gpushare.editions.registry import EDITIONS, desired_labels
from gpushare.names import Reason


def update_last_applied(step: MemberStep) -> tuple[LastApplied | None, Cause | None]:
    """Return the record `applied` for a node whose labels are right, and what the mode still lacks.

    A mode is recorded only once it is verified. A plugin that starts under the right labels reads
    them, so it is recorded: later drift that no plugin has read can then be told from drift that
    one has.
    """
    seen, pool, mode = step.seen, step.pool, step.wanted
    missing, reading = verify_mode(seen, mode, step.ctx), seen.reading
    known = reading.applied if reading is not None and reading.applied.is_of(mode) else None
    # The plugin needed a restart, and another process of it has read the operator's labels.
    is_known_again = reading is not None and reading.is_replaced and not reading.is_unknown
    if known is None or (known.needs_restart and is_known_again):
        if missing is not None:
            # The former mode stays recorded until this one is verified.
            return seen.records.applied, missing
        applied = build_last_applied(seen, pool.name, mode)
        # The same plugin serves both modes, and may have started before somebody wrote the label.
        unknown = known is None and reading is not None and reading.shares_plugin(mode)
        # A cordon of ours without any record is of a change that had begun.
        is_marked = seen.records.mode_unknown or seen.node.owns_cordon
        unknown = unknown or (reading is None and is_marked and mode.depends_on_label)
        return applied.model_copy(update={"mode_unknown": True if unknown else None}), None
    changes: dict[str, object] = {"pool": pool.name}
    if known.pool != pool.name:
        changes["joined_at"] = None
    if known.failure and known.failure.attempt != build_attempt(pool, seen.node.retry):
        # Else the failure would halt the pool again once the retry annotation is removed.
        changes["failure"] = None
    changes |= note_readings(seen, step.ctx)
    # A verified mode is not recorded again, but it is reported when it no longer holds.
    return known.model_copy(update=changes), None if known.restart_pending else missing


def note_readings(
    seen: NodeSnapshot, ctx: ReconcileContext, *, stays: bool = False
) -> dict[str, object]:
    """Return the updates of the mode's record by the labels that its plugin has read, or may have.

    The write that goes out restores the labels of the mode, unless a foreign one `stays`. For a
    plugin that is observed only later it is unknown which label it has read. A pod that is Running
    now was admitted before the write; of other pods only those recorded before are recorded.
    """
    reading = seen.reading
    assert reading is not None
    is_unknown = seen.is_mode_unsaved and reading.applied.mode.depends_on_label
    is_unknown = is_unknown or reading.may_have_misread(ctx.is_brief, stays=stays)
    is_unknown = is_unknown or has_doubtful_pods(seen, ctx)
    if is_unknown or reading.is_replaced:
        return {
            "plugins": reading.running,
            "boot_id": seen.node.boot_id,
            "mode_unknown": True if is_unknown else None,
            "reverted": reading.reverted if is_unknown else None,
            **write_admissions(find_admissions(seen)),
        }
    if not reading.is_ours and not stays:
        kept = {pod.uid for pod in seen.pods if pod.phase == "Running"} | {*reading.applied.before}
        admissions = find_admissions(seen, ctx.is_brief)
        admissions = {uid: mode for uid, mode in admissions.items() if uid in kept}
        return {"reverted": reading.reverted, **write_admissions(admissions)}
    if not stays and reading.applied.reverted and find_unknown_mode_wait(seen, ctx) is None:
        return {"reverted": None}
    return {}


def update_readings(
    seen: NodeSnapshot, ctx: ReconcileContext, *, stays: bool = False, **update: object
) -> NodeRecords:
    """Return the records with `update`, the labels that the plugin may have read, and the module
    that these may have loaded (`note_readings`)."""
    if (applied := seen.records.applied) is None:
        return seen.records.model_copy(update=update)
    applied = applied.model_copy(update=note_readings(seen, ctx, stays=stays))
    records = seen.records.model_copy(update={**update, "applied": applied})
    return note_module(seen, records, applied.mode, ctx)


def find_unknown_mode_wait(seen: NodeSnapshot, ctx: ReconcileContext) -> timedelta | None:
    """Return how long a plugin may still turn out to have started before labels were restored.

    None where that time has passed, or no foreign label was restored.
    """
    applied, drift = seen.records.applied, seen.records.drift
    if applied is None or applied.reverted is None or drift is None or not drift.writes:
        return None
    left = max(drift.writes) + ctx.timing.settle - ctx.now
    # A time further off was written by a clock that is ahead.
    return left if timedelta() < left <= ctx.timing.settle else None


def build_last_applied(
    seen: NodeSnapshot,
    pool: str,
    mode: Mode,
    *,
    restart_pending: bool = False,
    change: Change | None = None,
) -> LastApplied:
    """Build the record of a mode that is in force, reached by `change` if any was needed.

    With `restart_pending` the labels are written, but the plugin has not read them yet.
    """
    # A node that joins takes no capacity away: it is no canary, and fails alone.
    proof = change if change is not None and not change.initializing else None
    former, lacking = seen.records.applied, seen.records.lacking_cards
    if restart_pending and not (former is not None and former.restart_pending):
        lacking = EDITIONS[mode.edition].count_lacking_cards(seen.node) or lacking
    applied = LastApplied(
        node_uid=seen.node.uid,
        pool=pool,
        edition=mode.edition,
        schedule=mode.schedule,
        boot_id=seen.node.boot_id,
        plugins=running_plugins(seen.pods, mode),
        restart_pending=restart_pending,
        from_mode=proof.from_mode if proof is not None else None,
        joined_at=former.joined_at if former is not None and former.pool == pool else None,
        failure=(proof.failure or proof.rolls_back) if proof is not None else None,
        lacking_cards=lacking or None,
    )
    return applied.model_copy(update=write_admissions(find_admissions(seen)))


def plan_labels(step: MemberStep, *, restart_pending: bool = False) -> Verdict:
    """Plan a node whose mode is in force: an apply if a label or a record is missing, else none.

    Labels that were given up to another manager are left out. With `restart_pending` a user has
    yet to restart the plugin.
    """
    seen, mode, drift = step.seen, step.wanted, step.drift
    if not mode.labels.items() <= seen.node.labels.items() and (
        blocker := find_pods_of_another_mode(mode, seen.pods)
    ):
        message = step.add_cordon(blocker.message, None)
        return Verdict(NodeState.BLOCKED, blocker.reason, message)
    applied, missing = (
        (build_last_applied(seen, step.pool.name, mode, restart_pending=True), None)
        if restart_pending
        else update_last_applied(step)
    )
    if seen.node.owns_cordon:
        # The change's record is gone, and another controller may rely on the cordon.
        missing = missing or seen.maintenance
    # The change's record was removed by hand: a node changed half-way must not take pods.
    is_doubtful = missing is not None or (applied is not None and bool(applied.mode_unknown))
    action = _find_write(step, applied, cordon=seen.node.owns_cordon and is_doubtful)
    if action is None:
        trouble = missing or find_plugin_problem(seen, mode, step.ctx)
        state, cause = _judge_mode(step, applied, missing, trouble)
        wait = trouble.wait if trouble is not None else None
        message = step.add_cordon(cause.message, None)
        return Verdict(state, cause.reason, message, requeue_after=wait)
    if drift.conflicts:
        return report_conflict(drift, action)
    why = Reason.DRIFT_REVERTED if drift.reverts else Reason.UPDATING
    return step.updating(why, action.message, action)


def _find_write(step: MemberStep, applied: LastApplied | None, *, cordon: bool) -> ApplyNode | None:
    """Find the write of labels and records that the node lacks; None where it has exactly these."""
    seen, node, mode, drift = step.seen, step.seen.node, step.wanted, step.drift
    wanted = desired_labels(step.pool.name, step.pool.spec)
    labels = {key: value for key, value in wanted.items() if key not in drift.given_up}
    initial = extend_initial_values(seen.records.initial_values, node, frozenset(labels))
    if names.LABEL_PLACEMENT not in wanted:
        # The pool has given the label up: a manager that writes it next conflicts with nothing.
        initial.pop(names.LABEL_PLACEMENT, None)
    is_unknown = seen.records.mode_unknown and (applied is None or bool(applied.mode_unknown))
    records = seen.records.model_copy(
        update={
            "initial_values": initial,
            "change": None,
            "applied": applied,
            "drift": drift.record,
            "mode_unknown": is_unknown,
        }
    )
    noted = note_module(seen, records, mode, step.ctx)
    message = LABELS_RESTORED if drift.reverts else "Labels and records are written"
    action = build_apply(node, labels, noted, cordon=cordon, message=message)
    # An isolating mode implies the module: nothing is written for its record alone.
    annotations = records.annotations() if mode.isolated else action.annotations
    is_settled = (
        action.labels.items() <= node.labels.items()
        and action.labels.keys() | annotations.keys() == node.owned
        and annotations == dict(node.annotations)
        and node.owns_cordon is cordon
    )
    return None if is_settled else action


def _judge_mode(
    step: MemberStep, applied: LastApplied | None, missing: Cause | None, trouble: Cause | None
) -> tuple[NodeState, Cause]:
    """Judge a node that has all labels and records: `missing` is what the mode lacks, `trouble`
    that, or a problem of its plugin."""
    seen, mode, ctx = step.seen, step.wanted, step.ctx
    if missing is not None:
        return NodeState.BLOCKED, missing
    if applied is not None and applied.restart_pending:
        status = (
            f"DaemonSet {ctx.name_of(mode.plugin)} serves the former mode until its pod restarts "
            f"(devicePlugin.restart is Never). {advise_restart(seen, mode)}"
        )
        return NodeState.BLOCKED, Cause(Reason.PLUGIN_RESTART_NEEDED, status)
    if applied is not None and applied.mode_unknown:
        advice = f"{advise_restart(seen, mode)}. "
        unknown = describe_unknown(ctx.name_of(mode.plugin), advice)
        status = f"{unknown}. devicePlugin.restart is Never"
        return NodeState.BLOCKED, Cause(Reason.MODE_UNKNOWN, status)
    if step.drift.conflicts:
        return NodeState.BLOCKED, Cause(Reason.LABEL_CONFLICT, step.drift.message)
    if trouble is not None and trouble.wait is None:
        warns = trouble.reason in READY_WITH_WARNING
        return NodeState.READY if warns else NodeState.BLOCKED, trouble
    return NodeState.READY, Cause(Reason.APPLIED, "The node is as its pool specifies")


def advise_restart(seen: NodeSnapshot, mode: Mode) -> str:
    """Return instructions that make the plugin read its labels while the node takes no pods."""
    node = seen.node.name
    pods = sorted((p.namespace, p.name) for p in seen.pods if p.daemonset == mode.plugin)
    if not pods:
        return "Cordon the node, and delete the plugin's pod on it"
    deletes = " && ".join(f"kubectl -n {space} delete pod {name}" for space, name in pods)
    return (
        f"Run `kubectl cordon {node} && {deletes}`, and when the new pod is Ready "
        f"`kubectl uncordon {node}`"
    )
