"""The audit log is read as it grows, each line once."""

from collections.abc import Iterator
from pathlib import Path

import orjson
import pytest

from tests.kit.cluster.audit_log import AuditTail

OUR_USER = "system:serviceaccount:gpushare-system:gpushare-controller"


def a_line(user: str = OUR_USER, verb: str = "patch", resource: str = "nodes") -> bytes:
    event = {
        "auditID": "5b1c",
        "stage": "ResponseComplete",
        "requestReceivedTimestamp": "2026-01-02T03:04:05.000000Z",
        "stageTimestamp": "2026-01-02T03:04:05.100000Z",
        "user": {"username": user},
        "verb": verb,
        "objectRef": {"resource": resource, "name": "gpu-1"},
        "responseStatus": {"code": 200},
    }
    return orjson.dumps(event) + b"\n"


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "audit.log"
    path.write_bytes(a_line())
    return path


@pytest.fixture
def tail(log: Path) -> Iterator[AuditTail]:
    """Opened when one line was there already."""
    opened = AuditTail(log)
    yield opened
    opened.close()


def append(path: Path, *lines: bytes) -> None:
    with path.open("ab") as file:
        file.writelines(lines)


def test_readings_the_lease_and_others_are_left_out(tail: AuditTail, log: Path) -> None:
    append(log, a_line(user="kwok-admin"), a_line(verb="get"), a_line(resource="leases"))
    assert tail.read_our_writes() == []


def test_a_log_that_is_put_aside_is_read_to_its_end(tail: AuditTail, log: Path) -> None:
    append(log, a_line())
    log.rename(log.with_name("audit-1.log"))
    append(log, a_line(resource="events"))
    assert [write.resource for write in tail.read_our_writes()] == ["nodes", "events"]
