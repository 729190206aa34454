"""Elects the one active controller by a lock on a Lease.

The rules are those of client-go's leader election: the holder renews the Lease; another takes it
once it was not renewed for its duration, measured by the other's own clock since it last observed a
change. A holder gives up well before that, so two never hold it at once.
"""

import asyncio
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

from gpushare.kube.client import ApiClient, Json
from gpushare.kube.errors import CALL_FAILURES, ApiError, KubeError, describe_failure
from gpushare.settings import LONGEST_LEASE_SECONDS

log = logging.getLogger(__name__)


RELEASE_SECONDS = 3.0
"""Limit of a release at a stop: later, others wait until the Lease has expired."""


_MOST_TRANSITIONS = 2**31 - 1
"""Largest `leaseTransitions`, an int32 in the API."""


class LeaseLostError(KubeError):
    """The Lease could not be renewed in time: stop at once, another process may hold it."""


def boot_clock() -> float:
    """Return the seconds of a clock that also runs while the machine is suspended."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


@dataclass(frozen=True, slots=True)
class LeaderElectionConfig:
    """Name, holder and timing of a Lease."""

    namespace: str
    name: str
    identity: str
    duration_seconds: float
    renew_seconds: float

    @property
    def deadline_seconds(self) -> float:
        """Time after its last renewal at which a holder stops, before others may take over."""
        return self.duration_seconds * 0.7


class LeaderElector:
    """Lock on a Lease: `acquire`, then `keep` in a task, and check `is_held` before each write."""

    def __init__(
        self, api: ApiClient, config: LeaderElectionConfig, clock: Callable[[], float] = boot_clock
    ):
        self._api = api
        self._config = config
        self._clock = clock
        self._observed: tuple[str, str] | None = None
        """Holder and time of the last renewal that was observed."""
        self._observed_at = 0.0
        self._renewed_at: float | None = None
        self._has_claimed = False
        """Our last claim has no answer; the API server may have stored it."""

    @property
    def is_held(self) -> bool:
        """Whether this process holds the Lease now, by a clock that counts suspended time."""
        return (
            self._renewed_at is not None
            and self._clock() - self._renewed_at < self._config.deadline_seconds
        )

    async def acquire(self, find_unsynced: Callable[[], str | None] = lambda: None) -> None:
        """Wait until the Lease is ours; while `find_unsynced` returns a reason, it is left to
        others."""
        waiting_for: str | None = None
        was_unsynced = False
        while True:
            try:
                unsynced = find_unsynced()
                if unsynced is not None and not was_unsynced:
                    log.warning("Lease %s is not acquired: %s", self._config.name, unsynced)
                was_unsynced = unsynced is not None
                if not was_unsynced and await self._try():
                    return
                holder = self._observed[0] if self._observed else None
                if holder != waiting_for:
                    waiting_for = holder
                    log.info("standing by; the Lease is held by %s", holder)
            except CALL_FAILURES as error:
                log.warning("Lease %s: %s", self._config.name, describe_failure(error))
            await asyncio.sleep(self._config.renew_seconds / 2)

    async def keep(self) -> None:
        """Renew the Lease for ever. Raises `LeaseLostError` once another process may hold it."""
        while True:
            await asyncio.sleep(self._config.renew_seconds)
            try:
                async with asyncio.timeout(self._config.renew_seconds):
                    if await self._try():
                        continue
                if (
                    self._observed is not None
                    and self._observed[0] == self._config.identity
                    and self.is_held
                ):
                    # Somebody else wrote to the Lease meanwhile, and left it ours.
                    continue
                raise LeaseLostError(f"Lease {self._config.name} was taken by another controller")
            except CALL_FAILURES as error:
                log.warning("Lease %s not renewed: %s", self._config.name, describe_failure(error))
            if not self.is_held:
                raise LeaseLostError(
                    f"Lease {self._config.name} could not be renewed for "
                    f"{self._config.deadline_seconds:g} s"
                )

    async def release(self) -> None:
        """Give the Lease up at a graceful stop; best effort, and soon given up."""
        if not (self.is_held or self._has_claimed):
            return
        self._renewed_at, self._has_claimed = None, False
        try:
            async with asyncio.timeout(RELEASE_SECONDS):
                # Again where a renewal that was under way at the stop came in between.
                while not await self._vacate():
                    pass
        except CALL_FAILURES as error:
            log.warning("Lease %s not released: %s", self._config.name, describe_failure(error))

    async def _vacate(self) -> bool:
        lease = await self._api.get(self._path(self._config.name))
        spec = lease.get("spec") or {}
        if spec.get("holderIdentity") != self._config.identity:
            return True
        lease["spec"] = {**spec, "holderIdentity": ""}
        return await self._write(lease)

    async def _try(self) -> bool:
        started = self._clock()
        lease = await self._api.find(self._path(self._config.name))
        if lease is None:
            return await self._send_claim(started, self._new(), create=True)
        # The Lease may have been renewed just before a slow answer, so its time counts from there.
        answered = self._clock()
        spec = lease.get("spec") or {}
        holder, renewed = spec.get("holderIdentity") or "", spec.get("renewTime") or ""
        if (holder, renewed) != self._observed:
            self._observed, self._observed_at = (holder, renewed), answered
        silent = answered - self._observed_at
        duration = spec.get("leaseDurationSeconds") or self._config.duration_seconds
        duration = min(duration, LONGEST_LEASE_SECONDS)
        if holder not in ("", self._config.identity) and silent < duration:
            return False
        lease["spec"] = {**spec, **self._claim(spec)}
        return await self._send_claim(started, lease)

    async def _send_claim(self, started: float, lease: Json, *, create: bool = False) -> bool:
        self._has_claimed = True
        is_ours = await self._write(lease, create=create)
        self._has_claimed = False
        if is_ours:
            self._renewed_at = started
        return is_ours

    async def _write(self, lease: Json, *, create: bool = False) -> bool:
        """Write the Lease; return False where another process was faster."""
        try:
            if create:
                await self._api.create(self._path(), lease)
            else:
                await self._api.replace(self._path(self._config.name), lease)
        except ApiError as error:
            if error.is_conflict:
                return False
            raise
        return True

    def _claim(self, previous: Json) -> Json:
        now = datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
        changed = previous.get("holderIdentity") != self._config.identity
        return {
            "holderIdentity": self._config.identity,
            "leaseDurationSeconds": max(1, round(self._config.duration_seconds)),
            "renewTime": now,
            "acquireTime": now if changed else previous.get("acquireTime", now),
            "leaseTransitions": min(
                (previous.get("leaseTransitions") or 0) + int(changed), _MOST_TRANSITIONS
            ),
        }

    def _new(self) -> Json:
        return {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": self._config.name, "namespace": self._config.namespace},
            "spec": self._claim({}),
        }

    def _path(self, name: str = "") -> str:
        base = f"apis/coordination.k8s.io/v1/namespaces/{self._config.namespace}/leases"
        return f"{base}/{name}" if name else base
