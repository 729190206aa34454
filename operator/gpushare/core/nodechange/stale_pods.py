"""Plans the eviction of stale pods: those that keep the isolation of a former mode.

The node waits for its turn and uses up the budget until its stale pods are gone. Pods whose
isolation is unknown stay.
"""

from gpushare.core.deviceplugin.findings import list_few
from gpushare.core.nodechange.blockers import find_evictable_pods
from gpushare.core.nodechange.member_step import MemberStep
from gpushare.core.nodechange.step import EVICTION_DISABLED
from gpushare.core.snapshot.actions import EvictPods, NodeState, Start, Verdict
from gpushare.core.snapshot.isolation import find_stale_pods
from gpushare.editions.edition import REPAIR
from gpushare.names import Reason


def plan_stale_pods(step: MemberStep) -> Verdict | None:
    """Start the eviction of the stale pods, or wait until those that are ending are gone.

    None without any such pod.
    """
    stale = find_stale_pods(step.seen)
    # As for a plugin's restart: running pods keep their cards, and only they are evicted.
    pods = find_evictable_pods(REPAIR, stale)
    if not pods and not any(pod.deleting for pod in stale):
        return None
    listed = list_few(sorted(f"{pod.namespace}/{pod.name}" for pod in stale))
    kept = f"{len(stale)} pods keep the isolation of a former mode"
    message = f"{kept} and are evicted: {listed}"
    if not pods:
        return Verdict(NodeState.UPDATING, Reason.STALE_ISOLATION, message)
    if not step.ctx.may_evict:
        refusal = f"{kept}. rollout.staleWorkloads {EVICTION_DISABLED}: {listed}"
        return Verdict(NodeState.BLOCKED, Reason.EVICTION_DISABLED, refusal)
    start = Start(Reason.STALE_ISOLATION, message, EvictPods(step.seen.node.name, pods))
    return Verdict(NodeState.WAITING, Reason.WAITING_FOR_BUDGET, message, start=start)
