"""Who held the controller's Lease from when on, seen from outside."""

from datetime import datetime

from tests.kit.bench import Bench
from tests.kit.cluster.expect import expect
from tests.kit.cluster.replicas import LEASE_NAME
from tests.kit.cluster.watch_recording import Recording

_WITHIN_SECONDS = 60.0


def measure_hand_over(bench: Bench, watch: Recording, since: datetime, *, but: str = "") -> float:
    """Seconds from `since` until the API server told of a Lease that somebody holds.

    `watch` is one of the Leases; `but` does not count as somebody.
    """

    def find() -> datetime | None:
        return next(
            (
                at
                for at, lease in zip(watch.heard_at, watch.history, strict=False)
                if at > since
                and lease["metadata"]["name"] == LEASE_NAME
                and lease["spec"]["holderIdentity"] not in ("", but)
            ),
            None,
        )

    at = expect(bench, "somebody holds the Lease", find, within_seconds=_WITHIN_SECONDS)
    return (at - since).total_seconds()
