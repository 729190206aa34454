"""What a change of mode needs: one table, with a reason and a source for every pair of modes.

`docs/transitions.md` shows it to users. Common rule of the vendor's page on labels of GPU nodes:
before a node leaves a mode, all pods that asked for that mode's resource have finished.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

from gpushare.api.pool import Edition, Schedule
from gpushare.names import Reason

_LABELS_PAGE = "vendor's page on specifications and scheduling labels of GPU nodes"
_SCHEDULING_PAGES = "vendor's pages on enabling GPU scheduling and on topology-aware scheduling"
_MPS_PAGE = "vendor's page on ack-mps-control"
_DRA_GUIDE = "vendor's guide on scheduling GPUs with DRA"
_PRO_GUIDE = "vendor's guide on node pools, Professional edition"
_BASIC_GUIDE = "vendor's guide on node pools, Basic edition"
_BASIC_INSTALLATION = "vendor's page on installing the cGPU component, Basic edition"
_OPEN_SOURCE = "open-source gpushare-device-plugin and its chart"


class Outcome(StrEnum):
    """What may be done about a change of mode."""

    APPLY = "apply"
    """Write the labels; the DaemonSets of both modes follow them by themselves."""
    APPLY_AND_RESTART = "apply and restart the plugin"
    """The same plugin serves both modes and reads its label only when it or its kubelet starts."""
    REQUIRES_TEARDOWN = "needs a teardown"
    REQUIRES_MANUAL_ACTION = "needs a person"


@dataclass(frozen=True, slots=True)
class Transition:
    """What changing from one mode to another needs, and why."""

    outcome: Outcome
    message: str
    source: str
    keeps_workloads: bool = False
    """Running pods keep their GPUs: the resource stays, only what new pods get changes."""
    steps: tuple[str, ...] = ()
    """What a person does instead."""

    @property
    def refusal(self) -> Reason | None:
        """Why nothing is done, or not before somebody agrees."""
        if self.outcome is Outcome.REQUIRES_TEARDOWN:
            return Reason.REQUIRES_TEARDOWN
        if self.outcome is Outcome.REQUIRES_MANUAL_ACTION:
            return Reason.REQUIRES_MANUAL_ACTION
        return None

    @property
    def instructions(self) -> str:
        """The message, and the steps by their numbers."""
        steps = "; ".join(f"{number}. {step}" for number, step in enumerate(self.steps, start=1))
        return f"{self.message}: {steps}" if steps else self.message


TEARDOWN = Transition(
    Outcome.REQUIRES_TEARDOWN,
    "memory isolation stays on until the cGPU kernel module is uninstalled and the node rebooted",
    _PRO_GUIDE,
)
"""To `share` on a node on which the cGPU kernel module may be loaded, whichever mode it is in."""

_VIA_DEFAULT = (
    "take the node out of the pool (spec.nodes.exclude)",
    "once it carries no annotation gpushare.io/applied, label it default",
    "take it in again",
)
"""The steps for one node; docs/transitions.md says how each is done."""

_NEEDS: Mapping[str, Transition] = {
    "follow": Transition(
        Outcome.APPLY, "the DaemonSets of both modes select on the mode label", _LABELS_PAGE
    ),
    "mps": Transition(
        Outcome.APPLY, "the mode label starts the MPS daemon and the plugin beside it", _MPS_PAGE
    ),
    "hand-over": Transition(
        Outcome.APPLY, "the vendor's plugin leaves the node, and its cards to another", _DRA_GUIDE
    ),
    "reset": Transition(
        Outcome.APPLY,
        "setting default is how another mode is switched off; deleting the label is not",
        _SCHEDULING_PAGES,
    ),
    "module-stays": Transition(
        Outcome.APPLY, "allowed; the cGPU kernel module stays loaded", _LABELS_PAGE
    ),
    "isolate": Transition(
        Outcome.APPLY_AND_RESTART,
        "memory isolation is enabled for the node; one plugin serves both modes",
        _PRO_GUIDE,
    ),
    "teardown": TEARDOWN,
    "two-steps": Transition(
        Outcome.REQUIRES_MANUAL_ACTION,
        "not among the changes that the vendor lists; go by way of default",
        _LABELS_PAGE,
        steps=("end or move this node's GPU pods", *_VIA_DEFAULT),
    ),
    "rejoin": Transition(
        Outcome.REQUIRES_MANUAL_ACTION,
        "not among the changes that the vendor lists, and the cGPU kernel module would stay loaded",
        _LABELS_PAGE,
        steps=(
            "drain the node",
            "remove it from the cluster",
            "add it again with a new system disk and the new label",
        ),
    ),
    "foreign": Transition(
        Outcome.REQUIRES_MANUAL_ACTION,
        "another plugin or a DRA driver may have given this node's cards out, unseen by the new "
        "mode",
        _DRA_GUIDE,
        steps=(
            "end the pods that use the node's cards",
            "take that plugin or driver off the node",
            *_VIA_DEFAULT,
        ),
    ),
    "flip": Transition(
        Outcome.APPLY_AND_RESTART,
        "the plugin reads cgpu.disable.isolation when it or its kubelet starts; pods admitted "
        "afterwards get it",
        _BASIC_GUIDE,
        keeps_workloads=True,
    ),
    "switch": Transition(
        Outcome.APPLY,
        "the DaemonSets follow the label cgpu; the whole-card plugin is evicted or put back",
        _BASIC_INSTALLATION,
    ),
    "open-switch": Transition(
        Outcome.APPLY,
        "the plugin follows the label gpushare; where the chart manages the whole-card plugin, "
        "that is evicted or put back",
        _OPEN_SOURCE,
    ),
}

# A row for the mode that is left, a column for the one that is wanted.
_MATRICES: Mapping[Edition, str] = {
    Edition.PROFESSIONAL: """
        of        default       share      cgpu       core_mem   mps        topology      disabled
        default   -             follow     follow     follow     mps        follow        hand-over
        share     reset         -          isolate    two-steps  two-steps  two-steps     two-steps
        cgpu      module-stays  teardown   -          rejoin     rejoin     module-stays  rejoin
        core_mem  module-stays  teardown   rejoin     -          rejoin     module-stays  rejoin
        mps       reset         two-steps  two-steps  two-steps  -          two-steps     two-steps
        topology  reset         two-steps  two-steps  two-steps  two-steps  -             two-steps
        disabled  foreign       foreign    foreign    foreign    foreign    foreign       -
    """,
    Edition.BASIC: """
        of        default       share      cgpu
        default   -             switch     switch
        share     switch        -          flip
        cgpu      switch        flip       -
    """,
    Edition.OPEN_SOURCE: """
        of        default       share
        default   -             open-switch
        share     open-switch   -
    """,
}


def _read(matrix: str) -> Iterator[tuple[Schedule, Schedule, Transition]]:
    (_, *columns), *rows = (line.split() for line in matrix.strip().splitlines())
    for from_mode, *cells in rows:
        for to, need in zip(columns, cells, strict=True):
            if from_mode != to:
                yield Schedule(from_mode), Schedule(to), _NEEDS[need]


TRANSITIONS: Mapping[tuple[Edition, str, Schedule], Transition] = {
    (edition, from_mode, to): transition
    for edition, matrix in _MATRICES.items()
    for from_mode, to, transition in _read(matrix)
}
"""Every pair of different modes of each edition."""

UNKNOWN_STEPS = (
    "end or move the node's GPU pods",
    "label it default, or remove it from the cluster and add it again with another label",
)
"""Where the label's value is none that the operator knows."""

REPAIR = Transition(
    Outcome.APPLY_AND_RESTART,
    "the plugin may have read other labels than those that are there",
    "open-source gpushare-device-plugin: it reads the labels when it is built",
    keeps_workloads=True,
)
"""Back to the mode that was applied, where only the plugin must read the labels again."""


def find_transition(edition: Edition, from_mode: str, to: Schedule) -> Transition:
    """What the change needs; `from_mode` may be a value that we do not know, which needs a person.

    So does `mig`: nothing leads out of it by label (vendor's page on labels that control GPUs).
    """
    return TRANSITIONS.get((edition, from_mode, to)) or Transition(
        Outcome.REQUIRES_MANUAL_ACTION,
        f"{from_mode!r} is no mode that this operator knows on the {edition} edition, and is kept",
        _LABELS_PAGE,
        steps=UNKNOWN_STEPS,
    )
