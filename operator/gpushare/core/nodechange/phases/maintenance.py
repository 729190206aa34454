"""The rule of a node on which another controller works during its change, the same in each phase.

That controller found the node cordoned, and relies on the operator's cordon instead of its own.
"""

from gpushare.core.nodechange.step import Step
from gpushare.core.records.change_record import ChangePhase, Maintenance
from gpushare.core.snapshot.actions import Verdict
from gpushare.names import Reason


def wait_for_maintenance(step: Step) -> Verdict | None:
    """Stay cordoned while another controller works on the node; then the deadline restarts."""
    change, at_work = step.change, step.seen.maintenance
    if at_work is None and change.maintenance is None:
        return None
    is_open, is_cordoned = not step.seen.is_out_of_service, change.phase is ChangePhase.CORDONED
    if is_open and is_cordoned and change.maintenance is Maintenance.CORDONED_AGAIN:
        # Nothing is changed yet: the change gives way, and the two don't take turns for ever.
        return None
    if at_work is None:
        message = "No other controller is at work on the node any more"
        begins = "since" if is_cordoned else "labelled_at"
        action = step.write_change(message, maintenance=None, **{begins: step.ctx.now})
        return step.updating(Reason.UPDATING, message, action)
    maintenance = (
        Maintenance.CORDONED_AGAIN if is_open else change.maintenance or Maintenance.AT_WORK
    )
    if change.failure is not None or (maintenance is change.maintenance and not is_open):
        # After a failure no deadline runs, and each uncordon is undone anyway.
        return step.blocked(at_work)
    message = f"{'cordoned again' if is_open else 'stays cordoned'}: {at_work.message}"
    return step.blocked(at_work, step.write_change(message, maintenance=maintenance))
