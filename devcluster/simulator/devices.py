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
    """The amounts of one resource in a node's status; None means the key is absent."""

    capacity: str | None
    allocatable: str | None


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


def find_report(endpoint: Endpoint, faults: Faults, now: float) -> Report | None:
    """Return what the node should report of a resource; None while it still shows the past.

    Source: a stopped endpoint's devices are unhealthy at once and stay in capacity until the
    kubelet's grace period ends. The API server hears of either only with the next status update.
    """
    if endpoint.lost_at is None:
        amount = str(endpoint.healthy)
        return Report(amount, amount)
    elapsed = now - endpoint.lost_at
    if elapsed < faults.report_lag_seconds:
        return None
    expires = faults.capacity_expires_seconds
    capacity = str(endpoint.devices) if expires is None or elapsed < expires else "0"
    return Report(capacity, "0" if faults.allocatable_when_gone == "zero" else None)


def report_times(endpoint: Endpoint, faults: Faults) -> list[float]:
    """Return the instants at which the report of a lost resource changes by itself."""
    if endpoint.lost_at is None:
        return []
    waits = (faults.report_lag_seconds, faults.capacity_expires_seconds)
    return [endpoint.lost_at + wait for wait in waits if wait is not None]
