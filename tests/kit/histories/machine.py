"""What a node's machine is, whatever its labels say."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

Json = dict[str, Any]
CARD_MEMORY = 15
"""GiB of each card."""
CARD_LABELS: Mapping[str, str] = {"aliyun.accelerator/nvidia_count": "1"}


@dataclass(frozen=True, slots=True)
class Machine:
    """One card and nothing unusual, unless said."""

    kind: str = "GPU"
    """How a failure calls it."""
    cards: int = 1
    unhealthy: int = 0
    """So many of its cards are offered by no device plugin."""
    shows_cards: bool = True
    """Something on its Node says so before any device plugin has run there."""
    labels: Mapping[str, str] = field(default_factory=lambda: CARD_LABELS)
    """Those with which its Node comes."""
    resources: Mapping[str, int] = field(default_factory=dict)
    """Offered whatever runs there."""
    taints: tuple[Mapping[str, str], ...] = ()
    operating_system: str = "linux"
    architecture: str = "amd64"
    is_virtual: bool = False
    """No kubelet runs there, only something that plays one."""
    returning_seconds: float = 0
    """A plugin's pod that runs takes at least so long to be Ready."""

    @property
    def healthy(self) -> int:
        """Cards that a device plugin can offer."""
        return self.cards - self.unhealthy

    @property
    def runs_daemonsets(self) -> bool:
        return self.operating_system == "linux" and not self.is_virtual

    @property
    def serves_cards(self) -> bool:
        """Whether a device plugin can ever become Ready there."""
        return self.healthy > 0 and self.runs_daemonsets


ONE_CARD = Machine()
