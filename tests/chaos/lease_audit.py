"""Who held the controller's Lease when, and who wrote without it: from the audit log alone."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tests.kit.cluster.audit_log import Call

LEASE = "gpushare-controller"


@dataclass(frozen=True, slots=True)
class LateWrite:
    """A write that was sent after another process had taken the Lease."""

    call: Call
    claim: Call
    """The write by which the other took it."""

    @property
    def seconds(self) -> float:
        return (self.call.received_at - self.claim.at).total_seconds()

    def __str__(self) -> str:
        call = self.call
        outcome = "accepted" if call.succeeded else f"refused with {call.code}"
        return f"{call.verb} {call.resource} {call.name}, {outcome}, {self.seconds:.3f} s too late"


def find_claims(calls: Iterable[Call]) -> list[Call]:
    """The writes of the Lease by which it went to another process, oldest first."""
    claims: list[Call] = []
    for call in calls:
        is_held = call.resource == "leases" and call.name == LEASE and call.is_write
        if not (is_held and call.is_ours and call.succeeded):
            continue
        if not claims or claims[-1].credential != call.credential:
            claims.append(call)
    return claims


def find_late_writes(calls: Sequence[Call]) -> list[LateWrite]:
    """Writes of ours, accepted or not, that arrived when another process had the Lease already.

    A request that was on its way when the Lease changed hands is none: it arrived before the API
    server had answered the claim.
    """
    claims = find_claims(calls)
    late: list[LateWrite] = []
    for call in calls:
        if not call.is_our_write:
            continue
        ruling = [claim for claim in claims if claim.at <= call.received_at][-1:]
        late += [LateWrite(call, claim) for claim in ruling if claim.credential != call.credential]
    return late
