"""Disturbs the replicas of a release, and waits until they are back."""

from dataclasses import dataclass
from datetime import datetime
from functools import partial

from devcluster.installation import NAMESPACE
from devcluster.release import COMPONENTS, Release
from tests.kit.bench import Bench, Json
from tests.kit.cluster.expect import expect
from tests.kit.cluster.watch_recording import Recording

REPLICAS = 2
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
LEASES = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases"
LEASE_NAME = "gpushare-controller"
_WITHIN_SECONDS = 60.0


@dataclass(frozen=True)
class Replicas:
    """The pods of a release, by name."""

    bench: Bench
    release: Release

    @property
    def active(self) -> str:
        holder: str = self.bench.call("GET", f"{LEASES}/{LEASE_NAME}")["spec"]["holderIdentity"]
        return holder

    @property
    def all(self) -> list[str]:
        return [name for component in COMPONENTS for name in self.names(component)]

    def names(self, component: str) -> list[str]:
        """List the pods of a component that are not being deleted."""
        return [pod["metadata"]["name"] for pod in self.release.pods(component)]

    def kill(self, name: str) -> None:
        """Send SIGKILL to the pod's container; return once it has restarted and is ready."""
        pod = self._pod(name)
        restarts = _restarts(pod)
        self.release.kill(pod)

        def is_back() -> bool:
            current = self._pod(name)
            return _restarts(current) > restarts and is_ready(current)

        expect(self.bench, f"{name} is back", is_back, within_seconds=_WITHIN_SECONDS)

    def lose(self, name: str) -> None:
        """Delete the pod without a grace period, as when its node is lost."""
        self.bench.call("DELETE", f"{PODS}/{name}?gracePeriodSeconds=0")

    def delete(self, name: str) -> None:
        """Delete the pod with its grace period, as a drain does."""
        self.bench.call("DELETE", f"{PODS}/{name}")

    def expect_whole(self) -> None:
        """Wait until there are just two ready pods of each component, and an active controller."""
        for component in COMPONENTS:
            try:
                expect(
                    self.bench,
                    f"{REPLICAS} pods of {component} are ready",
                    partial(self._is_whole, component),
                    within_seconds=_WITHIN_SECONDS,
                )
            except AssertionError as error:
                error.add_note(self.release.describe())
                raise
        expect(
            self.bench,
            "a controller that is there holds the Lease",
            lambda: self.active in self.names("controller"),
        )

    def _pod(self, name: str) -> Json:
        pod: Json = self.bench.call("GET", f"{PODS}/{name}")
        return pod

    def _is_whole(self, component: str) -> bool:
        pods = self.release.pods(component, leaving=True)
        return len(pods) == REPLICAS and all(map(is_ready, pods))


def is_ready(pod: Json) -> bool:
    conditions = pod["status"].get("conditions", ())
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


def _restarts(pod: Json) -> int:
    (status,) = pod["status"]["containerStatuses"]
    restarts: int = status["restartCount"]
    return restarts


def measure_hand_over(bench: Bench, watch: Recording, since: datetime, *, but: str = "") -> float:
    """Measure the seconds from `since` until the Lease has a holder other than `but`, by `watch`, a
    recording of the Leases."""

    def find() -> datetime | None:
        return next(
            (
                at
                for at, lease in zip(watch.last_event_at, watch.history, strict=False)
                if at > since
                and lease["metadata"]["name"] == LEASE_NAME
                and lease["spec"]["holderIdentity"] not in ("", but)
            ),
            None,
        )

    at = expect(bench, "somebody holds the Lease", find, within_seconds=_WITHIN_SECONDS)
    return (at - since).total_seconds()
