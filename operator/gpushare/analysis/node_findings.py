"""Finds what is wrong on a node, in a pool or not: `explain node` shows it for one node, `doctor`
once for all nodes with the same problem."""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import replace

from gpushare import names
from gpushare.analysis.card_holders import judge_card_holders
from gpushare.analysis.finding import Finding, FindingCode, Severity, report
from gpushare.api.k8s.node import Node
from gpushare.api.pool import Pool
from gpushare.core.cause import Cause
from gpushare.core.deviceplugin.findings import (
    RESTART_STATIC_PLUGIN,
    find_competing_plugins,
    find_plugin_problem,
    list_few,
)
from gpushare.core.deviceplugin.verification import verify_mode
from gpushare.core.nodechange.blockers import (
    find_mig,
    find_missing_daemonset,
    find_other_edition,
    find_other_stack,
)
from gpushare.core.snapshot.actions import NodePlan, NodeState
from gpushare.core.snapshot.cluster import NodeContext
from gpushare.core.snapshot.isolation import find_pods_without_card
from gpushare.core.snapshot.node import ReconcileContext
from gpushare.editions.cards import find_card_sign
from gpushare.editions.edition import Mode
from gpushare.editions.installed_stacks import Stack, find_stacks
from gpushare.editions.registry import EDITIONS, find_edition, find_mode, find_schedule
from gpushare.names import Reason

_SEVERITIES = {
    NodeState.FAILED: Severity.ERROR,
    NodeState.BLOCKED: Severity.WARNING,
    NodeState.UPDATING: Severity.INFO,
    NodeState.WAITING: Severity.INFO,
}
_WARNINGS = frozenset(
    {
        # It may be on its way.
        Reason.PLUGIN_RESTARTING,
        Reason.COMPONENT_NOT_READY,
        Reason.RESOURCE_NOT_READY,
        # The node is in its mode all the same.
        Reason.WHOLE_CARD_PLUGIN_MISSING,
        Reason.EXTENDER_STALE,
        Reason.CONFIG_CHANGED,
        Reason.UNHEALTHY_CARDS,
    }
)
"""Plugin problems that are warnings; all others are errors."""
_ECS = re.compile(r"(alicloud://)?[a-z0-9-]+\.i-[a-z0-9]+")
"""A region and an instance, as ACK's cloud controller manager writes `spec.providerID`."""
_CONTAINER_OS = ("containeros", "lifsea")
"""Parts of `osImage`, in lower case, of ContainerOS: the product, and the distribution that it is
made from."""


def judge_node(
    context: NodeContext, pool: Pool | None, plan: NodePlan | None, ctx: ReconcileContext | None
) -> tuple[Finding, ...]:
    """Find what is wrong on a node of `pool`, with this `plan` for it: of each code the worst.

    Without a pool the node's labels say what it should be. Without `ctx` it is not known what runs
    on the node.
    """
    found: dict[FindingCode | Reason, Finding] = {}
    for finding in _judge(context, pool, plan, ctx):
        known = found.setdefault(finding.code, finding)
        if finding.severity.rank > known.severity.rank:
            found[finding.code] = finding
    return tuple(found.values())


def _judge(
    context: NodeContext, pool: Pool | None, plan: NodePlan | None, ctx: ReconcileContext | None
) -> Iterator[Finding]:
    node, pods = context.seen.node, context.seen.pods
    about = name_node(node)
    if context.unreadable:
        severity = _SEVERITIES[NodeState.BLOCKED]
        yield Finding(severity, Reason.RECORD_UNREADABLE, about, context.unreadable)
    if plan is not None and plan.state is not NodeState.READY:
        yield Finding(_SEVERITIES[plan.state], plan.reason, about, plan.message)
    edition = pool.spec.edition if pool is not None else find_edition(node.labels)
    mode = None if edition is None else find_mode(edition, find_schedule(edition, node.labels))
    wanted = mode if pool is None else find_mode(pool.spec.edition, pool.spec.schedule)
    stacks = find_other_stack(context.seen, wanted)
    is_others = stacks is not None and stacks.reason is Reason.OTHER_STACK
    is_labelled = edition is not None and EDITIONS[edition].switch in node.labels
    if stacks is not None:
        # Two are an error in a pool or not; another alone concerns only the pool that wants its
        # node, whose plan tells it.
        severity = Severity.INFO if is_others else Severity.ERROR
        yield Finding(severity, stacks.reason, about, stacks.message)
    if edition is not None and (other := find_other_edition(node, edition)) is not None:
        yield Finding(Severity.ERROR, other.reason, about, other.message)
    # Where another stack has the node, no plugin of ours has to serve what its labels say, nor
    # the whole cards that no label means.
    others = find_stacks(node, pods).keys() - {Stack.ALIBABA_CLOUD}
    has_other = is_others or (bool(others) and not is_labelled)
    if edition is not None and not has_other:
        if mode is None:
            said = f"The node has {list_switches(node)}, which is not a mode of edition {edition}"
            remedy = "Correct the label (docs/transitions.md lists the modes)"
            yield report(FindingCode.UNKNOWN_MODE, about, said, remedy)
        elif (loaded := context.seen.records.find_loaded(mode)).is_resolved:
            yield from _judge_mode(context, loaded, ctx)
    if without := find_pods_without_card(context.seen):
        listed = list_few(sorted(f"{pod.namespace}/{pod.name}" for pod in without))
        yield report(
            FindingCode.WITHOUT_CARD,
            about,
            f"Pods run, but the device plugin gave them no card: {listed}",
            "Delete them. Let one container of a pod request all of its GPU memory "
            "(docs/tenants.md)",
        )
    # A node without cards has nothing that such pods could hold.
    is_member = plan is not None and plan.reason is not Reason.NO_GPU_ON_NODE
    if is_member or is_labelled or others or find_card_sign(node):
        yield from judge_card_holders(node, pods)
    if any(pod.is_static_plugin and pod.is_live for pod in pods):
        yield report(
            FindingCode.STATIC_POD,
            about,
            "The node's whole-card plugin is a static pod, which only its kubelet restarts",
            f"To restart it: {RESTART_STATIC_PLUGIN}",
        )


def _judge_mode(
    context: NodeContext, mode: Mode, ctx: ReconcileContext | None
) -> Iterator[Finding]:
    node, pods, change = context.seen.node, context.seen.pods, context.seen.records.change
    about = name_node(node)
    if names.RESOURCE_GPU_MEMORY in mode.resources and (mig := find_mig(node)) is not None:
        yield Finding(Severity.WARNING, mig.reason, about, mig.message)
    if ctx is not None:
        if (missing := find_missing_daemonset(mode, pods, ctx)) is not None:
            yield Finding(Severity.ERROR, missing.reason, about, missing.message)
        # The plan of a change reports its own problems.
        if change is None or not change.is_under_way:
            yield from _judge_plugins(context, mode, ctx)
    if mode.isolated:
        yield from judge_cgpu(node)


def _judge_plugins(context: NodeContext, mode: Mode, ctx: ReconcileContext) -> Iterator[Finding]:
    """Find why the node's plugins do not serve the mode of its labels."""
    seen = context.seen
    problem = find_plugin_problem(seen, mode, ctx)
    if problem is not None and problem.wait is not None:
        # Too early to call it one.
        problem = None
    for lack in (
        verify_mode(seen, mode, ctx),
        find_competing_plugins(seen.node, seen.pods, mode, ctx),
        problem,
    ):
        if lack is not None:
            yield Finding(_find_severity(lack), lack.reason, name_node(seen.node), lack.message)


def _find_severity(lack: Cause) -> Severity:
    if lack.wait is not None:
        return Severity.INFO
    return Severity.WARNING if lack.reason in _WARNINGS else Severity.ERROR


def judge_cgpu(node: Node) -> Iterator[Finding]:
    """Check the vendor's limits of cGPU on a node whose mode isolates, or will, as far as the API
    shows them; docs/ack.md has all of them."""
    if not _ECS.fullmatch(node.provider_id):
        yield report(
            FindingCode.NOT_ECS,
            name_node(node),
            f"The node's providerID {node.provider_id!r} is not that of an ECS instance, but cGPU "
            "isolates only on ECS instances",
            "Use mode share for the node (docs/ack.md#limits)",
        )
    if any(name in node.os_image.lower() for name in _CONTAINER_OS):
        yield report(
            FindingCode.CONTAINER_OS,
            name_node(node),
            f"The node runs {node.os_image}, where cGPU needs ack-ai-installer 1.12.6 or newer. "
            "The API does not show the installed version",
            "Check the version with `helm list -n kube-system --filter ack-ai-installer`",
        )


def name_node(node: Node) -> str:
    """Name the node as the object of a finding."""
    return f"node {node.name}"


def list_switches(node: Node) -> str:
    """List the node's labels that set an edition's mode."""
    present = (each.switch for each in EDITIONS.values() if each.switch in node.labels)
    return ", ".join(f"{key}={node.labels[key]}" for key in present)


def group_by_code(findings: Iterable[Finding]) -> list[Finding]:
    """Merge findings of one code: the worst, with the number of nodes that have it."""
    by_code: defaultdict[FindingCode | Reason, list[Finding]] = defaultdict(list)
    for finding in findings:
        by_code[finding.code].append(finding)
    grouped = []
    for alike in by_code.values():
        worst = max(alike, key=lambda finding: finding.severity.rank)
        if len(alike) > 1:
            told = f"For example {worst.object}: {worst.message}"
            worst = replace(worst, object=f"{len(alike)} nodes", message=told)
        grouped.append(worst)
    return grouped
