"""What a change of mode needs: one table, with a reason and a source for every pair in it.

A pair that is not in the table needs a person. Common rule of the vendor's page on labels of GPU
nodes: before a node leaves a mode, all pods that asked for that mode's resource have finished.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from gpushare.api.pool import Edition, Schedule
from gpushare.names import Reason

_S = Schedule
_LABELS_PAGE = "vendor's page on specifications and scheduling labels of GPU nodes"
_PRO_GUIDE = "vendor's guide on node pools, Professional edition"
_BASIC_GUIDE = "vendor's guide on node pools, Basic edition"
_OPEN_SOURCE = "open-source gpushare-device-plugin and its chart"


class Outcome(StrEnum):
    """What may be done about a change of mode."""

    APPLY = "apply"
    """Write the labels; the DaemonSets of both modes follow them by themselves."""
    APPLY_AND_RESTART = "apply and restart the plugin"
    """The same plugin serves both modes and reads its label only when it starts."""
    REQUIRES_TEARDOWN = "needs a teardown"
    REQUIRES_PERSON = "needs a person"


@dataclass(frozen=True, slots=True)
class Transition:
    """What changing from one mode to another needs, and why."""

    outcome: Outcome
    message: str
    source: str
    keeps_workloads: bool = False
    """Running pods keep their GPUs: the resource stays, only what new pods get changes."""

    @property
    def refusal(self) -> Reason | None:
        """Why nothing is done, where that is the outcome."""
        if self.outcome is Outcome.REQUIRES_TEARDOWN:
            return Reason.REQUIRES_TEARDOWN
        if self.outcome is Outcome.REQUIRES_PERSON:
            return Reason.REQUIRES_PERSON
        return None


_FOLLOW = Transition(
    Outcome.APPLY, "the DaemonSets of both modes select on the mode label", _LABELS_PAGE
)
_MODULE_STAYS = Transition(
    Outcome.APPLY, "allowed; the cGPU kernel module stays loaded", _LABELS_PAGE
)
_TEARDOWN = Transition(
    Outcome.REQUIRES_TEARDOWN,
    "memory isolation stays on until the cGPU kernel module is uninstalled and the node rebooted. "
    "On the empty, cordoned node: label it share by hand, uninstall the module, reboot",
    _PRO_GUIDE,
)
_FLIP = Transition(
    Outcome.APPLY_AND_RESTART,
    "the plugin reads cgpu.disable.isolation when it starts; pods admitted afterwards get it",
    _BASIC_GUIDE,
    keeps_workloads=True,
)
_BASIC_SWITCH = Transition(
    Outcome.APPLY,
    "the DaemonSets follow the label cgpu; the whole-card plugin is evicted or put back",
    _BASIC_GUIDE,
)
_OPEN_SWITCH = Transition(Outcome.APPLY, "the plugin follows the label gpushare", _OPEN_SOURCE)

TRANSITIONS: Mapping[tuple[Edition, str, Schedule], Transition] = {
    **{
        (Edition.PROFESSIONAL, _S.DEFAULT, to): _FOLLOW
        for to in (_S.SHARE, _S.CGPU, _S.CORE_MEM, _S.MPS, _S.TOPOLOGY, _S.DISABLED)
    },
    (Edition.PROFESSIONAL, _S.SHARE, _S.CGPU): Transition(
        Outcome.APPLY_AND_RESTART,
        "memory isolation is enabled for the node; one plugin serves both modes",
        _PRO_GUIDE,
    ),
    **{
        (Edition.PROFESSIONAL, of, _S.DEFAULT): Transition(
            Outcome.APPLY, "setting default is how sharing is switched off", _LABELS_PAGE
        )
        for of in (_S.SHARE, _S.MPS)
    },
    (Edition.PROFESSIONAL, _S.CGPU, _S.SHARE): _TEARDOWN,
    (Edition.PROFESSIONAL, _S.CORE_MEM, _S.SHARE): _TEARDOWN,
    **{
        (Edition.PROFESSIONAL, of, to): _MODULE_STAYS
        for of in (_S.CGPU, _S.CORE_MEM)
        for to in (_S.DEFAULT, _S.TOPOLOGY)
    },
    (Edition.BASIC, _S.SHARE, _S.CGPU): _FLIP,
    (Edition.BASIC, _S.CGPU, _S.SHARE): _FLIP,
    (Edition.BASIC, _S.DEFAULT, _S.SHARE): _BASIC_SWITCH,
    (Edition.BASIC, _S.DEFAULT, _S.CGPU): _BASIC_SWITCH,
    (Edition.BASIC, _S.SHARE, _S.DEFAULT): _BASIC_SWITCH,
    (Edition.BASIC, _S.CGPU, _S.DEFAULT): _BASIC_SWITCH,
    (Edition.OPEN_SOURCE, _S.DEFAULT, _S.SHARE): _OPEN_SWITCH,
    (Edition.OPEN_SOURCE, _S.SHARE, _S.DEFAULT): _OPEN_SWITCH,
}


REPAIR = Transition(
    Outcome.APPLY_AND_RESTART,
    "the plugin started while the labels said something else",
    "open-source gpushare-device-plugin: labels are read once, at start",
    keeps_workloads=True,
)
"""Back to the mode that was applied, where only the plugin must read the labels again."""


def find_transition(edition: Edition, of: str, to: Schedule) -> Transition:
    """What the change needs; `of` may be a value that we do not know, which needs a person."""
    if known := TRANSITIONS.get((edition, of, to)):
        return known
    return Transition(
        Outcome.REQUIRES_PERSON,
        f"no documented way leads from {of!r} to {to!r} on the {edition} edition; move the node "
        "through a mode that has one (default), or remove it and add it again",
        _LABELS_PAGE,
    )
