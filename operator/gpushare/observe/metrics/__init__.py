"""The metrics of a process, for Prometheus.

Names are gpushare_NOUN_UNIT, units bytes and seconds. Labels are few-valued: never a node, a pod or
a UID, but for the cards of each node, which an installation switches on.
"""

from gpushare.observe.metrics.process import Metrics

__all__ = ["Metrics"]
