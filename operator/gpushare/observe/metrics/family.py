"""A metric with its name and its description."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.core import GaugeMetricFamily

from gpushare import names


@dataclass(frozen=True, slots=True)
class Family:
    """A metric with all its series."""

    name: str
    """Name without `names.METRIC_PREFIX`."""
    text: str
    labels: tuple[str, ...] = ()
    kind: str = "gauge"

    @property
    def full_name(self) -> str:
        """Name in Prometheus; a histogram's series have the suffixes _bucket, _sum and _count."""
        return f"{names.METRIC_PREFIX}_{self.name}"

    @property
    def head(self) -> str:
        """The lines before the metric's series in Prometheus' text format."""
        return f"# HELP {self.full_name} {self.text}\n# TYPE {self.full_name} {self.kind}\n"

    def fill(self, series: Mapping[tuple[str, ...], float]) -> GaugeMetricFamily:
        """Build the metric for a collector, from values by the values of its labels."""
        filled = GaugeMetricFamily(self.full_name, self.text, labels=self.labels)
        for values, value in series.items():
            filled.add_metric(values, value)
        return filled


class Shelf:
    """Creates metrics in a registry, and keeps the list of them."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.families: list[Family] = []
        self._registry = registry

    def counter(self, name: str, text: str, *labels: str) -> Counter:
        """Register a counter, whose name ends in _total."""
        family = self._note(Family(name, text, labels, "counter"))
        return Counter(family.full_name, text, labels, registry=self._registry)

    def gauge(self, name: str, text: str, *labels: str) -> Gauge:
        """Register a gauge."""
        family = self._note(Family(name, text, labels))
        return Gauge(family.full_name, text, labels, registry=self._registry)

    def histogram(self, name: str, text: str, buckets: Iterable[float]) -> Histogram:
        """Register a histogram."""
        family = self._note(Family(name, text, kind="histogram"))
        return Histogram(family.full_name, text, buckets=tuple(buckets), registry=self._registry)

    def _note(self, family: Family) -> Family:
        self.families.append(family)
        return family
