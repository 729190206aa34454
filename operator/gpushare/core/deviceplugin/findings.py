"""Finds what is wrong with the plugins of a node, and how to fix it.

A status shows only the beginning of a message, so details that nobody acts on come last. A plugin
registers a moment after its pod is Ready, and the kubelet reports resources late: such a delay is
no problem before its time is over.
"""

from collections.abc import Collection, Sequence
from datetime import datetime, timedelta

from gpushare import names
from gpushare.api.k8s.daemonset import UNNAMED
from gpushare.api.k8s.node import Node
from gpushare.api.k8s.pod import CRASH_LOOP, Pod
from gpushare.api.pool import Schedule
from gpushare.core.capacity.node_capacity import tell_unit
from gpushare.core.cause import Cause
from gpushare.core.deviceplugin.scheduler_errors import RESTART
from gpushare.core.snapshot.node import NodeSnapshot, ReconcileContext
from gpushare.editions.edition import Mode
from gpushare.editions.installed_stacks import describe_competing, find_stacks
from gpushare.editions.plugin_daemonsets import CHART_VALUE
from gpushare.editions.plugins import (
    SERVED,
    STATIC_PLUGIN,
    find_competing,
    find_twins,
    identify_plugin,
    is_plugin_of,
    may_offer,
)
from gpushare.editions.registry import EDITIONS
from gpushare.names import Reason

SHOWN = 3
STATIC_MANIFEST = "/etc/kubernetes/manifests/nvidia-device-plugin.yml"
RESTART_STATIC_PLUGIN = (
    f"move {STATIC_MANIFEST} out of that folder on the node, wait 5 s and move it back (deleting "
    "the pod restarts nothing)"
)
"""The vendor's steps (page on updating and restarting the device plugin)."""
_REMOVE_UNKNOWN_PLUGIN = (
    "remove the plugin that serves it (another namespace, /etc/kubernetes/manifests), or restart "
    "the kubelet"
)
_ALREADY_CONNECTED = "device plugin already connected"
"""The kubelet's refusal of a plugin's registration, which lasts until the kubelet restarts (seen on
1.37)."""
_RESTART_KUBELET = "restart the kubelet on the node (`systemctl restart kubelet`)"
REMOVE_STATIC_PLUGIN = (
    f"Move {STATIC_MANIFEST} out of that folder on the node (deleting the pod stops nothing)"
)
RETURN_STATIC_PLUGIN = f"move nvidia-device-plugin.yml back to {STATIC_MANIFEST} on the node"


TOLD = frozenset(
    {Reason.WHOLE_CARD_PLUGIN_MISSING, Reason.LEFT_OVER_RESOURCE, Reason.MEMORY_UNIT_DIFFERS}
)
"""Reasons of problems on nodes that are in their mode nevertheless: only a user can act."""


def find_plugin_problem(seen: NodeSnapshot, mode: Mode, ctx: ReconcileContext) -> Cause | None:
    """Find the first problem of a node at rest that lacks nothing to be in `mode`.

    A cause that has a `wait` is too early to report.
    """
    node, pods = seen.node, seen.pods
    return (
        find_missing_whole_card(node, mode)
        or find_left_over(node, pods, mode, ctx)
        or find_other_unit(node, ctx)
        or find_stale_extender(node, pods, mode)
        or find_changed_config(mode, ctx)
        or find_unhealthy_cards(node, mode, seen.unhealthy_cards)
    )


def find_missing_whole_card(node: Node, mode: Mode) -> Cause | None:
    """Find that a node that no longer shares its cards offers no whole cards either.

    Open-source gpushare brings no whole-card plugin: leaving share is complete without it (pods
    that ask for gpu-mem go elsewhere), but a node that offers no GPU at all is reported.
    """
    is_expected = bool(mode.resource) or mode.schedule is not Schedule.DEFAULT
    if is_expected or node.allocatable.get(names.RESOURCE_WHOLE_GPU):
        return None
    return Cause(
        Reason.WHOLE_CARD_PLUGIN_MISSING,
        f"Sharing is off, but no plugin offers {names.RESOURCE_WHOLE_GPU} on the node. Install the "
        "whole-card plugin again",
    )


def find_left_over(
    node: Node, pods: Sequence[Pod], mode: Mode, ctx: ReconcileContext
) -> Cause | None:
    """Find a resource of another mode that the node still offers, served by no known plugin."""
    left_over = [
        resource
        for resource, amount in node.allocatable.items()
        if amount and resource in names.GPU_RESOURCES and resource not in may_offer(mode)
    ]
    if not left_over:
        return None
    message = (
        f"The node still offers {' and '.join(sorted(left_over))}, which mode {mode.schedule} "
        f"lacks. To stop that, {_REMOVE_UNKNOWN_PLUGIN}. Its cards can be allocated twice"
    )
    plugins = [pod for pod in pods if identify_plugin(pod)]
    if any(
        pod.deleting and SERVED[identify_plugin(pod)].intersection(left_over) for pod in plugins
    ):
        # The resource goes when its plugin's pod is gone, which is an event.
        return Cause(Reason.LEFT_OVER_RESOURCE, message, wait=ctx.timing.settle)
    since = [pod.ready_since for pod in plugins if pod.ready_since]
    wait = _find_remaining(ctx.timing.settle, since, ctx)
    return Cause(Reason.LEFT_OVER_RESOURCE, message, wait=wait)


def find_other_unit(node: Node, ctx: ReconcileContext) -> Cause | None:
    """Find that the node's plugin counts memory in another unit than the installation."""
    memory = node.allocatable.get(names.RESOURCE_GPU_MEMORY)
    if not memory or not node.gpu_count:
        return None
    per_card = memory // node.gpu_count
    unit = tell_unit(per_card)
    if unit == ctx.memory_unit:
        return None
    return Cause(
        Reason.MEMORY_UNIT_DIFFERS,
        f"The node's plugin counts {unit} (a card offers {per_card} {names.RESOURCE_GPU_MEMORY}), "
        f"the installation {ctx.memory_unit}. Run the plugins of all nodes with "
        f"--memory-unit={ctx.memory_unit} and restart this one; or, if all of them count {unit}, "
        f"set the chart's value memoryUnit to {unit}",
    )


def find_stale_extender(node: Node, pods: Sequence[Pod], mode: Mode) -> Cause | None:
    """Find pods that hold cards which the node does not have, where an extender allocates cards."""
    is_extended = EDITIONS[mode.edition].has_scheduler_extender
    if not is_extended or names.RESOURCE_GPU_MEMORY not in mode.resources:
        return None
    named = sorted(
        f"{pod.namespace}/{pod.name} (card {card})"
        for pod in pods
        if pod.is_live
        and not pod.deleting
        and (card := max(pod.cards, default=0)) >= node.gpu_count > 0
    )
    if not named:
        return None
    return Cause(
        Reason.EXTENDER_STALE,
        f"Pods hold cards that the node, which has {node.gpu_count}, does not have. Delete them, "
        f"then restart the scheduler extender (`{RESTART}`): {list_few(named)}. The node lost "
        "cards, which the extender allocates until it restarts, or a user edited the annotation "
        "of the pods",
    )


def find_unhealthy_cards(node: Node, mode: Mode, reported: Collection[int]) -> Cause | None:
    """Find that the node offers less than its cards have, or cards are `reported` as unhealthy.

    The kubelet removes devices that their plugin reports as unhealthy from allocatable, but not
    from capacity. `reported` has indexes of cards.
    """
    resource, edition = mode.resource, EDITIONS[mode.edition]
    offered = node.allocatable.get(resource, 0)
    _, amounts = edition.find_expected_state(node, mode)
    expected = max(amounts.get(resource, 0), node.capacity.get(resource, 0))
    if 0 < offered < expected:
        return Cause(
            Reason.UNHEALTHY_CARDS,
            f"The node offers {offered} of {expected} {resource}: its other cards are unhealthy, "
            f"or its plugin does not find them. Check `kubectl describe node {node.name}` and the "
            "plugin's log. A repaired card counts when its plugin's pod has restarted",
        )
    cards = sorted(card for card in reported if card < node.gpu_count)
    if not (cards and offered and edition.has_scheduler_extender):
        return None
    config_map = f"{names.EXTENDER_NAMESPACE}/{names.UNHEALTHY_PREFIX}{node.name}"
    return Cause(
        Reason.UNHEALTHY_CARDS,
        f"ConfigMap {config_map} calls cards of the node unhealthy, which the scheduler extender "
        f"gives to no pod: {', '.join(map(str, cards))}. Delete it when they are repaired",
    )


def find_changed_config(mode: Mode, ctx: ReconcileContext) -> Cause | None:
    """Find that the plugin would load something other than `mode` if it started now."""
    edit = ctx.plugin_daemonsets.explain_edit(mode)
    return Cause(Reason.CONFIG_CHANGED, edit) if edit else None


def find_competing_plugins(
    node: Node,
    pods: Sequence[Pod],
    mode: Mode,
    ctx: ReconcileContext,
    previous_mode: Mode | None = None,
) -> Cause | None:
    """Find other plugins that allocate the node's cards, except the plugin of `previous_mode`.

    Plugins of one stack are `CompetingPlugins`, plugins of two stacks `CompetingStacks`: with the
    latter a node at rest is not changed at all (`blockers.find_other_stack`).
    """
    own, competing = find_competing(node, pods, mode, previous_mode)
    if not competing:
        return _find_twins(pods)
    if len(stacks := find_stacks(node, pods)) > 1:
        return Cause(Reason.COMPETING_STACKS, describe_competing(node.name, stacks))
    other, served = _name_plugin(competing[0], pods, ctx), SERVED[competing[0]]
    if same := sorted(served & may_offer(mode)):
        what = (
            f"{_name_plugin(own, pods, ctx)} and {other} both serve {' and '.join(same)} on the "
            "node; its kubelet uses the one that registered last"
        )
    else:
        what = (
            f"{other} serves {' and '.join(sorted(served))} on a node in mode {mode.schedule}: "
            "its cards can be allocated twice"
        )
    return Cause(Reason.COMPETING_PLUGINS, f"{what}. {_explain_removal(competing, pods, ctx)}")


def explain_zero(
    node: Node, serving: Sequence[Pod], mode: Mode, resource: str, ctx: ReconcileContext
) -> Cause:
    """Explain why a node whose plugin is Ready (`serving`, if any) offers no `resource`.

    The plugin writes the number of cards on the node before it registers, and if it finds none it
    stays Running and waits for ever (open-source gpushare-device-plugin). If it found cards, the
    kubelet may have lost the resource (NVIDIA/k8s-device-plugin, issue 1228).
    """
    unclear = f"The node does not offer {resource} (allocatable is 0)"
    if serving and all(pod.is_static_plugin for pod in serving):
        cause = Cause(
            Reason.STATIC_PLUGIN,
            f"{unclear}, although {STATIC_PLUGIN} is Ready. To restart it, {RESTART_STATIC_PLUGIN}",
        )
    elif serving and names.RESOURCE_GPU_MEMORY in mode.resources and not node.gpu_count:
        cause = Cause(
            Reason.NO_CARDS,
            f"DaemonSet {ctx.name_of(mode.plugin)} is Ready but found no card "
            f"({names.RESOURCE_GPU_COUNT} and {resource} are 0). Fix the node's driver, then run "
            f"`kubectl -n {serving[0].namespace} delete pod {serving[0].name}`: the plugin looks "
            "for cards only when it starts",
        )
    elif not serving and mode.relies_on_recoverer(ctx.daemonsets):
        message = (
            f"{unclear}, because {STATIC_PLUGIN} is missing. Check the log of DaemonSet "
            f"{ctx.name_of(mode.recoverer)}, or {RETURN_STATIC_PLUGIN}"
        )
        return Cause(Reason.RESOURCE_NOT_READY, message)
    else:
        advice = f". {advise_pods(node, ctx, mode.plugin)}"
        if serving:
            advice = (
                f", although its plugin is Ready. To see why, run {tell_logs(serving)}. If it "
                "stays, drain the node and delete that pod"
            )
        return Cause(Reason.RESOURCE_NOT_READY, f"{unclear}{advice}")
    since = [pod.ready_since for pod in serving if pod.ready_since]
    wait = _find_remaining(ctx.timing.zero_patience, since, ctx)
    return cause if wait is None else Cause(Reason.RESOURCE_NOT_READY, unclear, wait=wait)


def explain_still_offered(pods: Sequence[Pod], of: Mode, resource: str) -> Cause:
    """Explain why a node that has left mode `of` still offers its `resource`."""
    message = f"The node still offers {resource}: its cards could be allocated twice"
    if any(pod.is_static_plugin and is_plugin_of(pod, of) for pod in pods):
        message = f"{message}, because {STATIC_PLUGIN} is Ready. {REMOVE_STATIC_PLUGIN}"
    else:
        message = f"{message}. If it stays, {_REMOVE_UNKNOWN_PLUGIN}"
    return Cause(Reason.RESOURCE_NOT_READY, message)


def explain_no_ready_pod(
    node: Node, pods: Sequence[Pod], daemonset: str, ctx: ReconcileContext
) -> str:
    """Explain why a DaemonSet has no Ready pod on the node, and what a user can do about it."""
    name, own = ctx.name_of(daemonset), [pod for pod in pods if pod.daemonset == daemonset]
    if crashing := next((pod for pod in own if pod.crash and not pod.deleting), None):
        remedy = f"The kubelet refuses it ('{_ALREADY_CONNECTED}'): {_RESTART_KUBELET}"
        if _ALREADY_CONNECTED not in crashing.crash:
            logs = f"`kubectl -n {crashing.namespace} logs {crashing.name} --previous`"
            remedy = f"Check {logs}. If it says '{_ALREADY_CONNECTED}', {_RESTART_KUBELET}"
        return (
            f"DaemonSet {name} has no Ready pod on the node ({CRASH_LOOP}). {remedy}. Its "
            f"{crashing.crash}"
        )
    found = ctx.plugin_daemonsets.find(daemonset)
    unmet = found.selection.describe_unmet(node.name, node.labels) if found is not None else ()
    if unmet and not own:
        return (
            f"DaemonSet {name} has no pod on the node because it does not select the node, which "
            f"does not match {' and '.join(unmet)}. Correct the node's labels, or the node "
            "selector or affinity of the DaemonSet"
        )
    if not own and found is not None:
        namespace = ctx.plugin_daemonsets.namespace_of(daemonset)
        return (
            f"DaemonSet {name} has no pod on the node. If that lasts, run `kubectl -n {namespace} "
            f"describe daemonset {name}`: its pod may be Pending for want of resources, or a taint "
            "keeps it off"
        )
    return f"DaemonSet {name} has no Ready pod on the node. {advise_pods(node, ctx, daemonset)}"


def advise_pods(node: Node, ctx: ReconcileContext, daemonset: str) -> str:
    """Return the command by which a user finds the pods of a DaemonSet on a node."""
    namespace = ctx.plugin_daemonsets.namespace_of(daemonset)
    where = f"-n {namespace}" if namespace else "-A"
    return f"Check `kubectl {where} get pods -o wide --field-selector spec.nodeName={node.name}`"


def tell_logs(serving: Sequence[Pod]) -> str:
    """Return the command by which a user reads the log of the plugin's first serving pod."""
    return f"`kubectl -n {serving[0].namespace} logs {serving[0].name}`"


def _find_twins(pods: Sequence[Pod]) -> Cause | None:
    twins = find_twins(pods)
    if not twins:
        return None
    listed = " and ".join(f"{pod.namespace}/{pod.name}" for pod in twins)
    return Cause(
        Reason.COMPETING_PLUGINS,
        f"Pods {listed} of different owners run the same device plugin on the node: its kubelet "
        "uses the one that registered last. Remove all but one, with its owner or by the owner's "
        "node selector",
    )


def _name_plugin(plugin: str, pods: Sequence[Pod], ctx: ReconcileContext) -> str:
    """Name a plugin, a key of `SERVED`, by its DaemonSet, or by its pod if that is unknown."""
    if not plugin.startswith(UNNAMED):
        return ctx.name_of(plugin)
    found = min((pod for pod in pods if pod.daemonset == plugin), key=lambda pod: pod.uid)
    return f"pod {found.namespace}/{found.name}"


def _explain_removal(competing: Sequence[str], pods: Sequence[Pod], ctx: ReconcileContext) -> str:
    """Return instructions by which a user removes the `competing` plugins from a node."""
    named = [each for each in competing if not each.startswith(UNNAMED)]
    steps = []
    if daemonsets := [ctx.name_of(each) for each in named if each != STATIC_PLUGIN]:
        listed = " and ".join(daemonsets)
        steps.append(
            f"Keep DaemonSet {listed} off the node by its node selector or affinity (deleting it "
            "removes it from all nodes)"
        )
    steps += [
        f"Remove {_name_plugin(each, pods, ctx)} from the node, by the node selector of its owner "
        f"or with it. If it is the installation's own, set the chart's value {CHART_VALUE}"
        for each in competing
        if each not in named
    ]
    if STATIC_PLUGIN in competing:
        steps.append(REMOVE_STATIC_PLUGIN)
    return ". ".join(steps)


def list_few(items: Sequence[str], shown: int = SHOWN) -> str:
    """List the first `shown` items in a string, and count the others."""
    more = f" and {len(items) - shown} more" if len(items) > shown else ""
    return ", ".join(items[:shown]) + more


def _find_remaining(
    patience: timedelta, since: Sequence[datetime], ctx: ReconcileContext
) -> timedelta | None:
    """Return the rest of `patience`, counted from the last of `since`; None if none is left."""
    remaining = max(since) + patience - ctx.now if since else timedelta()
    return remaining if remaining > timedelta() else None
