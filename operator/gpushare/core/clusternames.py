"""What a cluster calls the DaemonSets that modes know by their standard names."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from gpushare.api.daemonset import AS_STANDARD, DaemonSet, translate
from gpushare.core.modes import MODES

CHART_VALUE = "pluginDaemonSets"
SUGGESTED = 3
_STANDARD = frozenset(
    name for mode in MODES.values() for name in (*mode.daemonsets, mode.recoverer) if name
)
_COMMON_WORDS = frozenset({"ack", "device", "ds"})
"""Of standard names: they tell none from another."""


@dataclass(frozen=True, slots=True)
class ClusterNames:
    """The DaemonSets of the device plugins' namespace, and who is who."""

    given: Mapping[str, str] = field(default_factory=lambda: AS_STANDARD)
    """By standard name, that of the cluster, as the installation says."""
    found: frozenset[DaemonSet] = frozenset()

    def list_standard(self) -> frozenset[str]:
        """The standard names of those that are there; others by their own."""
        standard = translate(self.given)
        return frozenset(standard.get(each.name, each.name) for each in self.found) - {""}

    def show(self, standard: str) -> str:
        """The name by which a person finds it in the cluster."""
        return self.given.get(standard, standard)

    def suggest(self, standard: str) -> list[str]:
        """Which of those that are none of the standard ones it may be, by the most that says so: a
        name, an image, a node selector for one of its modes."""
        marks = {each.name: sum(_compare(each, standard)) for each in self._list_unknown()}
        most = max(marks.values(), default=0)
        return sorted(name for name, count in marks.items() if most and count == most)[:SUGGESTED]

    def _list_unknown(self) -> Iterator[DaemonSet]:
        known = translate(self.given)
        return (each for each in self.found if known.get(each.name, each.name) not in _STANDARD)


def _compare(daemonset: DaemonSet, standard: str) -> Iterator[bool]:
    words = {*standard.split("-")} - _COMMON_WORDS
    yield words <= {*daemonset.name.split("-")}
    yield any(words <= {*image.split("-")} for image in daemonset.images)
    modes = (mode for mode in MODES.values() if standard in (*mode.daemonsets, mode.recoverer))
    yield any(not daemonset.selects.isdisjoint(mode.labels.items()) for mode in modes)
