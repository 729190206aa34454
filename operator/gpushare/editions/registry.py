"""Lists all editions, and looks up their modes, labels and transitions."""

from collections.abc import Mapping

from gpushare import names
from gpushare.api.k8s.daemonset import FORMER
from gpushare.api.k8s.node import Node
from gpushare.api.nvidia_plugin import NvidiaConfig
from gpushare.api.pool import Edition, ModeName, PoolSpec, Schedule
from gpushare.editions.basic import BASIC
from gpushare.editions.edition import (
    LABELS_PAGE,
    EditionDescription,
    Mode,
    Outcome,
    Transition,
)
from gpushare.editions.nvidia import NVIDIA
from gpushare.editions.opensource import OPEN_SOURCE
from gpushare.editions.professional import PROFESSIONAL, TO_DEFAULT

EDITIONS: Mapping[Edition, EditionDescription] = {
    each.edition: each for each in (PROFESSIONAL, BASIC, OPEN_SOURCE, NVIDIA)
}
"""Editions by name; the first one counts for a node with the labels of several."""


MODES: Mapping[tuple[Edition, ModeName], Mode] = {
    (mode.edition, mode.schedule): mode for each in EDITIONS.values() for mode in each.modes
}
"""The modes that have a fixed name: `find_mode` finds those of configurations, too."""
INSTALLERS = frozenset(
    f"{former}{name}"
    for each in EDITIONS.values()
    for name in each.installers
    for former in ("", FORMER)
)
"""DaemonSets that load the cGPU kernel module on their nodes, also without their standard name."""
OLD_MODE_LABELS = frozenset(k for each in EDITIONS.values() if each.successor for k in each.labels)
"""Labels of the editions that have a successor."""
TRANSITIONS: Mapping[tuple[Edition, ModeName, ModeName], Transition] = {
    (each.edition, from_mode, to): each.needs[need]
    for each in EDITIONS.values()
    if each.modes
    for (_, *columns), *rows in [map(str.split, each.matrix.strip().splitlines())]
    for from_mode, *cells in rows
    for to, need in zip(columns, cells, strict=True)
    if from_mode != to
}
"""Transitions between all pairs of modes of each edition, from its matrix."""
UNKNOWN_STEPS = (
    "end or move the node's GPU pods",
    "remove it from the cluster and add it again with another label, or run: " + TO_DEFAULT,
)
"""Manual steps for a node whose label has an unknown value, which only Professional allows."""


def find_transition(edition: Edition, from_mode: ModeName, to: ModeName) -> Transition:
    """Find the transition between two modes; from an unknown mode it is manual.

    `mig` is such a mode: no label leads out of it (vendor's page on labels that control GPUs).
    """
    if need := EDITIONS[edition].every_change:
        return EDITIONS[edition].needs[need]
    return TRANSITIONS.get((edition, from_mode, to)) or Transition(
        Outcome.REQUIRES_MANUAL_ACTION,
        f"{from_mode!r} is not a known mode of the {edition} edition, and is kept",
        LABELS_PAGE,
        steps=UNKNOWN_STEPS,
    )


def find_edition(labels: Mapping[str, str]) -> Edition | None:
    """Find the edition whose switch a node has. NVIDIA's is left out: other editions' nodes may
    have it, too."""
    return next(
        (e.edition for e in EDITIONS.values() if e.modes and e.switch in labels),
        None,
    )


def find_mode(edition: Edition, schedule: ModeName) -> Mode | None:
    """Find a mode of the edition; None for a value unknown to it."""
    if isinstance(schedule, NvidiaConfig):
        return EDITIONS[edition].build_mode(schedule)
    return MODES.get((edition, schedule))


def get_mode(edition: Edition, schedule: ModeName) -> Mode:
    """Return a mode that the edition is known to have. Raises KeyError where it lacks it."""
    mode = find_mode(edition, schedule)
    if mode is None:
        raise KeyError((edition, schedule))
    return mode


def find_schedule(edition: Edition, labels: Mapping[str, str]) -> ModeName:
    """Find the mode that a node's labels stand for, or the label's own unknown value.

    No label of the edition means whole cards, as on clusters that label no new node.
    """
    return EDITIONS[edition].find_schedule(labels)


def shows_another(node: Node, mode: Mode) -> bool:
    """Tell whether a node shows another mode; absent or zero amounts may still change."""
    labels, amounts = EDITIONS[mode.edition].find_expected_state(node, mode)
    # Capacity includes the resources of unhealthy cards.
    listed = {**node.allocatable, **{k: v for k, v in node.capacity.items() if v}}
    return any(node.labels.get(key, value) != value for key, value in labels.items()) or any(
        listed.get(resource) not in (None, 0, amount) and node.allocatable.get(resource)
        for resource, amount in amounts.items()
    )


def desired_labels(pool: str, spec: PoolSpec) -> dict[str, str]:
    """Return all labels of a member of `pool`."""
    labels = {**get_mode(spec.edition, spec.schedule).labels, names.LABEL_POOL: pool}
    if spec.placement is not None:
        labels[names.LABEL_PLACEMENT] = str(spec.placement)
    return labels


def settled_labels(pool: str, spec: PoolSpec) -> dict[str, str]:
    """Return all labels of a member of `pool` with a verified mode."""
    is_isolated = get_mode(spec.edition, spec.schedule).isolated
    verified = {names.LABEL_ISOLATION_VERIFIED: names.VERIFIED} if is_isolated else {}
    return desired_labels(pool, spec) | verified


def find_other_edition_labels(edition: Edition, labels: Mapping[str, str]) -> dict[str, str]:
    """Find labels by which another edition shares this node's GPUs.

    Two editions on one node contradict each other: `cgpu=true` keeps isolation on beside
    `ack.node.gpu.schedule=share`. Values that leave whole cards alone do no harm.
    """
    # NVIDIA's plugin is detected by its pods (`installed_stacks.py`), not by its label.
    skipped = (edition, Edition.NVIDIA)
    others = (each.switch for each in EDITIONS.values() if each.edition not in skipped)
    harmless = (None, "false", Schedule.DEFAULT)
    return {key: labels[key] for key in others if labels.get(key) not in harmless}
