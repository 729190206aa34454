"""The rules of a node whose phase has no action now: the kernel module's note, and stale pods.

Stale pods keep the isolation of a former mode. Their node waits for its turn, and uses up the
budget until they are gone. Pods whose isolation is unknown stay.
"""

from dataclasses import dataclass, replace

from gpushare.api.rollout import StaleWorkloadPolicy
from gpushare.core.deviceplugin.findings import list_few
from gpushare.core.nodechange.blockers import find_evictable_pods
from gpushare.core.nodechange.kernel_module import plan_module_note
from gpushare.core.nodechange.member_step import MemberStep
from gpushare.core.nodechange.step import EVICTION_DISABLED
from gpushare.core.snapshot.actions import EvictPods, NodeState, Start, Verdict
from gpushare.core.snapshot.isolation import find_stale_pods
from gpushare.editions.edition import REPAIR
from gpushare.editions.registry import get_mode
from gpushare.names import Reason


@dataclass(frozen=True, slots=True)
class AtRest:
    """A member, with the verdict of its phase's rule, which has no action now."""

    step: MemberStep
    proposed: Verdict


def note_module(node: AtRest) -> Verdict | None:
    """Note that the kernel module may be loaded, or is gone, whatever the node waits for."""
    step = node.step
    if not step.seen.node.carries_ours or step.reason_to_stay_away is not None:
        return None
    spec = step.pool.spec
    # Not later: by then the installer may have left, or both disk and kernel may differ.
    note = plan_module_note(step.seen, get_mode(spec.edition, spec.schedule))
    return replace(node.proposed, action=note) if note is not None else None


def evict_stale_pods(node: AtRest) -> Verdict | None:
    """Evict pods with the isolation of a former mode, within the budget, and wait for their end."""
    step = node.step
    evicts = step.pool.spec.rollout.stale_workloads is StaleWorkloadPolicy.EVICT
    is_done = node.proposed.state is NodeState.READY and step.halt is None
    if not (evicts and is_done):
        return None
    stale = find_stale_pods(step.seen)
    # As for a plugin's restart: running pods keep their cards, and only they are evicted.
    pods = find_evictable_pods(REPAIR, stale)
    if not pods and not any(pod.deleting for pod in stale):
        return None
    listed = list_few(sorted(f"{pod.namespace}/{pod.name}" for pod in stale))
    kept = f"{len(stale)} pods keep the isolation of a former mode"
    message = f"{kept} and are evicted: {listed}"
    state, reason, start = NodeState.UPDATING, Reason.STALE_ISOLATION, None
    if pods and step.ctx.may_evict:
        start = Start(reason, message, EvictPods(step.seen.node.name, pods))
        state, reason = NodeState.WAITING, Reason.WAITING_FOR_BUDGET
    elif pods:
        state, reason = NodeState.BLOCKED, Reason.EVICTION_DISABLED
        message = f"{kept}. rollout.staleWorkloads {EVICTION_DISABLED}: {listed}"
    requeue_after = node.proposed.requeue_after
    return Verdict(state, reason, message, start=start, requeue_after=requeue_after)
