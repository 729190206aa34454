"""Faults and open facts that a test switches on, per node, in one annotation."""

import json
import math
from dataclasses import dataclass, fields, replace
from typing import Any, Literal

DEFAULT_DELAY_SECONDS = 0.2
KUBELET_PERIOD_SECONDS = 10.0
"""Default of the kubelet's nodeStatusUpdateFrequency. Tests choose a shorter one for their
clusters; the operator's settle time must be longer."""
MIB_PER_GIB = 1024
CHOICES = {"memory_unit": ("GiB", "MiB")}


class FaultError(ValueError):
    """The fault annotation of a node cannot be used."""


@dataclass(frozen=True)
class Faults:
    """The annotation `sim.devcluster/fault` of a node, JSON with these keys.

    The last key is no fault: it chooses between interpretations of a fact without a public source,
    so that tests can run with both.
    """

    plugin_never_ready: bool = False
    resource_zero: bool = False  # Ready, yet the resource stays 0 (NVIDIA/k8s-device-plugin #1228)
    installer_fails: bool = False
    whole_card_never_returns: bool = False  # the static whole-card plugin does not start again
    not_ready: bool = False  # the node's Ready condition is False and its kubelet starts nothing
    uninstall_fails: bool = False  # a teardown that shall remove the module's files
    job_hangs: bool = False  # a teardown never ends
    module_survives_reboot: bool = False  # loaded again although its files are gone
    never_boots: bool = False  # a node that kured reboots stays away
    memory_unit: Literal["GiB", "MiB"] = "GiB"  # of gpu-mem; read when a plugin starts
    unhealthy_fraction: float = 0.0  # of what a plugin lists, which the kubelet offers to nobody
    no_cards: bool = False  # a Ready plugin finds none; read when it starts
    keeps_old_resource: bool = False  # what nobody serves any more stays in the node's status
    start_delay_seconds: float = DEFAULT_DELAY_SECONDS
    resource_delay_seconds: float = DEFAULT_DELAY_SECONDS
    installer_delay_seconds: float = DEFAULT_DELAY_SECONDS
    job_delay_seconds: float = DEFAULT_DELAY_SECONDS  # from a teardown's start to its end
    discovery_delay_seconds: float = 1.0  # GPU feature discovery's, until the node has its labels
    mps_retry_seconds: float = 1.0  # NVIDIA's plugin looks for the MPS daemon again; really 30
    reboot_seconds: float = 1.0  # kured's: how long the node is away
    report_period_seconds: float = KUBELET_PERIOD_SECONDS  # between reports of a kubelet's status
    capacity_expires_seconds: float = 300.0  # the kubelet's grace for a plugin that has left
    bind_delay_seconds: float = 0.0  # between the extender's decision and its Binding
    kubelet_delay_seconds: float = 0.0  # between the Binding and the kubelet's admission
    isolation_survives_share: bool = True  # cgpu -> share keeps isolation (guide 002)

    @property
    def memory_unit_mib(self) -> int:
        """MiB in one unit of gpu-mem."""
        return MIB_PER_GIB if self.memory_unit == "GiB" else 1


NO_FAULTS = Faults()


def parse_faults(text: str | None, usual: Faults = NO_FAULTS) -> Faults:
    """Parse the faults in an annotation's value; missing keys are as in `usual`.

    Raises FaultError for anything but a JSON object with known keys and fitting values.
    """
    if not text:
        return usual
    try:
        given = json.loads(text)
    except ValueError as error:
        raise FaultError(f"expected a JSON object, got {text!r}: {error}") from None
    if not isinstance(given, dict):
        raise FaultError(f"expected a JSON object, got {text!r}")
    known = {field.name: field.default for field in fields(Faults)}
    for key, value in given.items():
        if key not in known:
            raise FaultError(f"unknown key {key!r}; known are {', '.join(sorted(known))}")
        if not _fits(key, known[key], value):
            raise FaultError(f"{key} cannot be {value!r}; its default is {known[key]!r}")
    return replace(usual, **given)


def _fits(key: str, default: object, value: Any) -> bool:
    if key in CHOICES:
        return value in CHOICES[key]
    if isinstance(default, bool):
        return isinstance(value, bool)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return math.isfinite(value) and value >= 0
