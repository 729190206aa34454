"""Defines why a node's change may not begin."""

from dataclasses import dataclass

from gpushare.names import Reason


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a node's change may not start now."""

    reason: Reason
    message: str
