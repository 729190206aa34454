"""Judges by windows, freezes and contests whether a pool's changes may begin now, or else when."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

from gpushare.api.pool import Pool
from gpushare.api.rollout import NewNodesPolicy
from gpushare.api.windows import Freeze
from gpushare.core.cause import Cause
from gpushare.core.rollout.change_kinds import ChangeKind
from gpushare.core.rollout.contest import judge_contest, record_changes
from gpushare.core.rollout.start_now import find_active
from gpushare.core.rollout.windows import Opening, find_opening, find_opening_for
from gpushare.names import FREEZE_CONFIGMAP, Reason

_TICK = timedelta(microseconds=1)
HOLDS_ALL = frozenset({Reason.ROLLOUT_FROZEN, Reason.SPEC_CONTESTED})
"""Reasons that also hold up changes that a user has started now, and nodes that join."""


@dataclass(frozen=True, slots=True)
class WindowState:
    """The result of windows, freezes and contests, valid from `since` to `until` if the pool and
    the freeze stay the same."""

    since: datetime
    until: datetime | None
    needed: timedelta
    """The time that a window must have left for a change to begin."""
    refusal: Cause | None = None
    """Why no change may begin; None where it may."""
    lets_go: bool = False
    """Whether nodes that are only cordoned are uncordoned, as their change no longer fits."""
    opening: Opening | None = None
    """The opening that is open now with enough time left, or else the next with enough time."""

    def is_current(self, now: datetime) -> bool:
        """Return whether the result is valid at `now`; not if the clock was set back before it."""
        return self.since <= now and (self.until is None or now < self.until)

    def find_refusal(
        self, pool: Pool, kind: ChangeKind | None, *, initializes: bool
    ) -> Cause | None:
        """Find why a change of this `kind` may not begin; None where it may.

        A freeze or contest holds up all changes. A node that `initializes` waits for a window only
        if the pool says so, and a change that a user started now waits for none.
        """
        refusal = lift_if_started(self.refusal, pool, kind)
        if refusal is None or refusal.reason in HOLDS_ALL:
            return refusal
        is_anytime = initializes and pool.spec.rollout.new_nodes is NewNodesPolicy.ANYTIME
        return None if is_anytime else refusal


def lift_if_started(refusal: Cause | None, pool: Pool, kind: ChangeKind | None) -> Cause | None:
    """Return `refusal`, or None if a user started this `kind` now and that lifts the refusal."""
    if refusal is None or refusal.reason in HOLDS_ALL:
        return refusal
    return refusal if str(kind) not in find_active(pool) else None


def judge_windows(
    pool: Pool,
    freeze: Freeze | None,
    needed: timedelta,
    recheck: timedelta,
    contest_window: timedelta,
    now: datetime,
) -> WindowState | None:
    """Judge the pool's windows, its own freeze and the installation's `freeze`; None without any.

    Writers that contest the pool's spec freeze it, too, and so do windows that can't be read. A
    change takes the time `needed`, of which `recheck` passes before its labels are written.
    """
    if pool.acts and not pool.deleting:
        contest = judge_contest(pool, record_changes(pool, now), now, contest_window)
        if contest is not None:
            cause, until = contest
            return WindowState(now, until, needed, cause, lets_go=True)
    if pool.invalid_windows:
        refusal = Cause(Reason.ROLLOUT_FROZEN, pool.invalid_windows)
        return WindowState(now, None, needed, refusal, lets_go=True)
    own, windows = pool.spec.rollout.freeze, pool.spec.rollout.windows
    holding = [each for each in (own, freeze) if each is not None and each.holds(now)]
    if holding:
        ends = [each.until for each in holding if each.until is not None]
        refusal = Cause(
            Reason.ROLLOUT_FROZEN, _explain_freeze(pool, holding[0], is_own=holding[0] is own)
        )
        return WindowState(now, min(ends, default=None), needed, refusal, lets_go=True)
    if not windows:
        return None
    nearest, fitting = find_opening(windows, now), find_opening_for(windows, now, needed)
    if fitting is not None and fitting.start <= now:
        return WindowState(now, fitting.end - needed + _TICK, needed, opening=fitting)
    lets_go = True
    edges = [fitting.start] if fitting is not None else []
    if nearest is not None and nearest.start <= now:
        last = nearest.end - max(needed - recheck, timedelta())
        lets_go = now > last
        edges.append(nearest.end if lets_go else last + _TICK)
    elif nearest is not None:
        edges.append(nearest.start)
    if fitting is not None:
        message = (
            f"Waiting for a maintenance window. The next one starts {describe_start(fitting)}. To "
            f"start without one, run `kubectl gpushare plan pool {pool.name}` for the command"
        )
        refusal = Cause(Reason.WAITING_FOR_WINDOW, message)
    else:
        message = (
            f"No maintenance window is as long as a change may take ({needed.total_seconds():g} "
            "s). Lengthen a duration in spec.rollout.windows"
        )
        refusal = Cause(Reason.WINDOW_TOO_SHORT, message)
    return WindowState(
        now, min(edges, default=None), needed, refusal, lets_go=lets_go, opening=fitting
    )


def describe_start(opening: Opening) -> str:
    """Describe when an opening starts, in the time zone of its window."""
    return describe_moment(opening.zone, opening.start)


def describe_moment(zone: ZoneInfo, moment: datetime) -> str:
    """Describe a moment in the time zone of a window, to the minute."""
    return f"{moment.astimezone(zone):%a %Y-%m-%d %H:%M} {zone.key}"


def _explain_freeze(pool: Pool, freeze: Freeze, *, is_own: bool) -> str:
    until = f" until {freeze.until.isoformat(timespec='seconds')}" if freeze.until else ""
    if is_own:
        what = f"The rollout is frozen{until}: {freeze.reason}"
        return f"{what}. To end that, remove spec.rollout.freeze of pool {pool.name}"
    what = f"All rollouts are frozen{until}: {freeze.reason}"
    return f"{what}. To end that, delete ConfigMap {FREEZE_CONFIGMAP} in the operator's namespace"
