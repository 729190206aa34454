"""A write without the Lease is found in the audit log, and nothing else is."""

from datetime import UTC, datetime, timedelta

from tests.chaos.lease_audit import LEASE, find_late_writes
from tests.kit.cluster.audit_log import OURS, Call

START = datetime(2026, 1, 1, tzinfo=UTC)


def call(
    credential: str,
    received: float,
    *,
    took: float = 0.01,
    verb: str = "patch",
    resource: str = "nodes",
    name: str = "n1",
    code: int = 200,
    user: str = OURS + "gpushare-controller",
) -> Call:
    received_at = START + timedelta(seconds=received)
    return Call(
        id="",
        received_at=received_at,
        at=received_at + timedelta(seconds=took),
        user=user,
        agent="",
        credential=credential,
        verb=verb,
        group="",
        resource=resource,
        namespace="",
        name=name,
        code=code,
        message="",
        annotations={},
    )


def claim(credential: str, received: float, *, code: int = 200) -> Call:
    return call(credential, received, verb="update", resource="leases", name=LEASE, code=code)


def test_a_claim_that_was_refused_changes_nothing() -> None:
    assert find_late_writes([claim("a", 0), claim("b", 1, code=409), call("a", 2)]) == []


def test_a_write_after_another_took_the_lease_is_found() -> None:
    late = call("a", 3)
    (found,) = find_late_writes([claim("a", 0), claim("b", 2), late, call("b", 4)])
    assert found.call is late
    assert str(found) == "patch nodes n1, accepted, 0.990 s too late"


def test_a_write_that_was_on_its_way_at_the_takeover_is_fine() -> None:
    assert find_late_writes([claim("a", 0), claim("b", 2), call("a", 2.005, took=1)]) == []
