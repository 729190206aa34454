"""A write without the Lease is found in the audit log, and nothing else is."""

from tests.chaos.lease_audit import LEASE, find_late_writes
from tests.kit.cluster.audit_log import Call
from tests.unit.kit.calls import a_call


def write(credential: str, at: float, took: float = 0.01) -> Call:
    return a_call("patch", "nodes", name="n1", at=at, took=took, credential=credential)


def claim(credential: str, at: float, code: int = 200) -> Call:
    return a_call("update", "leases", name=LEASE, at=at, code=code, credential=credential)


def test_a_write_after_another_took_the_lease_is_found() -> None:
    late = write("a", 3)
    (found,) = find_late_writes([claim("a", 0), claim("b", 2), late, write("b", 4)])
    assert found.call is late


def test_a_write_that_was_on_its_way_at_the_takeover_is_fine() -> None:
    assert find_late_writes([claim("a", 0), claim("b", 2), write("a", 2.005, took=1)]) == []
