"""Describes an edition. Each edition is a module with a description; `registry` lists them."""

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
    """A mode of an edition. DaemonSets have their names in ACK's charts."""

    edition: Edition
    schedule: ModeName
    labels: Mapping[str, str]
    resource: str = ""
    """Extended resource that a node in this mode offers and its pods request."""
    plugin: str = ""
    """DaemonSet of the device plugin. Empty where the plugin is no DaemonSet of the cluster."""
    components: tuple[str, ...] = ()
    """Other DaemonSets that must be Ready on the node before the mode is in force."""
    companions: tuple[str, ...] = ()
    """Further resources of the node, for pods that request `resource` too."""
    recoverer: str = ""
    """DaemonSet that restores the manifest of the static whole-card plugin, on clusters without
    the DaemonSet `plugin`."""
    reads_label: bool = False
    """Whether the plugin serves several modes and reads the label only when it starts, invisibly
    to us. A change restarts it only by `APPLY_AND_RESTART`."""
    keeps_isolation: bool = False
    """Whether this mode, which does not isolate, does so while the cGPU kernel module is loaded."""
    also_used: tuple[str, ...] = ()
    """Resources that the node does not offer, but by which its pods may hold cards."""
    restarts_components: bool = False
    """Whether components read their configuration only when they start, so that their pods are
    deleted with the plugin's."""
    config: str = ""
    """Key of the plugin's ConfigMap that defines the mode."""
    is_resolved: bool = True
    """Whether the content of the ConfigMap's entry is known."""
    isolated: bool = False
    """Whether the kernel limits each container to its share (the cGPU modes)."""

    @property
    def resources(self) -> tuple[str, ...]:
        return (self.resource, *self.companions) if self.resource else self.companions

    @property
    def follows_label(self) -> bool:
        """Whether the plugin follows its label while it runs, at the cost of the pods' devices."""
        return bool(self.config)

    @property
    def depends_on_label(self) -> bool:
        """Whether the devices of pods depend on the label's value at their admission."""
        return self.reads_label or self.follows_label

    @property
    def replaced(self) -> tuple[str, ...]:
        """DaemonSets whose pods are deleted when the plugin is restarted."""
        return self.daemonsets if self.restarts_components else self.daemonsets[: bool(self.plugin)]

    @property
    def daemonsets(self) -> tuple[str, ...]:
        return (self.plugin, *self.components) if self.plugin else self.components

    def relies_on_recoverer(self, daemonsets: Collection[str]) -> bool:
        """Tell whether a cluster with these DaemonSets serves the mode by a static pod."""
        return self.plugin not in daemonsets and self.recoverer in daemonsets


class Outcome(StrEnum):
    """How a change of mode is made."""

    APPLY = "apply"
    """Write the labels, which the DaemonSets of both modes select."""
    APPLY_AND_RESTART = "apply and restart the plugin"
    """Write the labels and restart the plugin, which serves both modes and reads its label only
    when it or the kubelet starts."""
    REQUIRES_TEARDOWN = "needs a teardown"
    REQUIRES_MANUAL_ACTION = "needs manual steps"


@dataclass(frozen=True, slots=True)
class Transition:
    """The way from one mode to another, and its reason."""

    outcome: Outcome
    message: str
    source: str
    keeps_workloads: bool = False
    """Whether running pods keep their GPUs, since the resource stays. Otherwise live pods that
    request the old resource block the change (`nodechange/blockers.py`)."""
    steps: tuple[str, ...] = ()
    """Manual steps for a user."""

    @property
    def refusal(self) -> Reason | None:
        """Reason why the operator does not make the change, or only once a user starts it."""
        if self.outcome is Outcome.REQUIRES_TEARDOWN:
            return Reason.REQUIRES_TEARDOWN
        if self.outcome is Outcome.REQUIRES_MANUAL_ACTION:
            return Reason.REQUIRES_MANUAL_ACTION
        return None

    @property
    def instructions(self) -> str:
        """The message and the numbered steps."""
        steps = "; ".join(f"{number}. {step}" for number, step in enumerate(self.steps, start=1))
        return f"{self.message}. Steps: {steps}" if steps else self.message


TEARDOWN = Transition(
    Outcome.REQUIRES_TEARDOWN,
    "Memory isolation stays on until the cGPU kernel module is removed and the node rebooted",
    "vendor's guide on node pools, Professional edition",
)
"""Transition to `share` on a node on which the cGPU kernel module may be loaded, in any mode."""

REPAIR = Transition(
    Outcome.APPLY_AND_RESTART,
    "The plugin may have read other labels than the node has now",
    "open-source gpushare-device-plugin: it reads the labels when it is built",
    keeps_workloads=True,
)
"""Transition back to the applied mode, for which the plugin must only read the labels again."""


@dataclass(frozen=True, kw_only=True)
class EditionDescription:
    """The properties of an edition. A new edition is a module with a description, and:

    its entry in `registry.py`; its name in `Edition`, its modes in `Schedule` and
    `EDITION_SCHEDULES` (which gives Professional each Schedule: list its own there once another
    edition has one that it lacks), and if it has placement `EDITIONS_WITH_PLACEMENT`
    (`api/pool.py`, for the CRD: `make crds`); in `names.py` its labels (`MODE_LABELS`), resources
    (`GPU_RESOURCES`, and `SHARED_RESOURCES` for parts of cards) and DaemonSets
    (`STANDARD_DAEMONSETS`; remove from `plugins.py` one that has no edition so far, such as
    HAMi's); its table in docs/transitions.md; the chart's values; its part of
    `devcluster/editions`. Tests name most of what is missing.

    A mode is set by node labels, the same on all nodes, and visible by the resource that its
    plugin offers; modes of one plugin may share a resource, with `reads_label`. Each edition with
    fixed modes has DEFAULT, whole cards, which is also the mode without labels. A Schedule means
    the same in all editions: add a new one that isolates by the kernel to
    `core/snapshot/isolation.py` (`_BY_KERNEL`), one that isolates otherwise, as MPS does, also to
    `core/admission/pool_view.py`. Capacity and isolation are observed for gpu-mem only.
    """

    edition: Edition
    switch: str
    """Label that selects the mode."""
    find_schedule: Callable[[Mapping[str, str]], ModeName]
    """The mode that a node's labels stand for, or the label's own unknown value."""
    modes: tuple[Mode, ...]
    needs: Mapping[str, Transition]
    """Transitions by name, as in `docs/transitions.md`."""
    matrix: str
    """Names of transitions, in a row for the old mode and a column for the new mode."""
    build_mode: Callable[[NvidiaConfig], Mode | None] = lambda config: None
    """Builds the mode of a configuration, where users name modes. `modes` is empty then."""
    every_change: str = ""
    """Transition between any two modes that users name."""
    find_expected_state: Callable[[Node, Mode], tuple[Mapping[str, str], Mapping[str, int]]] = (
        lambda node, mode: ({}, {})
    )
    """Finds the labels of others and the amounts that a node shows in a mode."""
    find_difference: Callable[[Node, Sequence[Pod], Mode, int], str] = (
        lambda node, pods, mode, lacking_cards: ""
    )
    """Finds another sign that a node whose plugin is Ready is not in the mode; the node may lack
    the given number of its cards."""
    count_lacking_cards: Callable[[Node], int] = lambda node: 0
    """Counts the cards of a node that its plugin does not offer, or not in full, in any mode."""
    installers: frozenset[str] = frozenset()
    """DaemonSets that load the cGPU kernel module on their nodes."""
    installed_by: str
    """Chart or page by which users install the edition's DaemonSets."""
    namespace_value: str = "pluginNamespace"
    """The chart's value for the namespace of the edition's DaemonSets."""
    has_scheduler_extender: bool = True
    """Whether a scheduler extender allocates: one card to a pod, and none to init containers."""
    card_annotation: str = names.ANNOTATION_CARD
    """Annotation of the scheduler on a pod with its cards; empty where there is none."""
    successor: Edition | None = None
    """The edition to which the vendor migrates clusters of this one."""
    unisolated: Schedule | None = None
    """The mode without isolation, for which the vendor names no mode of the successor."""
    removal: str = ""
    """How a user removes the edition after a migration."""
    removal_relabels: bool = False
    """Whether the removal may change the labels of nodes, too."""

    @cached_property
    def labels(self) -> frozenset[str]:
        """Keys of the labels of all modes."""
        return frozenset(key for mode in self.modes for key in mode.labels)

    @cached_property
    def tracks_module(self) -> bool:
        """Whether a cGPU kernel module that stays loaded affects another mode."""
        return any(mode.keeps_isolation for mode in self.modes)

    @property
    def has_placement(self) -> bool:
        """Whether a label on a node selects which of its cards is filled first."""
        return self.edition in EDITIONS_WITH_PLACEMENT
