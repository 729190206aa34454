"""What follows from the record of a change: its labels, its transition, and who is in its way."""

from gpushare import names
from gpushare.api.k8s.node import Node
from gpushare.core.nodechange.blockers import find_blocking_pods
from gpushare.core.records.applied_record import LastApplied
from gpushare.core.records.change_record import Change
from gpushare.core.snapshot.actions import Blocker, NodeState, StepResult
from gpushare.core.snapshot.admissions import find_admissions, write_admissions
from gpushare.core.snapshot.effective_mode import running_plugins
from gpushare.core.snapshot.node import NodeSnapshot
from gpushare.editions.edition import REPAIR, TEARDOWN, Mode, Transition
from gpushare.editions.registry import MODES, find_transition


def owned_labels(node: Node) -> dict[str, str]:
    """The labels of ours on `node`, as they are: what an apply must carry to change none."""
    return {
        key: node.labels[key] for key in sorted(names.NODE_LABELS & node.owned & {*node.labels})
    }


def change_labels(seen: NodeSnapshot, change: Change) -> dict[str, str]:
    """The labels of ours on the node once `change` has put its mode there.

    What was given up to a rival is left out, except the mode: that is what the change is about.
    """
    mode, drift = MODES[change.edition, change.to], seen.records.drift
    kept = {k: v for k, v in owned_labels(seen.node).items() if k not in names.MODE_LABELS}
    given_up = {conflict.key for conflict in drift.conflicts} if drift is not None else set()
    if names.LABEL_POOL not in given_up:
        kept[names.LABEL_POOL] = change.pool
    return {**kept, **mode.labels}


def transition_of(change: Change) -> Transition:
    """What `change` needs; going to the mode that the node has is a plugin's restart alone."""
    if change.teardown is not None:
        return TEARDOWN
    if change.from_mode == change.to:
        return REPAIR
    return find_transition(change.edition, change.from_mode, change.to)


def plan_wait_cordoned(seen: NodeSnapshot, blocker: Blocker) -> StepResult:
    """A cordoned node that waits for pods: without a deadline, and it uses up the budget."""
    message = f"{blocker.message}; until then it stays cordoned, and uses up the budget"
    return seen.plan(NodeState.BLOCKED, blocker.reason, message)


def find_late_pods(seen: NodeSnapshot, change: Change) -> Blocker | None:
    """Pods that came to the node although it was cordoned, and that the restart would harm."""
    from_mode, to = MODES[change.edition, change.from_mode], MODES[change.edition, change.to]
    return find_blocking_pods(transition_of(change), from_mode, to, seen.pods)


def build_last_applied(
    seen: NodeSnapshot,
    pool: str,
    mode: Mode,
    *,
    restart_pending: bool = False,
    change: Change | None = None,
) -> LastApplied:
    """The record of a mode that is in force on the node, reached by `change` if any was needed.

    With `restart_pending` the labels are written, and the plugin is yet to read them.
    """
    # A node that joins takes no capacity away: it is no canary, and fails alone.
    proof = change if change is not None and not change.initializing else None
    applied = LastApplied(
        pool=pool,
        edition=mode.edition,
        schedule=mode.schedule,
        boot_id=seen.node.boot_id,
        plugins=running_plugins(seen.pods, mode),
        restart_pending=restart_pending,
        from_mode=proof.from_mode if proof is not None else None,
        failure=(proof.failure or proof.rolls_back) if proof is not None else None,
    )
    return applied.model_copy(update=write_admissions(find_admissions(seen)))
