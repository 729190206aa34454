"""The machine of a simulated node, whatever its labels."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

Json = dict[str, Any]
CARD_MEMORY = 15
"""Memory of each card in GiB."""
CARD_LABELS: Mapping[str, str] = {"aliyun.accelerator/nvidia_count": "1"}


@dataclass(frozen=True, slots=True)
class Machine:
    """A machine, by default with one card and nothing unusual."""

    kind: str = "GPU"
    """Name in a failure's message."""
    cards: int = 1
    unhealthy: int = 0
    """Number of cards that no device plugin offers."""
    shows_cards: bool = True
    """Whether the Node shows a card before any device plugin has run."""
    labels: Mapping[str, str] = field(default_factory=lambda: CARD_LABELS)
    """Labels of the new Node."""
    resources: Mapping[str, int] = field(default_factory=dict)
    """Resources that the node always offers."""
    taints: tuple[Mapping[str, str], ...] = ()
    operating_system: str = "linux"
    architecture: str = "amd64"
    is_virtual: bool = False
    """Whether a virtual kubelet runs instead of a kubelet."""
    returning_seconds: float = 0
    """Least time from a running plugin pod to a Ready one."""

    @property
    def healthy(self) -> int:
        """Number of cards that a device plugin can offer."""
        return self.cards - self.unhealthy

    @property
    def runs_daemonsets(self) -> bool:
        return self.operating_system == "linux" and not self.is_virtual

    @property
    def serves_cards(self) -> bool:
        """Whether a device plugin can become Ready on the machine."""
        return self.healthy > 0 and self.runs_daemonsets


ONE_CARD = Machine()
