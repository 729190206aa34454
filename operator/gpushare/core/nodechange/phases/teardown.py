"""A teardown: what is left of a change once its labels are written, and isolation must go for good.

    Labelled -> the module's files removed (Uninstalled) -> another boot (Rebooted)
    -> no module seen in it (Restarting) -> verified return, as in any change

With Manual a person does all of that, and Uninstalled is passed over. We never reboot: another boot
is read from the node. Whatever happened while no operator ran is understood from node and Jobs. A
person's word, and a Job's, counts for the boot of which it was said.
"""

import hashlib
from dataclasses import replace

from gpushare import names
from gpushare.api.k8s.job import Job, JobState
from gpushare.api.k8s.node import Node
from gpushare.api.pool import Pool
from gpushare.api.rollout import RebootPolicy, TeardownPolicy
from gpushare.core.nodechange.step import Step, find_late_pods
from gpushare.core.records.change_record import Change, ChangePhase, Teardown
from gpushare.core.rollout.approval import is_approved
from gpushare.core.snapshot.actions import (
    Blocker,
    CreateJob,
    JobPhase,
    NodeState,
    RecordPlugins,
    StepResult,
)
from gpushare.core.snapshot.admissions import record_boot
from gpushare.core.snapshot.change_policy import Policy
from gpushare.core.snapshot.node import NodeSnapshot, ReconcileContext
from gpushare.editions.edition import Outcome
from gpushare.editions.registry import INSTALLERS
from gpushare.names import Reason

MODULE_FAILURES = frozenset({Reason.TEARDOWN_FAILED, Reason.MODULE_STILL_LOADED})
"""The module is where it was: only trying again from the beginning helps."""
_HASH_CHARACTERS = 20
_WORD_CHARACTERS = 20
"""As much is shown of an annotation that says something else than was expected."""
_START = f"{names.ANNOTATION_TEARDOWN}={names.TEARDOWN_START}"
_DONE = f"{names.ANNOTATION_TEARDOWN}={names.TEARDOWN_DONE}"
_SENTINEL = "sentinel"
_SWITCH = "the chart's value teardown.jobs.enabled"


def find_teardown_refusal(node: Node, policy: Policy, ctx: ReconcileContext) -> Blocker | None:
    """Why no teardown may begin on `node`; None where it may."""
    if policy.teardown is TeardownPolicy.MANUAL:
        if node.teardown == names.TEARDOWN_START:
            return None
        return Blocker(
            Reason.REQUIRES_TEARDOWN,
            f"{_tell_word(node)}annotate the node {_START} to begin: in its turn it is emptied, "
            "cordoned and labelled, then says what to type on it, and ends with a reboot",
        )
    return None if ctx.may_tear_down else Blocker(Reason.TEARDOWN_DISABLED, _tell_switch())


def agree_on_policy(seen: NodeSnapshot, pool: Pool, policy: Policy) -> Policy:
    """`policy`, but for a teardown that began by hand and that nobody agreed to leave to Jobs.

    Where a Job has removed the module, somebody did.
    """
    change = seen.records.change
    if change is None or change.teardown is None or change.phase is ChangePhase.UNINSTALLED:
        return policy
    if any(_does(job, JobPhase.UNINSTALL) for job in seen.jobs.values()):
        return policy
    kind = policy.kind_of(change.from_mode, change.to, Outcome.REQUIRES_TEARDOWN)
    if is_approved(pool, kind):
        return policy
    return replace(policy, teardown=TeardownPolicy.MANUAL, reboot=RebootPolicy.MANUAL)


def name_job(node: Node, change: Change, phase: JobPhase) -> str:
    """The name of the Job of one phase: the same for as long as it is the same attempt.

    One that looks for the module says something of the boot it looked in, and of no other.
    """
    assert change.teardown is not None
    since = change.since.isoformat(timespec="milliseconds")
    unique = f"{node.uid}/{since}/{change.teardown.attempt}"
    if phase is JobPhase.VERIFY:
        unique += f"/{node.boot_id}"
    digest = hashlib.sha256(unique.encode()).hexdigest()[:_HASH_CHARACTERS]
    return f"gpushare-{phase}-{digest}"


def is_job_due(seen: NodeSnapshot, job: CreateJob) -> bool:
    """Whether `job` may be made on the node; `seen` was read just now, unlike what it was planned
    on: it stops the container runtime of a node that may be in service again."""
    change = seen.records.change
    if change is None or change.teardown is None or not seen.is_out_of_service:
        return False
    if job.phase is JobPhase.UNINSTALL and find_late_pods(seen, change) is not None:
        return False
    return job.name == name_job(seen.node, change, job.phase)


def resume(seen: NodeSnapshot, change: Change) -> dict[str, object]:
    """What of a teardown that failed is another one when it is tried again.

    Where the module stayed, it begins anew: a boot that was can't have removed it. Else it goes on
    where it was, also where the node booted once more since the module was seen.
    """
    assert change.teardown is not None
    assert change.failure is not None
    again = {"attempt": change.teardown.attempt + 1, "not_ready": None}
    teardown, reason = change.teardown.model_copy(update=again), change.failure.reason
    if reason in MODULE_FAILURES:
        teardown = spend_word(seen.node, teardown)
    update: dict[str, object] = {"teardown": teardown}
    may_be_gone = reason == Reason.MODULE_STILL_LOADED and has_rebooted(seen, change)
    if reason in MODULE_FAILURES and not may_be_gone:
        update |= {"phase": ChangePhase.LABELLED, **record_boot(seen)}
    return update


def find_removing_job(seen: NodeSnapshot) -> Job | None:
    """A Job that removes the node's kernel module, of whichever attempt, and has not ended."""
    return min(filter(_is_removing, seen.jobs.values()), key=str, default=None)


def asks_for_commands(plan: StepResult) -> bool:
    """Whether a person is to remove the module now, by what is typed on the node."""
    return (plan.state, plan.reason) == (NodeState.BLOCKED, Reason.MODULE_REMOVAL)


def has_rebooted(seen: NodeSnapshot, change: Change) -> bool:
    """Whether the node is in another boot than when the teardown's labels were written."""
    boots = change.boot_id, seen.node.boot_id
    return all(boots) and boots[0] != boots[1]


def spend_word(node: Node, teardown: Teardown) -> Teardown:
    """`teardown`, of which a `done` that stands on the node by now says nothing."""
    is_said = node.teardown == names.TEARDOWN_DONE
    return teardown.model_copy(update={"consumed": True if is_said else None})


def waits_for_user(step: Step) -> bool:
    """Whether the next step is a person's, or kured's: that has no deadline.

    It has one while the node is not ready: it reboots, or it never comes back.
    """
    teardown = step.change.teardown
    return teardown is not None and not teardown.not_ready and _is_left_alone(step)


def note_progress(step: Step) -> StepResult | None:
    """A teardown went on by itself (a boot, a Job, a user's word): that is written down."""
    seen, change, node = step.seen, step.change, step.seen.node
    teardown = change.teardown
    if teardown is None:
        return None
    up = teardown.model_copy(update={"not_ready": None})
    if (consumed := _is_consumed(step)) is not bool(teardown.consumed):
        message = "a person's word is too early" if consumed else "it stands there no more"
        told = teardown.model_copy(update={"consumed": consumed or None})
        # What people write to it and take away again is no reason for a longer deadline.
        return _write(step, message, teardown=told, labelled_at=change.labelled_at)
    if not change.boot_id and node.boot_id:
        return _write(step, "its boot is known", boot_id=node.boot_id)
    if change.phase is not ChangePhase.REBOOTED and has_rebooted(seen, change):
        return _write(step, "another boot", phase=ChangePhase.REBOOTED, teardown=up)
    if teardown.not_ready and node.ready:
        return _write(step, "ready again in the same boot", teardown=up)
    if not (node.ready or teardown.not_ready) and _is_left_alone(step):
        not_ready = teardown.model_copy(update={"not_ready": True})
        return _write(step, "not ready: it reboots, or it died", teardown=not_ready)
    removal = _find_job(seen, change, JobPhase.UNINSTALL)
    if change.phase is ChangePhase.LABELLED and _is_complete(removal):
        message = "the kernel module's files are removed"
        return _write(step, message, phase=ChangePhase.UNINSTALLED, teardown=up)
    is_rebooted = change.phase is ChangePhase.REBOOTED
    if is_rebooted and not change.restart and _is_gone(step):
        return _write(step, "no kernel module is loaded", phase=ChangePhase.RESTARTING, plugins=())
    return None


def _write(step: Step, message: str, **update: object) -> StepResult:
    """Write how far it is, and let the deadline run anew."""
    action = step.write_change(message, **{"labelled_at": step.ctx.now, **update})
    return step.updating(Reason.UPDATING, message, action)


def wait_for_reboot_to_end(step: Step) -> StepResult | None:
    """A teardown is under way, and the node is not ready: it reboots, or it died."""
    if step.change.teardown is None or not step.change.teardown.not_ready:
        return None
    message = f"{step.seen.node.name} is not ready: it reboots, or it died"
    return step.updating(Reason.REBOOT_NEEDED, message)


def remove_module(step: Step) -> StepResult | None:
    """The change is a teardown: the module's files are removed, by a Job or by a user."""
    seen, change, policy = step.seen, step.change, step.policy
    if change.teardown is None:
        return None
    reason, node = Reason.MODULE_REMOVAL, seen.node.name
    job = _find_job(seen, change, JobPhase.UNINSTALL)
    if job is not None and job.state is JobState.FAILED:
        message = f"the module was not removed: {_tell_failed(job)}"
        return seen.plan(NodeState.FAILED, Reason.TEARDOWN_FAILED, message)
    if job is not None:
        return step.updating(reason, f"Job {job} removes the module")
    if step.late_pods is not None:
        return step.wait_for_pods(step.late_pods)
    if installer := _find_installer(seen):
        name = step.ctx.name_of(installer)
        return step.updating(reason, f"{name} must leave first, or it loads the module again")
    if policy.teardown is TeardownPolicy.MANUAL:
        # What helps comes first: the end is what is cut where names are long.
        message = (
            f"remove the kernel module by hand, reboot, and then annotate the node {_DONE}: "
            f"`gpushare render teardown {node}` and the node's Event say what to type"
        )
        return seen.plan(NodeState.BLOCKED, reason, message)
    if not step.ctx.may_tear_down:
        return seen.plan(NodeState.BLOCKED, Reason.TEARDOWN_DISABLED, _tell_switch())
    if change.failure is not None:
        return step.updating(reason, "no Job is made again by itself")
    job_name = name_job(seen.node, change, JobPhase.UNINSTALL)
    leaves = policy.reboot is RebootPolicy.SENTINEL
    create = CreateJob(node, job_name, JobPhase.UNINSTALL, leaves_sentinel=leaves)
    return step.updating(reason, "a Job is made that removes the module", create)


def wait_for_reboot(step: Step) -> StepResult:
    """A user, or kured, reboots the node; this operator never does."""
    who, removal = "reboot it", _find_job(step.seen, step.change, JobPhase.UNINSTALL)
    is_sentinel = step.policy.reboot is RebootPolicy.SENTINEL
    if _SENTINEL in removal.args if removal is not None else is_sentinel:
        who = "kured reboots it in its window, as /var/run/reboot-required asks; or reboot it"
    elif is_sentinel:
        who = "reboot it: the Job was made with reboot: Manual, and left nothing for kured"
    node = step.seen.node.name
    message = f"the module's files are removed from {node}, and it is still loaded: {who}"
    return step.seen.plan(NodeState.BLOCKED, Reason.REBOOT_NEEDED, message)


def verify_module(step: Step) -> StepResult:
    """A Job, or a user, shows that no module is loaded; then the plugin is restarted."""
    seen, change, ctx = step.seen, step.change, step.ctx
    reason, node = Reason.MODULE_UNVERIFIED, seen.node.name
    if _is_gone(step):
        # A plugin may have started under foreign labels meanwhile.
        if step.late_pods is not None:
            return step.wait_for_pods(step.late_pods)
        message = "no kernel module is loaded; the plugin is restarted next"
        return step.updating(Reason.LABELLED, message, RecordPlugins(node))
    job = _find_job(seen, change, JobPhase.VERIFY)
    if job is not None and job.state is JobState.FAILED:
        message = f"the module is not seen to be gone after the reboot: {_tell_failed(job)}"
        return seen.plan(NodeState.FAILED, Reason.MODULE_STILL_LOADED, message)
    if job is not None:
        return step.updating(reason, f"Job {job} looks for the module")
    is_manual = step.policy.teardown is TeardownPolicy.MANUAL
    if not (is_manual or ctx.may_tear_down):
        return seen.plan(NodeState.BLOCKED, Reason.TEARDOWN_DISABLED, _tell_switch())
    # Also one of a former attempt: it may just begin.
    if running := find_removing_job(seen):
        return step.updating(reason, f"Job {running} must end first")
    if installer := _find_installer(seen):
        message = f"{ctx.name_of(installer)} must leave first: it loads the module"
        return step.updating(reason, message)
    if is_manual:
        message = _tell_verification(seen.node, change)
        return seen.plan(NodeState.BLOCKED, reason, message)
    if not seen.node.ready:
        return step.updating(reason, f"{node} has rebooted, and is not ready yet")
    if change.failure is not None and change.failure.phase is ChangePhase.REBOOTED:
        return step.updating(reason, "no Job is made again by itself")
    create = CreateJob(node, name_job(seen.node, change, JobPhase.VERIFY), JobPhase.VERIFY)
    return step.updating(reason, "a Job is made that looks for the module", create)


def _is_left_alone(step: Step) -> bool:
    """Whether nothing of ours is under way on the node, and nothing is ours to do."""
    seen, change = step.seen, step.change
    is_ours = step.policy.teardown is TeardownPolicy.JOB and step.ctx.may_tear_down
    if change.phase is ChangePhase.LABELLED:
        removal = _find_job(seen, change, JobPhase.UNINSTALL)
        return removal is None and not is_ours and not has_rebooted(seen, change)
    if change.phase is ChangePhase.REBOOTED:
        verification = _find_job(seen, change, JobPhase.VERIFY)
        return verification is None and not is_ours and not _is_gone(step)
    return change.phase is ChangePhase.UNINSTALLED


def _is_gone(step: Step) -> bool:
    """Whether the module was seen to be gone in the boot that followed its removal."""
    if _is_complete(_find_job(step.seen, step.change, JobPhase.VERIFY)):
        return True
    is_said = step.seen.node.teardown == names.TEARDOWN_DONE
    is_manual = step.policy.teardown is TeardownPolicy.MANUAL
    return is_manual and is_said and not _is_consumed(step)


def _is_consumed(step: Step) -> bool:
    """Whether the `done` that stands there is not a word about the module in this very boot."""
    seen, change = step.seen, step.change
    assert change.teardown is not None
    if seen.node.teardown != names.TEARDOWN_DONE:
        return False
    if change.teardown.consumed:
        return True
    if change.phase is not ChangePhase.REBOOTED:
        return not has_rebooted(seen, change)
    # It was shown to be there, or may be loaded just now.
    verification = _find_job(seen, change, JobPhase.VERIFY)
    is_seen = verification is not None and verification.state is JobState.FAILED
    return is_seen or bool(_find_installer(seen))


def _find_job(seen: NodeSnapshot, change: Change, phase: JobPhase) -> Job | None:
    """The Job of this phase; not one of its name that does something else."""
    job = seen.jobs.get(name_job(seen.node, change, phase))
    return job if job is not None and _does(job, phase) else None


def _does(job: Job, phase: JobPhase) -> bool:
    return job.args[:1] == (phase,)


def _is_removing(job: Job) -> bool:
    return job.state is JobState.RUNNING and _does(job, JobPhase.UNINSTALL)


def _is_complete(job: Job | None) -> bool:
    return job is not None and job.state is JobState.COMPLETE


def _find_installer(seen: NodeSnapshot) -> str:
    """A DaemonSet that is still on the node and would put the module back; empty without one."""
    return min((pod.daemonset for pod in seen.pods if pod.daemonset in INSTALLERS), default="")


def _tell_failed(job: Job) -> str:
    return f"`kubectl logs -n {job.namespace} job/{job.name}` says why ({job.message})"


def _tell_verification(node: Node, change: Change) -> str:
    assert change.teardown is not None
    message = f"rebooted: see that no cGPU module is loaded, then annotate the node {_DONE}"
    if change.teardown.consumed:
        return f"{message}; the one that stands there was said too early: annotate it start first"
    return f"{_tell_word(node)}{message}"


def _tell_word(node: Node) -> str:
    """What stands there in place of a word of ours, with what follows it."""
    if node.teardown in ("", names.TEARDOWN_START):
        return ""
    said = ascii(node.teardown[:_WORD_CHARACTERS])[: 2 * _WORD_CHARACTERS]
    return f"{names.ANNOTATION_TEARDOWN} is {said}, which is not what is expected now; "


def _tell_switch() -> str:
    return (
        "isolationTeardown.policy is Job, and this installation makes no such Jobs "
        f"({_SWITCH}); switch them on, or set the policy to Manual"
    )
