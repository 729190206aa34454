"""Finds what must be gone from a node before its mode may change."""

from collections.abc import Iterable, Mapping, Sequence

from gpushare import names
from gpushare.api.k8s.daemonset import DRIVER_DAEMONSET, FORMER
from gpushare.api.k8s.node import Node
from gpushare.api.k8s.pod import Pod
from gpushare.api.pool import Edition, Schedule
from gpushare.core.cause import Cause
from gpushare.core.deviceplugin.findings import list_few
from gpushare.core.snapshot.actions import NamedPod
from gpushare.core.snapshot.node import NodeSnapshot, ReconcileContext
from gpushare.editions.cards import describe_mig
from gpushare.editions.edition import Mode, Outcome, Transition
from gpushare.editions.installed_stacks import (
    FOREIGN,
    describe_competing,
    describe_other,
    find_stacks,
)
from gpushare.editions.plugin_daemonsets import CHART_VALUE
from gpushare.editions.plugins import STATIC_PLUGIN, is_plugin_of
from gpushare.editions.registry import EDITIONS, find_other_edition_labels
from gpushare.names import Reason

_VERIFIED = (names.LABEL_ISOLATION_VERIFIED, names.VERIFIED)


def find_blocking_pods(
    transition: Transition, from_mode: Mode, to: Mode, pods: Iterable[Pod]
) -> Cause | None:
    """Find the first kind of pod on the node that the change would harm.

    In every change: pods that select labels which the node loses, and pods that are bound but not
    started: the kubelet asks the plugin for devices when a pod starts, and fails it for good while
    the plugin is away. Where running pods keep their devices (the Basic edition's isolation flip,
    a plugin's restart): pods that require isolation, if the node loses it. In all other changes:
    every live pod that requests the old mode's resource, as the vendor's common rule says, or that
    holds, or may hold, cards by NVIDIA's DRA driver, unless the node is handed to that driver. In a
    teardown, which unloads a module that they may use, also pods that may hold cards unrequested.
    """
    live = [pod for pod in pods if pod.is_live]
    groups = [
        (
            [pod for pod in live if _selects_lost(pod, from_mode, to)],
            f"select the mode {from_mode.schedule}",
        ),
        ([pod for pod in live if pod.phase == "Pending" and pod.requests], "have not started"),
    ]
    if not transition.keeps_workloads:
        counted = (from_mode.resource, *from_mode.companions, *from_mode.also_used)
        resources = {each for each in counted if each}
        users = [pod for pod in live if not resources.isdisjoint(pod.requests)]
        groups.append((users, f"use {from_mode.resource}"))
        # Mode `disabled` hands the node to their driver.
        others = live if to.schedule is not Schedule.DISABLED else []
        claimants = [pod for pod in others if pod.has_claimed_cards]
        groups.append((claimants, "hold cards by ResourceClaims"))
        unknown = [pod for pod in others if pod.has_claimed_cards is None]
        groups.append((unknown, "have ResourceClaims that are not found or can't be read"))
        if transition.outcome is Outcome.REQUIRES_TEARDOWN:
            holders = [pod for pod in live if pod.may_hold_cards]
            groups.append((holders, "may hold cards that no pool counts"))
    elif not to.isolated:
        strict = [pod for pod in live if pod.requires_isolation and pod.requests]
        groups.append((strict, f"require isolation ({names.ANNOTATION_ISOLATION})"))
    every = {pod.uid: pod for group, _ in groups for pod in group}
    found = (_wait_for(what, blocking, every.values()) for blocking, what in groups)
    return next(filter(None, found), None)


def find_evictable_pods(transition: Transition, pods: Iterable[Pod]) -> tuple[NamedPod, ...]:
    """Find which of the `pods` that hold a change up may be evicted: those that request cards.

    A DaemonSet's pods would come back at once, and mirror pods belong to the kubelet
    (API-initiated Eviction, Kubernetes documentation). Where running pods keep their devices,
    pods that have yet to start are waited for instead.
    """
    return tuple(
        NamedPod(pod.namespace, pod.name, pod.uid)
        for pod in sorted(pods, key=lambda pod: (pod.namespace, pod.name))
        if (pod.requests or pod.has_claimed_cards)
        and pod.is_evictable
        and not pod.deleting
        and not (transition.keeps_workloads and pod.phase == "Pending")
    )


def find_pods_of_another_mode(to: Mode, pods: Iterable[Pod]) -> Cause | None:
    """Find live pods that hold GPUs which the labels of `to` would allocate a second time.

    The node's labels alone do not show this: deleting a label switches no mode off.
    """
    users = [
        pod
        for pod in pods
        if pod.is_live
        and (pod.has_claimed_cards or (pod.requests and to.resource not in pod.requests))
    ]
    return _wait_for("use another mode's GPUs", users, users) if to.resource else None


def find_pods_of_another_pool(node: Node, pool: str, pods: Iterable[Pod]) -> Cause | None:
    """Find live pods that select the node's present pool, if it would leave that for `pool`.

    A kubelet that restarts rejects pods whose node selector its node does not match any more.
    """
    current = node.labels.get(names.LABEL_POOL, pool)
    users = [pod for pod in pods if pod.is_live and (names.LABEL_POOL, current) in pod.selects]
    return _wait_for(f"select pool {current}", users, ()) if current != pool else None


def find_reason_to_stay_away(seen: NodeSnapshot, to: Mode, pool: str) -> Cause | None:
    """Find why `pool` must not change the node to mode `to`, or to any mode."""
    return (
        find_mig(seen.node)
        or find_other_stack(seen, to)
        or find_other_edition(seen.node, to.edition)
        or _find_users_of_configuration(seen, to)
        or find_pods_of_another_pool(seen.node, pool, seen.pods)
    )


def _find_users_of_configuration(seen: NodeSnapshot, to: Mode) -> Cause | None:
    """Find GPU pods on a node that leaves an edition whose plugin follows its label at once.

    The operator owns that label: when it goes, the devices of these pods go with it.
    """
    applied = seen.records.applied
    if applied is None or not applied.mode.follows_label or applied.edition is to.edition:
        return None
    users = [pod for pod in seen.pods if pod.is_live and pod.requests]
    return _wait_for("use GPUs", users, users)


def find_other_stack(seen: NodeSnapshot, to: Mode | None = None) -> Cause | None:
    """Find stacks that give out the node's cards twice, or one beside which mode `to` can't work.

    Mode `disabled` brings no plugin: it hands a node to such a stack.

    Two plugins of one stack do not count here (`findings.find_competing_plugins` reports them),
    since a change may be what removes one of them. Nor do Alibaba Cloud's and NVIDIA's stacks
    together once a change has written its labels: one leaves and the other comes, also where the
    change failed and the next one, or its rollback, leads back.
    """
    node, change = seen.node, seen.records.change
    stacks = find_stacks(node, seen.pods, seen.resource_slices)
    if len(stacks) > 1:
        is_on_its_way = change is not None and change.is_under_way and not change.is_only_cordoned
        if is_on_its_way and FOREIGN.isdisjoint(stacks):
            return None
        return Cause(Reason.COMPETING_STACKS, describe_competing(node.name, stacks))
    other = next((stack for stack in stacks if stack in FOREIGN), None)
    if other is None or (to is not None and to.schedule is Schedule.DISABLED):
        return None
    return Cause(Reason.OTHER_STACK, describe_other(node.name, other, stacks[other]))


def find_mig(node: Node) -> Cause | None:
    """Find whether the node's cards are split into MIG devices, which can't be shared."""
    mig = describe_mig(node)
    return Cause(Reason.MIG_NODE, mig) if mig else None


def find_unready(seen: NodeSnapshot) -> Cause | None:
    """Find why no device plugin can serve the node yet: it is not Ready, or its driver is not."""
    if not seen.node.ready:
        return Cause(Reason.NODE_NOT_READY, "The node is not Ready")
    for pod in seen.pods:
        if pod.daemonset == DRIVER_DAEMONSET and not pod.ready:
            message = f"Pod {pod.namespace}/{pod.name}, which installs the GPU driver, is not Ready"
            return Cause(Reason.DRIVER_NOT_READY, message)
    return None


def find_missing_config(to: Mode, pods: Iterable[Pod], ctx: ReconcileContext) -> Cause | None:
    """Find why a plugin that starts now can't load mode `to`: no DaemonSet, or no ConfigMap key."""
    plugins, missing = ctx.plugin_daemonsets, find_missing_daemonset(to, pods, ctx)
    if missing is not None or plugins.defines(to):
        return missing
    return Cause(Reason.CONFIG_MISSING, plugins.explain_unresolved(to))


def find_other_edition(node: Node, edition: Edition) -> Cause | None:
    """Find labels of another edition by which the node's GPUs are shared too."""
    others = find_other_edition_labels(edition, node.labels)
    if not others:
        return None
    shown = ", ".join(f"{key}={value}" for key, value in sorted(others.items()))
    theirs = [each.edition for each in EDITIONS.values() if each.switch in others]
    message = (
        f"Labels of another edition ({' and '.join(theirs)}) share the node's GPUs: {shown}. If "
        f"its components run, recreate the pool with spec.edition {' or '.join(theirs)} (the "
        "edition cannot be changed). If they are gone, remove these labels"
    )
    return Cause(Reason.OTHER_EDITION_LABELS, message)


def find_missing_daemonset(to: Mode, pods: Iterable[Pod], ctx: ReconcileContext) -> Cause | None:
    """Find a missing DaemonSet without which the node would never reach mode `to`.

    The plugin's own DaemonSet is not needed where the plugin runs on the node as a static pod, or
    where the recoverer's DaemonSet is there to put that pod's manifest back.
    """
    missing = [name for name in to.daemonsets if name not in ctx.daemonsets]
    is_static = to.relies_on_recoverer(ctx.daemonsets) or any(is_plugin_of(pod, to) for pod in pods)
    if to.plugin in missing and is_static:
        missing.remove(to.plugin)
    if not missing:
        return None
    needs = f"Mode {to.schedule} of the {to.edition} edition needs DaemonSet"
    namespace = ctx.plugin_daemonsets.namespace_of(missing[0])
    where = f"in namespace {namespace}"
    if not namespace:
        where = f"because the chart's value {EDITIONS[to.edition].namespace_value} is not set"
    if to.recoverer:
        either = (to.plugin, to.recoverer)
        message = (
            f"{needs} {' or '.join(map(ctx.name_of, either))} {where}, or {STATIC_PLUGIN} on the "
            f"node. None was found. Install one of the two{_suggest(either, ctx)}, or restore the "
            "static pod (docs/ack.md). The node is not changed until then"
        )
    else:
        plural, install = ("s", "them") if len(missing) > 1 else ("", "it")
        message = (
            f"{needs}{plural} {' and '.join(map(ctx.name_of, missing))}, not found {where}. "
            f"Install {install} ({EDITIONS[to.edition].installed_by}){_suggest(missing, ctx)}. The "
            "node is not changed until then"
        )
    return Cause(Reason.COMPONENT_MISSING, message)


def find_left_over_plugin(
    node: Node, to: Mode, wanted: Mapping[str, str], pods: Iterable[Pod], ctx: ReconcileContext
) -> Cause | None:
    """Find a DaemonSet by the former name of the plugin of `to`, which would run beside it.

    Its node selector admits the node with the labels `wanted`. If it admits the node already and
    has no pod there, something else, such as a taint, keeps it off, and it does not count.
    """
    former = f"{FORMER}{to.plugin}"
    daemonset = ctx.plugin_daemonsets.find(former)
    if daemonset is None or not daemonset.selection.admits(node.name, {**node.labels, **wanted}):
        return None
    runs, name = any(pod.daemonset == former for pod in pods), ctx.name_of(former)
    if not runs and daemonset.selection.admits(node.name, node.labels):
        return None
    return Cause(
        Reason.COMPETING_PLUGINS,
        f"DaemonSet {name}, replaced by {ctx.name_of(to.plugin)}, would serve {to.resource} on the "
        f"node too. Delete {name}, or keep {name} off the node by its node selector. The node is "
        "not changed until then",
    )


def _suggest(missing: Iterable[str], ctx: ReconcileContext) -> str:
    """Suggest DaemonSets that may be the `missing` ones, and the chart's value to set.

    Empty where no name is similar.
    """
    return "".join(
        f", or if it is named {' or '.join(found)}, set the chart's value {CHART_VALUE}.{name}"
        for name in missing
        if (found := ctx.plugin_daemonsets.suggest(name))
    )


def _selects_lost(pod: Pod, from_mode: Mode, to: Mode) -> bool:
    if from_mode.isolated and not to.isolated and _VERIFIED in pod.selects:
        return True
    return any(
        from_mode.labels.get(key) == value != to.labels.get(key) for key, value in pod.selects
    )


def _wait_for(what: str, users: Sequence[Pod], pods: Iterable[Pod]) -> Cause | None:
    """Return the cause that names `users` and carries `pods`; None where there are no `users`."""
    if not users:
        return None
    listed = list_few(sorted(map(_describe, users)))
    message = f"Pods that {what} must finish or be moved first: {listed}"
    return Cause(Reason.WORKLOADS_PRESENT, message, tuple(pods))


def _describe(pod: Pod) -> str:
    sign = f" ({pod.unrequested})" if pod.may_hold_cards else ""
    return f"{pod.namespace}/{pod.name}{sign}"
