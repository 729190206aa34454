"""Plays the kubelet's device manager: registrations of plugins, and the resources of a node."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from devcluster.simulator.faults import Faults


@dataclass(frozen=True)
class Endpoint:
    """The device manager's state of a resource."""

    plugin: str  # UID of the plugin pod that registered last
    devices: int
    lost_at: float | None = None  # seconds; the plugin's socket has gone since
    silent: bool = False  # registered, yet lists no healthy device

    @property
    def healthy(self) -> int:
        """Number of devices that may be allocated by the kubelet's own state."""
        return 0 if self.silent or self.lost_at is not None else self.devices


@dataclass(frozen=True)
class Report:
    """The amounts of a resource in a node's status."""

    capacity: str
    allocatable: str


Endpoints = Mapping[str, Endpoint]


def register(
    endpoints: Endpoints, plugin: str, devices: Mapping[str, int], *, silent: bool = False
) -> dict[str, Endpoint]:
    """Register a plugin's resources; the last registration wins, silently."""
    new = {resource: Endpoint(plugin, count, None, silent) for resource, count in devices.items()}
    return {**endpoints, **new}


def lose(endpoints: Endpoints, plugins: Iterable[str], now: float) -> dict[str, Endpoint]:
    """Mark the devices of these plugins as unhealthy from now on."""
    gone = set(plugins)
    return {
        resource: replace(endpoint, lost_at=now)
        if endpoint.plugin in gone and endpoint.lost_at is None
        else endpoint
        for resource, endpoint in endpoints.items()
    }


def begin_boot(endpoints: Endpoints, now: float) -> dict[str, Endpoint]:
    """Return the device manager's state after a reboot, from its checkpoint: only names."""
    return {resource: Endpoint("", 0, lost_at=now) for resource in endpoints}


def has_expired(endpoint: Endpoint, faults: Faults, now: float) -> bool:
    """Tell whether the kubelet has removed a resource whose plugin left.

    Source: `endpointStopGracePeriod` of kubelet 1.37's device manager.
    """
    due = expiry_time(endpoint, faults)
    return due is not None and now >= due


def find_report(endpoint: Endpoint, faults: Faults, now: float) -> Report:
    """Return the amounts of a resource in the node's next status.

    Source: a stopped endpoint's devices are unhealthy at once and stay in capacity until the
    kubelet's grace period ends; the key stays for good (kubelet 1.37, `nodestatus/setters.go`).
    """
    gone = endpoint.silent or has_expired(endpoint, faults, now)
    healthy = round(endpoint.healthy * (1 - faults.unhealthy_fraction))
    return Report("0" if gone else str(endpoint.devices), str(healthy))


def expiry_time(endpoint: Endpoint, faults: Faults) -> float | None:
    """Return the time at which a lost resource's capacity is removed; None for a served one."""
    return None if endpoint.lost_at is None else endpoint.lost_at + faults.capacity_expires_seconds
