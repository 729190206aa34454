"""The rules of a teardown: once a change's labels are written, isolation must be removed for good.

    Labelled -> the module's files removed (Uninstalled) -> another boot (Rebooted)
    -> no module seen in it (Restarting) -> verified return, as in any change

With Manual a user takes all these steps, and Uninstalled is skipped. The operator never reboots a
node: it reads the boot ID from the node. Progress while no operator ran is read from node and Jobs.
A user's annotation, and a Job's result, count for the boot in which they were given.
"""

import hashlib
from dataclasses import replace

from gpushare import names
from gpushare.api.k8s.job import Job, JobState
from gpushare.api.k8s.node import Node
from gpushare.api.pool import Pool
from gpushare.api.rollout import RebootPolicy, TeardownPolicy
from gpushare.core.cause import Cause
from gpushare.core.deviceplugin.findings import advise_pods
from gpushare.core.nodechange.step import Step, find_late_pods
from gpushare.core.records.change_record import Change, ChangePhase, Teardown
from gpushare.core.rollout.approval import is_approved
from gpushare.core.snapshot.actions import (
    CreateJob,
    JobPhase,
    NodePlan,
    NodeState,
    RecordPlugins,
    Verdict,
)
from gpushare.core.snapshot.admissions import record_boot
from gpushare.core.snapshot.change_policy import Policy
from gpushare.core.snapshot.node import NodeSnapshot, ReconcileContext
from gpushare.editions.edition import Outcome
from gpushare.editions.registry import INSTALLERS
from gpushare.names import Reason

MODULE_FAILURES = frozenset({Reason.TEARDOWN_FAILED, Reason.MODULE_STILL_LOADED})
"""Failures that leave the module in place: the teardown must be retried from the beginning."""
_HASH_CHARACTERS = 20
_WORD_CHARACTERS = 20
"""How many characters of an unexpected annotation value a message shows."""
_START = f"{names.ANNOTATION_TEARDOWN}={names.TEARDOWN_START}"
_DONE = f"{names.ANNOTATION_TEARDOWN}={names.TEARDOWN_DONE}"
_EARLY = f"{_DONE} was set too early"
_CHECK = "grep -E '^(cgpu|km )' /proc/modules; ls /proc | grep cgpu"
"""A command that prints something where templates/teardown.sh finds a module."""
_SENTINEL = "sentinel"
_SWITCH = (
    "isolationTeardown.policy is Job, but this installation allows no teardown Jobs. Set it to "
    "Manual, or set the chart's value teardown.jobs.enabled"
)
_NOT_READY = "The node is not Ready: it reboots, or it is down"
_NO_JOB_AGAIN = "The Job failed and is not created again automatically"


def find_teardown_refusal(node: Node, policy: Policy, ctx: ReconcileContext) -> Cause | None:
    """Find why no teardown may begin on `node`; None where it may."""
    if policy.teardown is TeardownPolicy.MANUAL:
        if node.teardown == names.TEARDOWN_START:
            return None
        return Cause(
            Reason.REQUIRES_TEARDOWN,
            f"To start, run {_annotate(node, _START)}{_describe_unexpected_value(node)}",
        )
    return None if ctx.may_tear_down else Cause(Reason.TEARDOWN_DISABLED, _SWITCH)


def agree_on_policy(seen: NodeSnapshot, pool: Pool, policy: Policy) -> Policy:
    """Return `policy`, but Manual for a teardown that began by hand and is not approved for Jobs.

    A teardown whose Job has removed the module was approved.
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
    """Return the name of a phase's Job, which stays the same for the whole attempt.

    The name of a Job that looks for the module changes with the boot: its result holds for that
    boot alone.
    """
    assert change.teardown is not None
    since = change.since.isoformat(timespec="milliseconds")
    unique = f"{node.uid}/{since}/{change.teardown.attempt}"
    if phase is JobPhase.VERIFY:
        unique += f"/{node.boot_id}"
    digest = hashlib.sha256(unique.encode()).hexdigest()[:_HASH_CHARACTERS]
    return f"gpushare-{phase}-{digest}"


def is_job_due(seen: NodeSnapshot, job: CreateJob) -> bool:
    """Return whether `job` may be created on the node, which was read just now.

    The Job stops the container runtime, and the node may be in service again since the Job was
    planned.
    """
    change = seen.records.change
    if change is None or change.teardown is None or not seen.is_ours_to_change:
        return False
    if job.phase is JobPhase.UNINSTALL and find_late_pods(seen, change) is not None:
        return False
    return job.name == name_job(seen.node, change, job.phase)


def resume(seen: NodeSnapshot, change: Change) -> dict[str, object]:
    """Return the updates of a change whose teardown failed and is tried again.

    If the module stayed, the teardown restarts: an earlier boot can't have removed the module. Else
    it continues where it was, also if the node has booted again since the module was found.
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
    """Find a Job of any attempt that removes the node's kernel module and has not ended."""
    removing = (job for job in seen.jobs.values() if _does(job, JobPhase.UNINSTALL))
    return min((job for job in removing if job.state is JobState.RUNNING), key=str, default=None)


def asks_for_commands(plan: NodePlan) -> bool:
    """Return whether `plan` waits for a user to remove the module by commands on the node."""
    return (plan.state, plan.reason) == (NodeState.BLOCKED, Reason.MODULE_REMOVAL)


def has_rebooted(seen: NodeSnapshot, change: Change) -> bool:
    """Return whether the node has booted since the teardown's labels were written."""
    boots = change.boot_id, seen.node.boot_id
    return all(boots) and boots[0] != boots[1]


def spend_word(node: Node, teardown: Teardown) -> Teardown:
    """Return `teardown`, with a `done` annotation that the node already has marked as consumed."""
    is_set = node.teardown == names.TEARDOWN_DONE
    return teardown.model_copy(update={"consumed": True if is_set else None})


def waits_for_user(step: Step) -> bool:
    """Return whether the next step is a user's, or kured's, which has no deadline.

    While the node is not Ready a deadline runs: it reboots, or it never comes back.
    """
    teardown = step.change.teardown
    return teardown is not None and not teardown.not_ready and _is_left_alone(step)


def note_progress(step: Step) -> Verdict | None:
    """Record the progress of a teardown: a boot, a Job, or a user's annotation."""
    seen, change, node = step.seen, step.change, step.seen.node
    teardown = change.teardown
    if teardown is None:
        return None
    up = teardown.model_copy(update={"not_ready": None})
    if (consumed := _is_consumed(step)) is not bool(teardown.consumed):
        message = f"{_DONE} {'was set too early' if consumed else 'is no longer set'}"
        updated = teardown.model_copy(update={"consumed": consumed or None})
        # An annotation that users write and remove again does not extend the deadline.
        return _write(step, message, teardown=updated, labelled_at=change.labelled_at)
    if not change.boot_id and node.boot_id:
        return _write(step, "The boot of the node is recorded", boot_id=node.boot_id)
    if change.phase is not ChangePhase.REBOOTED and has_rebooted(seen, change):
        return _write(step, "The node has rebooted", phase=ChangePhase.REBOOTED, teardown=up)
    if teardown.not_ready and node.ready:
        return _write(step, "The node is Ready again without a reboot", teardown=up)
    if not (node.ready or teardown.not_ready) and _is_left_alone(step):
        not_ready = teardown.model_copy(update={"not_ready": True})
        return _write(step, _NOT_READY, teardown=not_ready)
    removal = _find_job(seen, change, JobPhase.UNINSTALL)
    if change.phase is ChangePhase.LABELLED and _is_complete(removal):
        message = "The kernel module's files are removed"
        return _write(step, message, phase=ChangePhase.UNINSTALLED, teardown=up)
    is_rebooted = change.phase is ChangePhase.REBOOTED
    if is_rebooted and not change.restart and _is_gone(step):
        message = "No kernel module is loaded"
        return _write(step, message, phase=ChangePhase.RESTARTING, plugins=())
    return None


def _write(step: Step, message: str, **update: object) -> Verdict:
    """Plan the write of a teardown's progress; the deadline restarts unless `update` has it."""
    action = step.write_change(message, **{"labelled_at": step.ctx.now, **update})
    return step.updating(Reason.UPDATING, message, action)


def wait_for_reboot_to_end(step: Step) -> Verdict | None:
    """Wait if a node is not Ready during a teardown: it reboots, or it is down."""
    if step.change.teardown is None or not step.change.teardown.not_ready:
        return None
    return step.updating(Reason.REBOOT_NEEDED, _NOT_READY)


def remove_module(step: Step) -> Verdict | None:
    """Remove the module's files, by a Job or by a user, if the change is a teardown."""
    seen, change, policy = step.seen, step.change, step.policy
    if change.teardown is None:
        return None
    reason, node = Reason.MODULE_REMOVAL, seen.node.name
    job = _find_job(seen, change, JobPhase.UNINSTALL)
    if job is not None and job.state is JobState.FAILED:
        message = f"The kernel module was not removed. {_explain_failed(job)}"
        return Verdict(NodeState.FAILED, Reason.TEARDOWN_FAILED, message)
    if job is not None:
        return step.updating(reason, f"Job {job} removes the kernel module")
    if step.late_pods is not None:
        return step.wait_for_pods(step.late_pods)
    if installer := _find_installer(seen):
        return step.updating(reason, _explain_installer(step, installer))
    if policy.teardown is TeardownPolicy.MANUAL:
        message = (
            "Remove the kernel module, reboot the node, and wait for its reason "
            f"{Reason.MODULE_UNVERIFIED}. For the commands, run: kubectl gpushare render teardown "
            f"{node}"
        )
        if change.teardown.consumed:
            message = f"{_EARLY}. First run {_annotate(seen.node, _START)}"
        return Verdict(NodeState.BLOCKED, reason, message)
    if not step.ctx.may_tear_down:
        return Verdict(NodeState.BLOCKED, Reason.TEARDOWN_DISABLED, _SWITCH)
    if change.failure is not None:
        return step.updating(reason, _NO_JOB_AGAIN)
    job_name = name_job(seen.node, change, JobPhase.UNINSTALL)
    leaves = policy.reboot is RebootPolicy.SENTINEL
    create = CreateJob(node, job_name, JobPhase.UNINSTALL, leaves_sentinel=leaves)
    return step.updating(reason, "Creating a Job that removes the kernel module", create)


def wait_for_reboot(step: Step) -> Verdict:
    """Wait until a user, or kured, reboots the node; this operator never does."""
    who, removal = "Reboot the node", _find_job(step.seen, step.change, JobPhase.UNINSTALL)
    is_sentinel = step.policy.reboot is RebootPolicy.SENTINEL
    if _SENTINEL in removal.args if removal is not None else is_sentinel:
        who = "kured reboots the node in its window (/var/run/reboot-required), or you reboot it"
    elif is_sentinel:
        who = f"{who} yourself: kured does not, because the Job ran with reboot: Manual"
    message = f"The kernel module's files are removed, but it is still loaded. {who}"
    return Verdict(NodeState.BLOCKED, Reason.REBOOT_NEEDED, message)


def verify_module(step: Step) -> Verdict:
    """Verify by a Job, or a user, that no module is loaded; then restart the plugin."""
    seen, change, ctx = step.seen, step.change, step.ctx
    reason, node = Reason.MODULE_UNVERIFIED, seen.node.name
    if _is_gone(step):
        # A plugin may have started under foreign labels meanwhile.
        if step.late_pods is not None:
            return step.wait_for_pods(step.late_pods)
        message = "No kernel module is loaded. The device plugin is restarted next"
        return step.updating(Reason.LABELLED, message, RecordPlugins(node))
    job = _find_job(seen, change, JobPhase.VERIFY)
    if job is not None and job.state is JobState.FAILED:
        message = (
            f"The kernel module is not verified to be gone after the reboot. {_explain_failed(job)}"
        )
        return Verdict(NodeState.FAILED, Reason.MODULE_STILL_LOADED, message)
    if job is not None:
        return step.updating(reason, f"Job {job} checks whether the kernel module is loaded")
    is_manual = step.policy.teardown is TeardownPolicy.MANUAL
    if not (is_manual or ctx.may_tear_down):
        return Verdict(NodeState.BLOCKED, Reason.TEARDOWN_DISABLED, _SWITCH)
    # Also a Job of a former attempt, which may only just begin.
    if running := find_removing_job(seen):
        return step.updating(reason, f"Waiting for Job {running} to end")
    if installer := _find_installer(seen):
        return step.updating(reason, _explain_installer(step, installer))
    if is_manual:
        message = _explain_verification(seen.node, change)
        return Verdict(NodeState.BLOCKED, reason, message)
    if not seen.node.ready:
        return step.updating(reason, "The node has rebooted, but is not Ready yet")
    if change.failure is not None and change.failure.phase is ChangePhase.REBOOTED:
        return step.updating(reason, _NO_JOB_AGAIN)
    create = CreateJob(node, name_job(seen.node, change, JobPhase.VERIFY), JobPhase.VERIFY)
    message = "Creating a Job that checks whether the kernel module is loaded"
    return step.updating(reason, message, create)


def _is_left_alone(step: Step) -> bool:
    """Return whether the operator has no step to take on the node, and no Job of it runs there."""
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
    """Return whether the module was verified to be gone in the boot that followed its removal."""
    if _is_complete(_find_job(step.seen, step.change, JobPhase.VERIFY)):
        return True
    is_set = step.seen.node.teardown == names.TEARDOWN_DONE
    is_manual = step.policy.teardown is TeardownPolicy.MANUAL
    return is_manual and is_set and not _is_consumed(step)


def _is_consumed(step: Step) -> bool:
    """Return whether the node has a `done` annotation that does not count for this boot."""
    seen, change = step.seen, step.change
    assert change.teardown is not None
    if seen.node.teardown != names.TEARDOWN_DONE:
        return False
    if change.teardown.consumed:
        return True
    if change.phase is not ChangePhase.REBOOTED:
        return not has_rebooted(seen, change)
    # The module was found to be loaded, or an installer may be loading it just now.
    verification = _find_job(seen, change, JobPhase.VERIFY)
    is_seen = verification is not None and verification.state is JobState.FAILED
    return is_seen or bool(_find_installer(seen))


def _find_job(seen: NodeSnapshot, change: Change, phase: JobPhase) -> Job | None:
    """Find the Job of this phase by its name, unless that Job does something else."""
    job = seen.jobs.get(name_job(seen.node, change, phase))
    return job if job is not None and _does(job, phase) else None


def _does(job: Job, phase: JobPhase) -> bool:
    return job.args[:1] == (phase,)


def _is_complete(job: Job | None) -> bool:
    return job is not None and job.state is JobState.COMPLETE


def _find_installer(seen: NodeSnapshot) -> str:
    """Return a DaemonSet that still has a pod on the node and would load the module; else empty."""
    return min((pod.daemonset for pod in seen.pods if pod.daemonset in INSTALLERS), default="")


def _explain_installer(step: Step, installer: str) -> str:
    return (
        f"Waiting for DaemonSet {step.ctx.name_of(installer)} to leave the node: it would load the "
        f"kernel module again. {advise_pods(step.seen.node, step.ctx, installer)}"
    )


def _explain_failed(job: Job) -> str:
    return f"`kubectl logs -n {job.namespace} job/{job.name}` shows why ({job.message})"


def _explain_verification(node: Node, change: Change) -> str:
    assert change.teardown is not None
    if change.teardown.consumed:
        return f"The node has rebooted, but {_EARLY}. First run {_annotate(node, _START)}"
    return (
        f"The node has rebooted. On it, `{_CHECK}` must print nothing. Then run "
        f"{_annotate(node, _DONE)}{_describe_unexpected_value(node)}"
    )


def _describe_unexpected_value(node: Node) -> str:
    """Return a message if the teardown annotation has an unexpected value; else empty."""
    if node.teardown in ("", names.TEARDOWN_START):
        return ""
    shown = ascii(node.teardown[:_WORD_CHARACTERS])[: 2 * _WORD_CHARACTERS]
    return f". {names.ANNOTATION_TEARDOWN} is now {shown}, which is not expected"


def _annotate(node: Node, annotation: str) -> str:
    return f"`kubectl annotate node {node.name} {annotation} --overwrite`"
