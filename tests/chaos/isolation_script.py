"""What happens to one node, in which order, made from a seed."""

import random
from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from gpushare.api.nvidia_plugin import NvidiaConfig
from gpushare.api.pool import Edition, ModeName, Schedule
from gpushare.editions.edition import Outcome, Transition
from gpushare.editions.registry import find_schedule, find_transition, get_mode


class Event(StrEnum):
    MODE_CHANGE = "mode change"
    DRIFT = "drift"
    POD_START = "pod start"
    CONTAINER_RESTART = "container restart"
    PLUGIN_RESTART = "plugin restart in place"
    PLUGIN_SIGNAL = "SIGHUP to the plugin"
    KUBELET_RESTART = "kubelet restart"
    FOREIGN_VALUE = "foreign value while the operator is away"
    REBOOT = "reboot"
    CRASH = "crash of the operator"
    EDIT = "edit of the configuration in force"
    MOVE = "move to another edition"


ON_NVIDIA = frozenset({Event.EDIT, Event.MOVE})
"""What happens in that edition only."""


ON_SHARED_CARDS = (
    Event.POD_START,
    Event.CONTAINER_RESTART,
    Event.PLUGIN_RESTART,
    Event.PLUGIN_SIGNAL,
    Event.FOREIGN_VALUE,
)
"""What happens only where cards are shared."""


_ALWAYS = (
    *[Event.POD_START] * 3,
    Event.MODE_CHANGE,
    Event.DRIFT,
    Event.CONTAINER_RESTART,
    Event.PLUGIN_RESTART,
    Event.PLUGIN_SIGNAL,
    Event.KUBELET_RESTART,
    Event.FOREIGN_VALUE,
    Event.REBOOT,
)
_MORE = (
    *[Event.POD_START] * 3,
    *[Event.MODE_CHANGE] * 2,
    Event.CONTAINER_RESTART,
    Event.PLUGIN_RESTART,
    Event.REBOOT,
)
_EXTRA = 4
_LOADS_MODULE = 0.1


def write_script(chance: random.Random, *, crashes: bool) -> list[Event]:
    """Each kind of event at least once, in any order, but the crash only where it is asked for."""
    steps = [*_ALWAYS, *chance.choices(_MORE, k=_EXTRA)]
    if crashes:
        steps.append(Event.CRASH)
    chance.shuffle(steps)
    return [Event.POD_START, *steps]


CONFIG_MODES = tuple(map(NvidiaConfig, ("whole", "slices-4", "mps-8", "shared-4")))
_PLAYED: Mapping[Edition, tuple[ModeName, ...]] = {
    Edition.PROFESSIONAL: (Schedule.DEFAULT, Schedule.SHARE, Schedule.CGPU, Schedule.CORE_MEM),
    Edition.BASIC: (Schedule.DEFAULT, Schedule.SHARE, Schedule.CGPU),
    Edition.NVIDIA: CONFIG_MODES,
}


def choose_mode(
    chance: random.Random, edition: Edition, of: ModeName, *, has_module: bool
) -> ModeName:
    """Another mode that a node in `of` can be brought to without being replaced."""
    by_hand = Outcome.REQUIRES_MANUAL_ACTION
    left = {of, Schedule.CGPU} if has_module else {of}
    others = (to for to in _PLAYED[edition] if to != of)
    return chance.choice(
        [
            to
            for to in others
            if all(find_change(edition, mode, to).outcome is not by_hand for mode in left - {to})
        ]
    )


def build_spec(mode: ModeName) -> dict[str, Any]:
    """What a pool's spec says for that mode."""
    if isinstance(mode, NvidiaConfig):
        return {"nvidia": {"config": mode.key}}
    return {"schedule": mode}


def find_change(edition: Edition, of: ModeName, to: ModeName) -> Transition:
    return find_transition(edition, of, to)


def choose_drift(
    chance: random.Random, edition: Edition, of: ModeName, wanted: ModeName
) -> dict[str, str]:
    """A mode label with a value of neither mode, from which a way leads back."""
    ours = (get_mode(edition, of).labels, get_mode(edition, wanted).labels)
    spared = is_spared(chance, edition, of)
    found = [
        {key: value}
        for other in _PLAYED[edition]
        if all(
            to is other or find_change(edition, other, to).refusal is None for to in (of, wanted)
        )
        for key, value in get_mode(edition, other).labels.items()
        if not (spared and get_mode(edition, other).isolated)
        if all(labels.get(key) != value for labels in ours)
        if find_schedule(edition, {**ours[0], key: value}) != of
    ]
    return chance.choice(found) if found else {}


def choose_foreign(chance: random.Random, edition: Edition, of: ModeName) -> dict[str, str]:
    """A mode label with which the plugin of `of` stays, and reads another mode."""
    plugin = get_mode(edition, of).plugin
    return chance.choice(
        [
            {key: value}
            for other in _PLAYED[edition]
            if other != of and get_mode(edition, other).plugin == plugin
            for key, value in get_mode(edition, other).labels.items()
            if get_mode(edition, of).labels.get(key) != value
        ]
        or [{}]
    )


def is_spared(chance: random.Random, edition: Edition, of: ModeName) -> bool:
    """Whether a node in `of` is not labelled for isolation.

    An installer that runs for a moment loads the kernel module, and what a plugin that reads
    `share` gives from then on nobody knows before a teardown: so that is seldom played.
    """
    share = edition is Edition.PROFESSIONAL and of is Schedule.SHARE
    return share and chance.random() >= _LOADS_MODULE


def swaps_plugin(edition: Edition, of: ModeName, drift: Mapping[str, str]) -> bool:
    """Whether another DaemonSet's plugin takes the cards of a node in `of` that drifts so."""
    said = find_schedule(edition, {**get_mode(edition, of).labels, **drift})
    return get_mode(edition, said).plugin != get_mode(edition, of).plugin
