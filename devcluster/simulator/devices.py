"""The kubelet's device manager: which plugin serves which resource, and what a node reports."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from devcluster.simulator.faults import Faults


@dataclass(frozen=True)
class Endpoint:
    """What the device manager knows of one resource."""

    plugin: str  # UID of the plugin pod that registered last
    devices: int
    lost_at: float | None = None  # seconds; the plugin's socket has gone since
    silent: bool = False  # registered, yet lists no healthy device

    @property
    def healthy(self) -> int:
        """The number of devices that may be allocated, as the kubelet sees it by itself."""
        return 0 if self.silent or self.lost_at is not None else self.devices


@dataclass(frozen=True)
class Report:
    """The amounts of one resource in a node's status."""

    capacity: str
    allocatable: str


Endpoints = Mapping[str, Endpoint]


def register(
    endpoints: Endpoints, plugin: str, devices: Mapping[str, int], *, silent: bool = False
) -> dict[str, Endpoint]:
    """Let a plugin serve resources: the last to register wins, silently."""
    new = {resource: Endpoint(plugin, count, None, silent) for resource, count in devices.items()}
    return {**endpoints, **new}


def lose(endpoints: Endpoints, plugins: Iterable[str], now: float) -> dict[str, Endpoint]:
    """Mark everything that these plugins served as unhealthy from now on."""
    gone = set(plugins)
    return {
        resource: replace(endpoint, lost_at=now)
        if endpoint.plugin in gone and endpoint.lost_at is None
        else endpoint
        for resource, endpoint in endpoints.items()
    }


def begin_boot(endpoints: Endpoints, now: float) -> dict[str, Endpoint]:
    """Return what the device manager knows after a reboot, from its checkpoint: names alone."""
    return {resource: Endpoint("", 0, lost_at=now) for resource in endpoints}


def has_expired(endpoint: Endpoint, faults: Faults, now: float) -> bool:
    """Tell whether the kubelet has given up a resource whose plugin left.

    Source: `endpointStopGracePeriod` of kubelet 1.37's device manager.
    """
    due = expiry_time(endpoint, faults)
    return due is not None and now >= due


def find_report(endpoint: Endpoint, faults: Faults, now: float) -> Report:
    """Return what the node's next status says of a resource.

    Source: a stopped endpoint's devices are unhealthy at once and stay in capacity until the
    kubelet's grace period ends; the key stays for good (kubelet 1.37, `nodestatus/setters.go`).
    """
    gone = endpoint.silent or has_expired(endpoint, faults, now)
    healthy = round(endpoint.healthy * (1 - faults.unhealthy_fraction))
    return Report("0" if gone else str(endpoint.devices), str(healthy))


def expiry_time(endpoint: Endpoint, faults: Faults) -> float | None:
    """Return when a lost resource's capacity goes; None for one that is served."""
    return None if endpoint.lost_at is None else endpoint.lost_at + faults.capacity_expires_seconds
