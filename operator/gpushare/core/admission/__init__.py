"""Which pool a pod is sent to, and why: one decision, from values alone."""

from gpushare.core.admission.bookings import Bookings
from gpushare.core.admission.case import Rules
from gpushare.core.admission.decide import decide
from gpushare.core.admission.decision import Decision
from gpushare.core.admission.poolview import PoolView, view_pool

__all__ = ["Bookings", "Decision", "PoolView", "Rules", "decide", "view_pool"]
