"""The labels and records of a node whose mode is in force."""

from collections.abc import Mapping

from gpushare import names
from gpushare.api.pool import Pool, Schedule
from gpushare.core.actions import NodePlan, NodeState, build_apply
from gpushare.core.admitted import record_admissions, write_admissions
from gpushare.core.blockers import Blocker, find_pods_of_another_mode
from gpushare.core.change import build_applied, may_have_module, owned_labels
from gpushare.core.drift import Verdict
from gpushare.core.inforce import running_plugins
from gpushare.core.modes import MODES, Mode, desired_labels
from gpushare.core.observed import Observed
from gpushare.core.policy import build_attempt
from gpushare.core.records import Applied, extend_found
from gpushare.core.verify import find_missing_whole_card, verify_mode
from gpushare.names import Reason


def plan_labels(
    seen: Observed,
    pool: Pool,
    mode: Mode,
    verdict: Verdict,
    *,
    awaits_restart: bool = False,
    serves: Schedule | None = None,
) -> NodePlan:
    """The mode is in force: one apply where a label or a record is missing, else ready.

    Labels that were given up to a rival are left out. Where the plugin `awaits_restart`, by a
    person, it `serves` another mode until then.
    """
    wanted = desired_labels(pool.name, pool.spec)
    labels = {key: value for key, value in wanted.items() if key not in verdict.given_up}
    if not mode.labels.items() <= seen.node.labels.items() and (
        blocker := find_pods_of_another_mode(mode, seen.pods)
    ):
        return seen.plan(NodeState.BLOCKED, blocker.reason, blocker.message)
    applied, missing = _update_applied(
        seen, pool, mode, awaits_restart=awaits_restart, serves=serves
    )
    found = extend_found(seen.records.found, seen.node, frozenset(labels))
    if names.LABEL_PLACEMENT not in wanted:
        # The pool has let go of it: whoever writes it next is no rival.
        found.pop(names.LABEL_PLACEMENT, None)
    records = seen.records.model_copy(
        update={"found": found, "change": None, "applied": applied, "drift": verdict.record}
    )
    if missing is not None:
        state, reason = NodeState.BLOCKED, missing.reason
        message = f"labelled {mode.schedule}, but {missing.message}"
    elif applied is not None and applied.awaits_restart:
        state, reason = NodeState.BLOCKED, Reason.PLUGIN_RESTART_NEEDED
        message = (
            f"labelled {mode.schedule}; {mode.plugin} still serves the former mode, and "
            "devicePlugin.restart is Never: delete its pod on this node"
        )
    elif verdict.fought_over:
        state, reason, message = NodeState.BLOCKED, Reason.LABEL_CONFLICT, verdict.message
    elif (bare := find_missing_whole_card(seen.node, mode)) is not None:
        state, reason, message = NodeState.BLOCKED, bare.reason, bare.message
    else:
        state, reason, message = NodeState.READY, Reason.APPLIED, "as the pool says"
    # Its change was removed by hand: half-way changed, it must not take pods.
    cordon = seen.node.owns_cordon and missing is not None
    if _is_settled(seen, labels, records.annotations(), cordon=cordon):
        return seen.plan(state, reason, message)
    message = "labels put back" if verdict.puts_back else "labels and records are written"
    action = build_apply(seen.node, labels, records, cordon=cordon, message=message)
    why = Reason.DRIFT_REPAIRED if verdict.puts_back else Reason.UPDATING
    return seen.plan(NodeState.UPDATING, why, message, action)


def _update_applied(
    seen: Observed, pool: Pool, mode: Mode, *, awaits_restart: bool, serves: Schedule | None
) -> tuple[Applied | None, Blocker | None]:
    """`applied` as it should be now that the labels are right, and what is missing for it.

    A mode is recorded only once it is verified. A plugin that starts under the right labels reads
    them, so it is remembered as one that is right: a later drift can then be told from one that a
    plugin has read.
    """
    previous = seen.records.applied
    known = previous if previous is not None and previous.is_of(mode) else None
    running = running_plugins(seen.pods, mode)
    if awaits_restart:
        return build_applied(seen, pool.name, mode, awaits_restart=True, serves=serves), None
    replaced = known is not None and bool(running) and running != known.plugins
    if known is None or (known.awaits_restart and replaced):
        missing = verify_mode(seen.node, seen.pods, mode)
        if missing is not None:
            # What was in force before is remembered until this is verified.
            return previous, Blocker(missing.reason, missing.message)
        applied = build_applied(seen, pool.name, mode)
        # The same plugin serves both modes, and may have started before somebody wrote the label.
        unsure = known is None and previous is not None and _share_plugin(previous, mode)
        return applied.model_copy(update={"unsure": True if unsure else None}), None
    changes: dict[str, object] = {"pool": pool.name}
    if known.failure and known.failure.attempt != build_attempt(pool, seen.node.retry):
        # Else it would halt the pool again once the retry annotation is taken away.
        changes["failure"] = None
    if replaced:
        changes["plugins"] = running
        if known.unsure:
            changes |= {"unsure": None, **write_admissions(record_admissions(seen))}
        if seen.node.boot_id != known.boot_id:
            # The kubelet admitted every pod anew in this boot, under these labels.
            changes |= {"boot_id": seen.node.boot_id, **write_admissions({})}
    if known.module is None and not mode.isolated and may_have_module(seen, mode):
        # From now on nobody knows what a plugin that reads `share` gives.
        changes |= {"module": True, **write_admissions(record_admissions(seen))}
    # What was verified once is not written again, but it is said when it no longer holds.
    missing = None if known.awaits_restart else verify_mode(seen.node, seen.pods, mode)
    blocker = Blocker(missing.reason, missing.message) if missing is not None else None
    return known.model_copy(update=changes), blocker


def _share_plugin(applied: Applied, mode: Mode) -> bool:
    return bool(mode.plugin) and MODES[applied.edition, applied.schedule].plugin == mode.plugin


def plan_restart_noted(seen: Observed, held: Mapping[str, str]) -> NodePlan | None:
    """A plugin that restarted on a node which waits for a change; None where none did.

    It has read the labels of the mode in force, which are there and ours. Unless that is written
    down, a label that somebody writes later could have been what it read.
    """
    applied = seen.records.applied
    assert applied is not None
    mode = MODES[applied.edition, applied.schedule]
    running = running_plugins(seen.pods, mode)
    intact = held.items() <= seen.node.labels.items() and held.keys() <= seen.node.owned
    intact = intact and mode.labels.items() <= held.items()
    if not intact or not running or running == applied.plugins or applied.awaits_restart:
        return None
    noted: dict[str, object] = {"plugins": running}
    if applied.unsure:
        noted |= {"unsure": None, **write_admissions(record_admissions(seen))}
    if seen.node.boot_id != applied.boot_id:
        noted |= {"boot_id": seen.node.boot_id, **write_admissions({})}
    records = seen.records.model_copy(update={"applied": applied.model_copy(update=noted)})
    message = "the plugin restarted"
    action = build_apply(
        seen.node,
        owned_labels(seen.node),
        records,
        cordon=seen.node.owns_cordon,
        message=message,
    )
    return seen.plan(NodeState.UPDATING, Reason.UPDATING, message, action)


def _is_settled(
    seen: Observed, labels: dict[str, str], annotations: dict[str, str], *, cordon: bool
) -> bool:
    """Whether exactly this is on the node and ours."""
    node = seen.node
    return (
        labels.items() <= node.labels.items()
        and labels.keys() | annotations.keys() == node.owned
        and annotations == dict(node.annotations)
        and node.owns_cordon is cordon
    )
