"""The device plugins' DaemonSets, where a cluster gives them other names than ACK's charts do."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from gpushare.api.k8s.daemonset import FORMER, NONE_RENAMED, DaemonSet, list_standard_names
from gpushare.editions.registry import MODES
from gpushare.names import PLUGIN_NAMESPACE, STANDARD_DAEMONSETS

CHART_VALUE = "pluginDaemonSets"
SUGGESTED = 3
_COMMON_WORDS = frozenset({"ack", "device", "ds"})
"""Of standard names: they tell none from another."""


@dataclass(frozen=True)
class PluginDaemonSets:
    """The DaemonSets of the plugins' namespace, and which of them modes need."""

    names: Mapping[str, str] = field(default_factory=lambda: NONE_RENAMED)
    """By standard name, that of the cluster, as the installation says."""
    found: frozenset[DaemonSet] = frozenset()
    namespace: str = PLUGIN_NAMESPACE

    @cached_property
    def standard(self) -> frozenset[str]:
        """The standard names of those that are there; others by their own."""
        return frozenset(map(self._get_standard, self.found))

    def find(self, standard: str) -> DaemonSet | None:
        """Find the DaemonSet with this standard name."""
        return next((each for each in self.found if self._get_standard(each) == standard), None)

    def name_of(self, standard: str) -> str:
        """Return the cluster's name of the DaemonSet with this standard name."""
        return self.names.get(standard, standard.removeprefix(FORMER))

    def suggest(self, standard: str) -> list[str]:
        """Suggest non-standard DaemonSets that may be this one, by the most signs of it: a name, an
        image, a node selector for one of its modes."""
        unknown = (
            each for each in self.found if self._get_standard(each) not in STANDARD_DAEMONSETS
        )
        marks = {each.name: sum(_compare(each, standard)) for each in unknown}
        most = max(marks.values(), default=0)
        return sorted(name for name, count in marks.items() if most and count == most)[:SUGGESTED]

    def list_evictable(self) -> list[str]:
        """List the cluster's names of plugins whose pods a node evicts where it runs short."""
        return sorted(
            each.name
            for each in self.found
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
