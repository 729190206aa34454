"""Identifies the device plugins on a node, their resources, and those that serve a mode.

Device plugins do not know of each other. If two register one resource, the kubelet uses the last;
two that give out the same cards under different resources each give out all of them.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence

from gpushare import names
from gpushare.api.k8s.daemonset import (
    FORMER,
    GPUSHARE_DAEMONSET,
    HAMI_DAEMONSET,
    MIG_DAEMONSET,
    NVIDIA_DAEMONSET,
    UNNAMED,
)
from gpushare.api.k8s.node import Node
from gpushare.api.k8s.pod import Pod
from gpushare.editions.edition import Mode
from gpushare.editions.registry import MODES

STATIC_PLUGIN = "static pod nvidia-device-plugin"
"""Plugin for whole cards up to Kubernetes 1.31, also left over by an upgrade (vendor's page on
updating the device plugin): a manifest on the node, which only its kubelet starts and stops."""
_WHOLE_CARDS = frozenset({names.RESOURCE_WHOLE_GPU})


def _collect_served() -> Iterator[tuple[str, frozenset[str]]]:
    for plugin in sorted({mode.plugin for mode in MODES.values() if mode.plugin}):
        modes = [mode for mode in MODES.values() if mode.plugin == plugin]
        served = frozenset(resource for mode in modes for resource in mode.resources)
        yield from ((plugin, served), (f"{FORMER}{plugin}", served))
        if plugin == GPUSHARE_DAEMONSET:
            yield f"{UNNAMED}{plugin}", served


SERVED: Mapping[str, frozenset[str]] = {
    **dict(_collect_served()),
    NVIDIA_DAEMONSET: _WHOLE_CARDS | {names.RESOURCE_SHARED_GPU},
    HAMI_DAEMONSET: _WHOLE_CARDS,
    MIG_DAEMONSET: frozenset(),
    STATIC_PLUGIN: _WHOLE_CARDS,
}
"""Resources that each known plugin registers."""


def identify_plugin(pod: Pod) -> str:
    """Identify the plugin, a key of `SERVED`, that `pod` runs; empty where it runs none."""
    if pod.is_static_plugin:
        return STATIC_PLUGIN
    return pod.daemonset if pod.daemonset in SERVED else ""


def is_plugin_of(pod: Pod, mode: Mode) -> bool:
    """Tell whether `pod` runs the plugin of `mode`; for whole cards also a static pod."""
    if not mode.plugin:
        return False
    static = pod.is_static_plugin and mode.resource == names.RESOURCE_WHOLE_GPU
    return static or pod.daemonset == mode.plugin


def find_serving(pods: Sequence[Pod], mode: Mode, replaced: Collection[str] = ()) -> list[Pod]:
    """Find the Ready plugin pods of `mode`; those with a UID in `replaced` do not count."""
    return [
        pod
        for pod in pods
        if pod.ready and not pod.deleting and pod.uid not in replaced and is_plugin_of(pod, mode)
    ]


def may_offer(mode: Mode) -> frozenset[str]:
    """Return the resources that a node in `mode` may offer.

    Modes without a resource may offer whole cards of another plugin: OpenSource's `default`, and
    `disabled`, for a plugin that a user installs.
    """
    return frozenset(mode.resources) or _WHOLE_CARDS


def find_twins(pods: Sequence[Pod]) -> list[Pod]:
    """Find Running pods of one plugin with different owners, as after two installations; return one
    pod of each owner, for the first such plugin."""
    by_plugin: dict[str, dict[str, Pod]] = {}
    serving = [pod for pod in pods if SERVED.get(identify_plugin(pod))]
    for pod in sorted(serving, key=lambda pod: (pod.namespace, pod.name)):
        if pod.phase == "Running" and not pod.deleting:
            by_plugin.setdefault(identify_plugin(pod), {}).setdefault(pod.owner, pod)
    twins = (list(owned.values()) for _, owned in sorted(by_plugin.items()) if len(owned) > 1)
    return next(twins, [])


def find_competing(
    node: Node, pods: Sequence[Pod], mode: Mode, previous_mode: Mode | None = None
) -> tuple[str, tuple[str, ...]]:
    """Find the plugin that serves `mode` on `node`, and other plugins that give out its cards.

    A plugin of another resource counts only if the node offers that resource. A plugin that is
    being deleted, or served `previous_mode`, does not count.
    """
    running = {
        identify_plugin(pod)
        for pod in pods
        if (pod.daemonset in SERVED or pod.is_static_plugin)
        and pod.phase == "Running"
        and not pod.deleting
    }
    if running <= {mode.plugin}:
        return mode.plugin, ()
    if previous_mode is not None:
        running = {plugin for plugin in running if not _is_terminating(plugin, previous_mode, mode)}
    offers = may_offer(mode)
    same = {plugin for plugin in running if SERVED[plugin] & offers}
    # Without a DaemonSet of the edition, any plugin of the resource is the mode's.
    expected = (mode.plugin, STATIC_PLUGIN, *sorted(same))
    own = next((plugin for plugin in expected if plugin in same), mode.plugin)
    twice = {p for p in running - same if any(node.allocatable.get(r) for r in SERVED[p])}
    return own, (*sorted(same - {own}), *sorted(twice))


def _is_terminating(plugin: str, previous_mode: Mode, mode: Mode) -> bool:
    if plugin in (previous_mode.plugin, mode.plugin):
        return plugin != mode.plugin
    if plugin == HAMI_DAEMONSET:
        # Our labels do not remove it.
        return False
    served = SERVED[plugin]
    return not served.isdisjoint(previous_mode.resources) and served.isdisjoint(may_offer(mode))
