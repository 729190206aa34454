"""Forecasts everything to be done to one node, from what the planner says is next."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeGuard

from gpushare import names
from gpushare.api.k8s.pod import Pod
from gpushare.api.pool import Edition, Pool
from gpushare.api.rollout import StaleWorkloadPolicy, WorkloadPolicy
from gpushare.core.nodechange.blockers import find_blocking_pods, find_evictable_pods
from gpushare.core.nodechange.labels_in_force import build_last_applied
from gpushare.core.nodechange.releasing import find_left, plan_release
from gpushare.core.nodechange.step import transition_of
from gpushare.core.ownership.claims import find_owner
from gpushare.core.records.change_record import Change, ChangePhase
from gpushare.core.rollout.budget import TURNS
from gpushare.core.rollout.change_kinds import ChangeKind
from gpushare.core.snapshot.actions import ApplyNode, NamedPod, NodePlan, NodeState
from gpushare.core.snapshot.change_policy import build_policy
from gpushare.core.snapshot.cluster import NodeContext
from gpushare.core.snapshot.isolation import find_stale_pods
from gpushare.core.snapshot.node import NodeSnapshot, ReconcileContext, Timing
from gpushare.editions.edition import REPAIR, TEARDOWN, Mode, Outcome, Transition
from gpushare.editions.registry import find_transition, get_mode, settled_labels
from gpushare.names import Reason

_WAVES = TURNS | {Reason.WAITING_FOR_WINDOW}
"""Nothing is wrong: other nodes come first, or a window starts later."""


@dataclass(frozen=True, slots=True)
class NodeForecast:
    """Everything that will be done to a node for a pool, once it need not wait any more."""

    pool: str
    plan: NodePlan
    """Present plan of the node."""
    owner: str = ""
    """The pool that has it now, where that is another one."""
    leaves: bool = False
    """No pool claims it any more."""
    labels: Mapping[str, str] = field(default_factory=dict)
    """Labels that will be written, those left out that it has already."""
    removed: tuple[str, ...] = ()
    """Labels that will be taken away."""
    kind: ChangeKind | None = None
    """The isolation change that it needs, or is in."""
    cordons: bool = False
    restarts_plugin: bool = False
    reboots: bool = False
    tears_down: bool = False
    """The kernel module goes, or has yet to be seen to be gone."""
    pods: tuple[str, ...] = ()
    """Pods that must be gone before its change."""
    evicted: tuple[str, ...] = ()
    """Those of `pods` that the operator evicts, with the stale ones."""
    wave: int | None = None
    """Wave of the node: 0 needs none, 1 is the first; None where it is unknown."""
    is_about: bool = False
    """The wave may be a later or an earlier one, as the place of other nodes is unknown."""

    @property
    def node(self) -> str:
        return self.plan.node

    @property
    def is_change(self) -> bool:
        """Whether anything is to be done, by the operator or a user."""
        return bool(
            self.labels
            or self.removed
            or self.kind
            or self.evicted
            or self.plan.action is not None
            or self.plan.facts.under_way
        )

    @property
    def is_place_unknown(self) -> bool:
        """Whether nobody knows when the node needs a place, or how long it takes one."""
        if self.plan.reason is Reason.OWNED_BY_OTHER_POOL:
            return False
        is_blocked = self.plan.state is NodeState.BLOCKED
        return self.wave is None or is_blocked or bool(self.pods)

    @property
    def blocker(self) -> str:
        """Reason code of what it waits for; empty where that is only its wave."""
        waits = self.plan.state not in (NodeState.READY, NodeState.UPDATING)
        comes = self.plan.reason in _WAVES and self.wave is not None
        return str(self.plan.reason) if waits and not comes else ""


def forecast_member(
    context: NodeContext, pool: Pool, plan: NodePlan, *, may_evict: bool
) -> NodeForecast:
    """Forecast what is done to a member of `pool`."""
    seen, wanted = context.seen, settled_labels(pool.name, pool.spec)
    owner = find_owner(seen.node, seen.records)
    forecast = NodeForecast(
        pool.name,
        plan,
        owner=owner if owner is not None and owner != pool.name else "",
        labels=_find_written(seen, plan, wanted),
        removed=_find_dropped(seen, wanted),
    )
    return _with_change(forecast, seen, pool, plan, may_evict=may_evict)


def forecast_leaver(
    context: NodeContext, pool: Pool | None, plan: NodePlan, ctx: ReconcileContext
) -> NodeForecast:
    """Forecast what is done to a node that `pool` releases."""
    seen = context.seen
    vouched = names.LABEL_ISOLATION_VERIFIED
    forecast = NodeForecast(
        pool.name if pool is not None else "",
        plan,
        leaves=True,
        removed=(vouched,) if vouched in seen.node.labels.keys() & seen.node.owned else (),
    )
    if (left := find_left(seen, pool)) is not None:
        labels, gone = left
        kept = {key: value for key, value in labels.items() if key not in gone}
        removed = {*_find_dropped(seen, labels), *(gone & seen.node.labels.keys())}
        written = _find_written(seen, plan, kept)
        forecast = replace(forecast, labels=written, removed=tuple(sorted(removed)))
    # What it needs in its turn; the planner's own plan says no more than that it waits.
    due = plan if context.unreadable else plan_release(seen, pool, ctx)
    tenants: tuple[Pod, ...] = ()
    if due is not None and due.kind is None and due.reason is Reason.WORKLOADS_PRESENT:
        # What comes once the pods are gone that select its pool, or hold its change up.
        tenants = _find_tenants(seen)
        rest = tuple(pod for pod in seen.pods if pod.daemonset or pod.is_static_plugin)
        due = plan_release(replace(seen, pods=rest), pool, ctx)
    told = _with_change(forecast, seen, pool, (due or plan).begin(), may_evict=ctx.may_evict)
    return replace(told, pods=tuple(sorted({*told.pods, *_name(tenants)})))


def _find_tenants(seen: NodeSnapshot) -> tuple[Pod, ...]:
    own = (names.LABEL_POOL, seen.node.labels.get(names.LABEL_POOL))
    return tuple(pod for pod in seen.pods if pod.is_live and own in pod.selects)


def _find_written(
    seen: NodeSnapshot, plan: NodePlan, wanted: Mapping[str, str]
) -> Mapping[str, str]:
    given_up = {conflict.key for conflict in plan.facts.conflicts}
    has = seen.node.labels
    return {k: v for k, v in wanted.items() if has.get(k) != v and k not in given_up}


def _find_dropped(seen: NodeSnapshot, wanted: Mapping[str, str]) -> tuple[str, ...]:
    """Find what an apply drops: the operator's own labels, unless another manager owns them too."""
    ours = names.NODE_LABELS & seen.node.owned & seen.node.labels.keys()
    return tuple(sorted(ours - wanted.keys() - seen.node.managers.keys()))


def _with_change(
    forecast: NodeForecast,
    seen: NodeSnapshot,
    pool: Pool | None,
    plan: NodePlan,
    *,
    may_evict: bool,
) -> NodeForecast:
    """Add the isolation change that the node needs or is in, by its `plan`, to `forecast`."""
    change, kind = _find_change(seen, plan), plan.kind
    if change is not None and kind is None:
        policy = build_policy(pool, seen.node, Timing())
        kind = policy.kind_of(change.from_mode, change.to, transition_of(change).outcome)
    evicts_stale = (
        may_evict
        and pool is not None
        and not forecast.leaves
        and pool.spec.rollout.stale_workloads is StaleWorkloadPolicy.EVICT
    )
    if kind is None or not kind.is_done:
        stale = find_evictable_pods(REPAIR, find_stale_pods(seen)) if evicts_stale else ()
        return replace(forecast, kind=kind, evicted=_name(stale))
    edition = _find_edition(change, pool)
    if change is not None and (change.from_mode, change.to) != (kind.from_mode, kind.to):
        # Another one is planned in its place, such as the reverse of one that failed.
        change = None
    from_mode, to = get_mode(edition, kind.from_mode), get_mode(edition, kind.to)
    transition = _find_transition(kind, edition)
    is_labelled = change is not None and change.is_labelled
    blocker = None if is_labelled else find_blocking_pods(transition, from_mode, to, seen.pods)
    pods = blocker.pods if blocker is not None else ()
    evicted: list[NamedPod] = []
    if may_evict and kind.workloads is WorkloadPolicy.EVICT:
        evicted += find_evictable_pods(transition, pods)
    if evicts_stale:
        evicted += find_evictable_pods(REPAIR, _find_stale_then(seen, forecast.pool, to))
    return replace(
        forecast,
        kind=kind,
        cordons=not forecast.plan.facts.under_way,
        restarts_plugin=kind.restarts_plugin and not _is_restarted(seen, change),
        reboots=kind.reboots and not _is_rebooted(change),
        tears_down=kind.reboots and not (change and change.phase is ChangePhase.RESTARTING),
        pods=_name(pods),
        evicted=_name(evicted),
    )


def _find_change(seen: NodeSnapshot, plan: NodePlan) -> Change | None:
    """Return the change that the node is in, or that the plan begins."""
    change = seen.records.change
    if change is not None and change.is_under_way:
        return change
    if isinstance(plan.action, ApplyNode):
        written = plan.action.annotations.get(names.ANNOTATION_CHANGE)
        return Change.model_validate_json(written) if written else None
    return None


def _find_edition(change: Change | None, pool: Pool | None) -> Edition:
    if change is not None:
        return change.edition
    assert pool is not None
    return pool.spec.edition


def _find_transition(kind: ChangeKind, edition: Edition) -> Transition:
    if kind.outcome is Outcome.REQUIRES_TEARDOWN:
        return TEARDOWN
    if kind.from_mode == kind.to:
        return REPAIR
    return find_transition(edition, kind.from_mode, kind.to)


def _find_stale_then(seen: NodeSnapshot, pool: str, to: Mode) -> tuple[Pod, ...]:
    """Find pods that will keep an isolation which their node in mode `to` does not give."""
    update = {"applied": build_last_applied(seen, pool, to), "change": None}
    return find_stale_pods(replace(seen, records=seen.records.model_copy(update=update)))


def _is_restarted(seen: NodeSnapshot, change: Change | None) -> bool:
    """Tell whether the plugin's pods of a change that is under way are gone already."""
    left = {pod.uid for pod in seen.pods if not pod.deleting}
    return _is_rebooted(change) and left.isdisjoint(plugin.uid for plugin in change.plugins)


def _is_rebooted(change: Change | None) -> TypeGuard[Change]:
    return change is not None and change.phase in (ChangePhase.REBOOTED, ChangePhase.RESTARTING)


def _name(pods: Collection[Pod | NamedPod]) -> tuple[str, ...]:
    return tuple(sorted({f"{pod.namespace}/{pod.name}" for pod in pods}))
