"""What follows from the record of a change: its labels, its transition, and who is in its way."""

from gpushare import names
from gpushare.api.node import Node
from gpushare.core.actions import NodePlan, NodeState
from gpushare.core.admitted import find_admissions, write_admissions
from gpushare.core.blockers import Blocker, find_blocking_pods
from gpushare.core.inforce import running_plugins
from gpushare.core.modes import MODES, Mode
from gpushare.core.observed import Observed
from gpushare.core.records import Applied, Change
from gpushare.core.transitions import REPAIR, TEARDOWN, Transition, find_transition


def owned_labels(node: Node) -> dict[str, str]:
    """The labels of ours on `node`, as they are: what an apply must carry to change none."""
    return {
        key: node.labels[key] for key in sorted(names.NODE_LABELS & node.owned & {*node.labels})
    }


def change_labels(seen: Observed, change: Change) -> dict[str, str]:
    """The labels of ours on the node once `change` has put its mode there.

    What was given up to a rival is left out, except the mode: that is what the change is about.
    """
    mode, drift = MODES[change.edition, change.to], seen.records.drift
    kept = {k: v for k, v in owned_labels(seen.node).items() if k not in names.MODE_LABELS}
    given_up = {rival.key for rival in drift.rivals} if drift is not None else set()
    if names.LABEL_POOL not in given_up:
        kept[names.LABEL_POOL] = change.pool
    return {**kept, **mode.labels}


def transition_of(change: Change) -> Transition:
    """What `change` needs; going to the mode that the node has is a plugin's restart alone."""
    if change.teardown is not None:
        return TEARDOWN
    if change.of == change.to:
        return REPAIR
    return find_transition(change.edition, change.of, change.to)


def plan_held(seen: Observed, blocker: Blocker) -> NodePlan:
    """A cordoned node that waits for pods: without a deadline, and it uses up the budget."""
    message = f"{blocker.message}; until then it stays cordoned, and uses up the budget"
    return seen.plan(NodeState.BLOCKED, blocker.reason, message)


def find_late_pods(seen: Observed, change: Change) -> Blocker | None:
    """Pods that came to the node although it was cordoned, and that the restart would harm."""
    of, to = MODES[change.edition, change.of], MODES[change.edition, change.to]
    return find_blocking_pods(transition_of(change), of, to, seen.pods)


def build_applied(
    seen: Observed,
    pool: str,
    mode: Mode,
    *,
    awaits_restart: bool = False,
    change: Change | None = None,
) -> Applied:
    """The record of a mode that is in force on the node, reached by `change` if any was needed.

    Where it `awaits_restart`, it is only labelled so.
    """
    # A node that joins takes no capacity away: it is no canary, and fails alone.
    proof = change if change is not None and not change.joining else None
    applied = Applied(
        pool=pool,
        edition=mode.edition,
        schedule=mode.schedule,
        boot_id=seen.node.boot_id,
        plugins=running_plugins(seen.pods, mode),
        awaits_restart=awaits_restart,
        of=proof.of if proof is not None else None,
        failure=(proof.failure or proof.undoes) if proof is not None else None,
    )
    return applied.model_copy(update=write_admissions(find_admissions(seen)))
