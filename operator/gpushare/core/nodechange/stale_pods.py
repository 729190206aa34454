"""Plans the eviction of stale pods: those that keep the isolation of a former mode.

The node waits for its turn and uses up the budget until its stale pods are gone. Pods whose
isolation is unknown stay.
"""

from gpushare.core.deviceplugin.findings import list_few
from gpushare.core.nodechange.blockers import find_evictable_pods
from gpushare.core.nodechange.member_step import MemberStep
from gpushare.core.nodechange.step import EVICTION_DISABLED
from gpushare.core.snapshot.actions import EvictPods, NamedPod, NodeState, Start, Verdict
from gpushare.core.snapshot.isolation import find_stale_pods
from gpushare.editions.edition import REPAIR
from gpushare.names import Reason


def wait(step: MemberStep) -> Verdict | None:
    """Wait, out of service within the budget, if all stale pods are ending; else None."""
    stale = find_stale_pods(step.seen)
    if _find_evictable(step) or not any(pod.deleting for pod in stale):
        return None
    return Verdict(NodeState.UPDATING, Reason.STALE_ISOLATION, _describe(step))


def evict(step: MemberStep) -> Verdict | None:
    """Start the eviction of the stale pods, if the installation allows it; None without any."""
    pods = _find_evictable(step)
    if not pods:
        return None
    message = _describe(step)
    if not step.ctx.may_evict:
        kept, _, listed = message.partition(" and are evicted: ")
        refusal = f"{kept}. rollout.staleWorkloads {EVICTION_DISABLED}: {listed}"
        return Verdict(NodeState.BLOCKED, Reason.EVICTION_DISABLED, refusal)
    start = Start(Reason.STALE_ISOLATION, message, EvictPods(step.seen.node.name, pods))
    return Verdict(NodeState.WAITING, Reason.WAITING_FOR_BUDGET, message, start=start)


def _find_evictable(step: MemberStep) -> tuple[NamedPod, ...]:
    # As for a plugin's restart: running pods keep their cards, and only they are evicted.
    return find_evictable_pods(REPAIR, find_stale_pods(step.seen))


def _describe(step: MemberStep) -> str:
    stale = find_stale_pods(step.seen)
    listed = list_few(sorted(f"{pod.namespace}/{pod.name}" for pod in stale))
    return f"{len(stale)} pods keep the isolation of a former mode and are evicted: {listed}"
