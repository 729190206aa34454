"""The device plugins' DaemonSets, where a cluster gives them other names than ACK's charts do."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from gpushare import names
from gpushare.api.k8s.daemonset import (
    FORMER,
    NONE_RENAMED,
    NVIDIA_DAEMONSET,
    NVIDIA_DAEMONSETS,
    DaemonSet,
    list_standard_names,
)
from gpushare.editions.edition import Mode
from gpushare.editions.plugin_configs import Entry, PluginConfigs
from gpushare.editions.registry import MODES, get_mode
from gpushare.names import PLUGIN_NAMESPACE, STANDARD_DAEMONSETS

CHART_VALUE = "pluginDaemonSets"
SUGGESTED = 3
_SHOWN_KEYS = 10
_COMMON_WORDS = frozenset({"ack", "device", "ds"})
"""Words of standard names that distinguish none of them."""


@dataclass(frozen=True)
class PluginDaemonSets:
    """The DaemonSets of device plugins in a cluster, and their standard names."""

    names: Mapping[str, str] = field(default_factory=lambda: NONE_RENAMED)
    """Names in the cluster by standard name, from the installation's settings."""
    daemonsets: frozenset[DaemonSet] = frozenset()
    namespace: str = PLUGIN_NAMESPACE
    nvidia_namespace: str = ""
    """Namespace of NVIDIA's device plugin; empty where the installation names none."""
    nvidia: frozenset[DaemonSet] = frozenset()
    """DaemonSets of that namespace."""
    configs: Mapping[str, PluginConfigs] = field(default_factory=dict)
    """ConfigMaps of that namespace, by name."""

    def resolve(self, mode: Mode) -> Mode:
        """Return `mode` as its configuration is now; `mode` itself where that is none, or unread.

        Only modes of the NVIDIA edition have one.
        """
        entry = self._find_entry(mode)
        config = entry.config if entry is not None else None
        return get_mode(mode.edition, config) if config is not None else mode

    def defines(self, mode: Mode) -> bool:
        """Tell whether a plugin that starts now loads `mode` by its label."""
        entry = self._find_entry(mode)
        return not mode.config or (entry is not None and entry.config == mode.schedule)

    def explain_unresolved(self, mode: Mode) -> str:
        """Explain why `resolve` finds no configuration of a mode."""
        plugins, key, configs = self._plugins, mode.config, self._configs
        entry = self._find_entry(mode)
        if len(plugins) > 1:
            listed = " and ".join(each.name for each in plugins)
            return f"DaemonSets {listed} of {self.nvidia_namespace} both run NVIDIA's device plugin"
        if not plugins:
            return f"No DaemonSet in namespace {self.nvidia_namespace} runs NVIDIA's device plugin"
        if not plugins[0].config_map:
            return (
                f"DaemonSet {self.name_of(mode.plugin)} has no config-manager, so it would ignore "
                f"the label {names.LABEL_NVIDIA_CONFIG}. Set config.name (chart "
                "nvidia-device-plugin) or devicePlugin.config.name (GPU Operator)"
            )
        where = f"ConfigMap {self.nvidia_namespace}/{plugins[0].config_map}"
        if configs is None:
            return f"{where} can't be read. Check that it exists, and the rights of the operator"
        if entry is not None:
            return f"Key {key} of {where} can't be used: {entry.error}"
        keys = ", ".join(sorted(configs.texts)[:_SHOWN_KEYS]) or "none"
        return f"{where} has no key {key}. It has: {keys}. Set nvidia.config to one of them"

    def explain_edit(self, mode: Mode) -> str:
        """Explain what a plugin that starts now would load instead of `mode`; empty where it would
        load `mode`, or the ConfigMap is not known."""
        if self._configs is None or self.defines(mode):
            return ""
        if (now := self.resolve(mode)) == mode:
            lost = f"A plugin that restarts does not load {mode.schedule} again"
            return f"{self.explain_unresolved(mode)}. {lost}"
        return (
            f"Key {mode.config} was edited, and a plugin that restarts loads that. To change the "
            "nodes one by one, set nvidia.onConfigChange to RollOut; otherwise restore the "
            f"content. It was {mode.schedule}, and is {now.schedule} now"
        )

    def _find_entry(self, mode: Mode) -> Entry | None:
        return self._configs.find(mode.config) if mode.config and self._configs else None

    @cached_property
    def _plugins(self) -> list[DaemonSet]:
        return self._list_nvidias(NVIDIA_DAEMONSET)

    @cached_property
    def _configs(self) -> PluginConfigs | None:
        """Configurations of the one plugin; None for several, since any may serve a node."""
        return self.configs.get(self._plugins[0].config_map) if len(self._plugins) == 1 else None

    def _list_nvidias(self, standard: str) -> list[DaemonSet]:
        matching = (each for each in self.nvidia if standard in (each.standard, each.name))
        return sorted(matching, key=lambda each: each.name)

    def namespace_of(self, daemonset: str) -> str:
        """Return the namespace of the DaemonSet with this standard name."""
        return self.nvidia_namespace if daemonset in NVIDIA_DAEMONSETS else self.namespace

    @cached_property
    def standard(self) -> frozenset[str]:
        """Standard names of the existing DaemonSets; others by their own names."""
        nvidias = {each for each in NVIDIA_DAEMONSETS if self._list_nvidias(each)}
        return frozenset(map(self._get_standard, self.daemonsets)) - NVIDIA_DAEMONSETS | nvidias

    def find(self, standard: str) -> DaemonSet | None:
        """Find the DaemonSet with this standard name."""
        if nvidias := self._list_nvidias(standard):
            return nvidias[0]
        return next(
            (each for each in self.daemonsets if self._get_standard(each) == standard), None
        )

    def name_of(self, standard: str) -> str:
        """Return the cluster's name of the DaemonSet with this standard name."""
        if nvidias := self._list_nvidias(standard):
            return nvidias[0].name
        return self.names.get(standard, standard.removeprefix(FORMER))

    def suggest(self, standard: str) -> list[str]:
        """Suggest the non-standard DaemonSets that have most in common with `standard`: its words
        in the name or an image, a node selector for one of its modes."""
        unknown = (
            each for each in self.daemonsets if self._get_standard(each) not in STANDARD_DAEMONSETS
        )
        marks = {each.name: sum(_compare(each, standard)) for each in unknown}
        most = max(marks.values(), default=0)
        return sorted(name for name, count in marks.items() if most and count == most)[:SUGGESTED]

    def list_evictable(self) -> list[str]:
        """List the names of plugin DaemonSets whose pods the kubelet evicts under node pressure."""
        return sorted(
            each.name
            for each in self.daemonsets
            if not each.is_critical and self._get_standard(each) in STANDARD_DAEMONSETS
        )

    def _get_standard(self, daemonset: DaemonSet) -> str:
        return self._standard_names.get(daemonset.name, daemonset.name)

    @cached_property
    def _standard_names(self) -> Mapping[str, str]:
        return list_standard_names(self.names)


def _compare(daemonset: DaemonSet, standard: str) -> Iterator[bool]:
    words = {*standard.split("-")} - _COMMON_WORDS
    yield words <= {*daemonset.name.split("-")}
    yield any(words <= {*image.split("-")} for image in daemonset.images)
    modes = (mode for mode in MODES.values() if standard in (*mode.daemonsets, mode.recoverer))
    labels = (label for mode in modes for label in mode.labels.items())
    yield any(value in daemonset.selection.find_values(key) for key, value in labels)
