"""Decides which pool a pod is assigned to, and why, from values alone."""

from gpushare.core.admission.decide import decide
from gpushare.core.admission.decision import AdmissionDecision
from gpushare.core.admission.pool_view import PoolView, view_pool
from gpushare.core.admission.request import Rules
from gpushare.core.admission.reservations import Reservations
from gpushare.core.admission.shortlist import Shortlists

__all__ = [
    "AdmissionDecision",
    "PoolView",
    "Reservations",
    "Rules",
    "Shortlists",
    "decide",
    "view_pool",
]
