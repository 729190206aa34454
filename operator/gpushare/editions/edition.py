"""Describes an edition. A module for each edition fills this in, and `registry` lists them."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property

from gpushare import names
from gpushare.api.k8s.daemonset import GPUSHARE_DAEMONSET
from gpushare.api.k8s.node import Node
from gpushare.api.k8s.pod import Pod
from gpushare.api.nvidia_plugin import NvidiaConfig
from gpushare.api.pool import EDITIONS_WITH_PLACEMENT, Edition, ModeName, Schedule
from gpushare.names import Reason

GPUSHARE_PLUGIN = GPUSHARE_DAEMONSET
LABELS_PAGE = "vendor's page on specifications and scheduling labels of GPU nodes"


@dataclass(frozen=True, slots=True)
class Mode:
    """One mode of one edition. DaemonSets have the names of ACK's charts."""

    edition: Edition
    schedule: ModeName
    labels: Mapping[str, str]
    resource: str = ""
    """The extended resource that a node in this mode offers, and every pod in it asks for."""
    plugin: str = ""
    """DaemonSet of the device plugin. Empty where none of the cluster's DaemonSets is it."""
    components: tuple[str, ...] = ()
    """Other DaemonSets that must be Ready on the node before the mode is what it says."""
    companions: tuple[str, ...] = ()
    """Resources that the node offers besides, for pods that ask for `resource` too."""
    recoverer: str = ""
    """DaemonSet that puts the manifest of the static whole-card plugin back, on clusters that have
    no DaemonSet `plugin`."""
    reads_label: bool = False
    """Its plugin serves other modes too: which one, it reads when it starts, and nothing shows what
    it has read. A change restarts it only by `APPLY_AND_RESTART`."""
    keeps_isolation: bool = False
    """It does not isolate, but a cGPU kernel module that is still loaded does so all the same."""
    also_used: tuple[str, ...] = ()
    """Resources that its node does not offer, and that pods on it may hold its cards by."""
    restarts_components: bool = False
    """They read their configuration only when they start: their pods are deleted with the
    plugin's."""
    config: str = ""
    """Key of the plugin's ConfigMap that defines it."""
    is_resolved: bool = True
    """What that entry says is known."""
    isolated: bool = False
    """The kernel keeps each container to its share (the cGPU modes)."""

    @property
    def resources(self) -> tuple[str, ...]:
        return (self.resource, *self.companions) if self.resource else self.companions

    @property
    def follows_label(self) -> bool:
        """Whether its plugin follows its label while it runs: the devices of pods go with it."""
        return bool(self.config)

    @property
    def depends_on_label(self) -> bool:
        """Whether what pods got under it depends on what its label said at the time."""
        return self.reads_label or self.follows_label

    @property
    def replaced(self) -> tuple[str, ...]:
        """DaemonSets whose pods are deleted where its plugin is restarted."""
        return self.daemonsets if self.restarts_components else self.daemonsets[: bool(self.plugin)]

    @property
    def daemonsets(self) -> tuple[str, ...]:
        return (self.plugin, *self.components) if self.plugin else self.components

    def relies_on_recoverer(self, daemonsets: Collection[str]) -> bool:
        """Tell whether a cluster that has these DaemonSets serves the mode by a static pod."""
        return self.plugin not in daemonsets and self.recoverer in daemonsets


class Outcome(StrEnum):
    """What may be done about a change of mode."""

    APPLY = "apply"
    """Write the labels; the DaemonSets of both modes follow them by themselves."""
    APPLY_AND_RESTART = "apply and restart the plugin"
    """The same plugin serves both modes and reads its label only when it or its kubelet starts."""
    REQUIRES_TEARDOWN = "needs a teardown"
    REQUIRES_MANUAL_ACTION = "needs manual steps"


@dataclass(frozen=True, slots=True)
class Transition:
    """What changing from one mode to another needs, and why."""

    outcome: Outcome
    message: str
    source: str
    keeps_workloads: bool = False
    """Running pods keep their GPUs: the resource stays, only what new pods get changes. Otherwise
    live pods that ask for the old resource block the change (`nodechange/blockers.py`)."""
    steps: tuple[str, ...] = ()
    """What a user does instead."""

    @property
    def refusal(self) -> Reason | None:
        """Why nothing is done, or not before a user starts it."""
        if self.outcome is Outcome.REQUIRES_TEARDOWN:
            return Reason.REQUIRES_TEARDOWN
        if self.outcome is Outcome.REQUIRES_MANUAL_ACTION:
            return Reason.REQUIRES_MANUAL_ACTION
        return None

    @property
    def instructions(self) -> str:
        """The message, and the numbered steps."""
        steps = "; ".join(f"{number}. {step}" for number, step in enumerate(self.steps, start=1))
        return f"{self.message}. Steps: {steps}" if steps else self.message


TEARDOWN = Transition(
    Outcome.REQUIRES_TEARDOWN,
    "Memory isolation stays on until the cGPU kernel module is removed and the node rebooted",
    "vendor's guide on node pools, Professional edition",
)
"""To `share` on a node on which the cGPU kernel module may be loaded, whichever mode it is in."""

REPAIR = Transition(
    Outcome.APPLY_AND_RESTART,
    "The plugin may have read other labels than the node has now",
    "open-source gpushare-device-plugin: it reads the labels when it is built",
    keeps_workloads=True,
)
"""Back to the mode that was applied, where only the plugin must read the labels again."""


@dataclass(frozen=True, kw_only=True)
class EditionDescription:
    """What one edition differs in from another. A new one is a module that fills this, and:

    its entry in `registry.py`; its name in `Edition`, its modes in `Schedule` and
    `EDITION_SCHEDULES` (which gives Professional each Schedule: list its own there once another
    edition has one that it lacks), and where it has placement `EDITIONS_WITH_PLACEMENT`
    (`api/pool.py`, for the CRD: `make crds`); in `names.py` its labels (`MODE_LABELS`), resources
    (`GPU_RESOURCES`, and `SHARED_RESOURCES` of parts of cards) and DaemonSets
    (`STANDARD_DAEMONSETS`; one that `plugins.py` names as nobody's, such as NVIDIA's, is taken out
    there); its table in docs/transitions.md; the chart's values; what `devcluster/editions` plays.
    Tests name most of what is missing.

    A mode must be set by node labels, the same on all nodes, and show by the resource that its
    plugin offers; modes of one plugin may share a resource, with `reads_label`. DEFAULT is whole
    cards, each edition with fixed modes has it, and it is what no label means. A Schedule means
    the same in all: a new one that isolates by the kernel goes into `core/snapshot/isolation.py`
    (`_BY_KERNEL`), one that isolates otherwise, as MPS does, there and into
    `core/admission/pool_view.py`. Capacity and isolation are observed for gpu-mem only.
    """

    edition: Edition
    switch: str
    """The label by which its modes are switched on and off."""
    find_schedule: Callable[[Mapping[str, str]], ModeName]
    """The mode that a node's labels stand for, or the label's own unknown value."""
    modes: tuple[Mode, ...]
    needs: Mapping[str, Transition]
    """What a change of mode can need; `docs/transitions.md` has these names."""
    matrix: str
    """A row for the mode that is left, a column for the one that is wanted, in each cell a need."""
    build_mode: Callable[[NvidiaConfig], Mode | None] = lambda config: None
    """Builds the mode of a configuration, where users name modes. `modes` is empty then."""
    every_change: str = ""
    """What each change between those needs."""
    find_expected_state: Callable[[Node, Mode], tuple[Mapping[str, str], Mapping[str, int]]] = (
        lambda node, mode: ({}, {})
    )
    """What labels of others and what amounts a node shows in a mode."""
    find_difference: Callable[[Node, Sequence[Pod], Mode, int], str] = (
        lambda node, pods, mode, lacking_cards: ""
    )
    """Finds what else shows that a node whose plugin is Ready is not in the mode; it may lack so
    many of its cards."""
    count_lacking_cards: Callable[[Node], int] = lambda node: 0
    """Counts the cards of a node of which its plugin offers nothing, or not all, in any mode."""
    installers: frozenset[str] = frozenset()
    """DaemonSets that load the cGPU kernel module where they run."""
    installed_by: str
    """What installs its DaemonSets."""
    namespace_value: str = "pluginNamespace"
    """The chart's value for their namespace."""
    has_scheduler_extender: bool = True
    """Such an extender gives one card to a pod, and none to init containers."""
    card_annotation: str = names.ANNOTATION_CARD
    """By which the scheduler notes on a pod which cards it holds; empty where it notes none."""
    successor: Edition | None = None
    """The edition to which the vendor moves its clusters."""
    unisolated: Schedule | None = None
    """The mode whose isolation is switched off: the vendor does not say what it becomes there."""
    removal: str = ""
    """How it is removed then."""
    removal_relabels: bool = False
    """That may change the labels of nodes, too."""

    @cached_property
    def labels(self) -> frozenset[str]:
        """Keys of the labels of its modes."""
        return frozenset(key for mode in self.modes for key in mode.labels)

    @cached_property
    def tracks_module(self) -> bool:
        """Whether a cGPU kernel module that outlives its mode matters to another mode."""
        return any(mode.keeps_isolation for mode in self.modes)

    @property
    def has_placement(self) -> bool:
        """Whether its scheduler lets a node say which of its cards is filled."""
        return self.edition in EDITIONS_WITH_PLACEMENT
