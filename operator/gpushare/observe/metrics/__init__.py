"""The metrics of a process, for Prometheus.

Names are gpushare_NOUN_UNIT, units bytes and seconds. Labels have few values: never a node, a pod
or a UID, except in the metrics of each node, which an installation switches on.
"""

from gpushare.observe.metrics.process import Metrics

__all__ = ["Metrics"]
