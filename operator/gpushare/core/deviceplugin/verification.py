"""Checks whether a node has reached its mode."""

from collections.abc import Collection
from datetime import datetime, timedelta

from gpushare.api.k8s.pod import Pod
from gpushare.core.cause import Cause
from gpushare.core.deviceplugin.findings import (
    advise_pods,
    explain_no_ready_pod,
    explain_still_offered,
    explain_zero,
    find_changed_config,
    find_competing_plugins,
    tell_logs,
)
from gpushare.core.snapshot.node import NodeSnapshot, ReconcileContext
from gpushare.editions.edition import Mode
from gpushare.editions.plugins import find_serving
from gpushare.editions.registry import EDITIONS, get_mode
from gpushare.names import Reason


def verify_mode(
    seen: NodeSnapshot,
    mode: Mode,
    ctx: ReconcileContext,
    *,
    replaced: Collection[str] = (),
    previous_mode: Mode | None = None,
) -> Cause | None:
    """Find what a node still lacks to be in `mode`; pods with a UID in `replaced` do not count.

    A node that is not Ready is reported as such first: nothing else on it is known, or progresses.
    """
    missing = _find_missing(seen, mode, ctx, replaced, previous_mode)
    if missing is None or seen.node.ready:
        return missing
    message = f"The node is not Ready. Check its kubelet. {missing.message}"
    return Cause(Reason.NODE_NOT_READY, message, wait=missing.wait)


def _find_missing(
    seen: NodeSnapshot,
    mode: Mode,
    ctx: ReconcileContext,
    replaced: Collection[str],
    previous_mode: Mode | None,
) -> Cause | None:
    """Find the first thing that the node lacks to serve `mode`.

    A Ready pod of the plugin is not enough: the resource must be allocatable, and no other plugin
    may serve it, except the plugin of `previous_mode`.
    """
    node, pods, lacking = seen.node, seen.pods, seen.records.lacking_cards
    serving = find_serving(pods, mode, replaced)
    by_recoverer = mode.relies_on_recoverer(ctx.daemonsets)
    recoverer = (mode.recoverer,) if by_recoverer and not serving else ()
    ready = {p.daemonset for p in pods if p.ready and not p.deleting and p.uid not in replaced}
    for component in (*mode.components, *recoverer):
        if component not in ready:
            message = explain_no_ready_pod(node, pods, component, ctx)
            return Cause(Reason.COMPONENT_NOT_READY, message)
    if mode.plugin and not serving and not by_recoverer:
        message = explain_no_ready_pod(node, pods, mode.plugin, ctx)
        return Cause(Reason.PLUGIN_RESTARTING, message)
    for resource in mode.resources:
        if not node.allocatable.get(resource):
            return explain_zero(node, serving, mode, resource, ctx)
    if (competing := find_competing_plugins(node, pods, mode, ctx, previous_mode)) is not None:
        return competing
    if difference := EDITIONS[mode.edition].find_difference(node, pods, mode, lacking):
        return find_changed_config(mode, ctx) or Cause(
            Reason.RESOURCE_NOT_READY,
            f"{difference}. To see why, run {tell_logs(serving)}. If it stays, drain the node and "
            "delete that pod: then it loads its configuration again",
        )
    return None


def verify_return(seen: NodeSnapshot, ctx: ReconcileContext) -> Cause | None:
    """Find what a node still lacks for its change to be complete; None when nothing is missing.

    The kubelet reports a resource late, so a value that could be left from the old plugin is
    trusted only after it went through zero (`seen.was_zero`), or when the new plugin has been Ready
    for `Timing.settle`. The resources of the old mode must be gone.
    """
    node, pods, change = seen.node, seen.pods, seen.records.change
    assert change is not None
    from_mode, to = get_mode(change.edition, change.from_mode), change.mode
    replaced = {plugin.uid for plugin in change.plugins}
    missing = verify_mode(seen, to, ctx, replaced=replaced, previous_mode=from_mode)
    if missing is not None:
        return missing
    serving = find_serving(pods, to, replaced)
    if change.restart and serving and not seen.was_zero:
        settle = ctx.timing.settle
        ready_since = max(_find_ready_since(pod, ctx) for pod in serving)
        if (left := ready_since + settle - ctx.now) > timedelta():
            return Cause(
                Reason.RESOURCE_NOT_READY,
                f"Waiting until DaemonSet {ctx.name_of(to.plugin)} has been Ready for "
                f"{settle.total_seconds():g} s: {to.resource} may still be the former plugin's",
                wait=left,
            )
    if (
        from_mode.plugin
        and from_mode.plugin != to.plugin
        and any(pod.daemonset == from_mode.plugin for pod in pods)
    ):
        message = f"DaemonSet {ctx.name_of(from_mode.plugin)} still has a pod on the node"
        return Cause(
            Reason.PLUGIN_RESTARTING, f"{message}. {advise_pods(node, ctx, from_mode.plugin)}"
        )
    for resource in from_mode.resources:
        if resource not in to.resources and node.allocatable.get(resource):
            return explain_still_offered(pods, from_mode, resource)
    return None


def _find_ready_since(pod: Pod, ctx: ReconcileContext) -> datetime:
    """Return since when a pod is Ready, or since when it exists if its node's clock is ahead."""
    is_ahead = pod.ready_since is not None and pod.ready_since - ctx.now > ctx.timing.settle
    return (pod.created if is_ahead else pod.ready_since) or ctx.now
