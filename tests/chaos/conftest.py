"""What disturbed rollouts need besides a cluster."""

from collections.abc import Iterator
from contextlib import closing

import pytest

from tests.kit.bench import Bench
from tests.kit.cluster.audit_log import AuditTail


@pytest.fixture
def written(bench: Bench) -> Iterator[AuditTail]:
    """The audit log, from the test's beginning on."""
    with closing(AuditTail(bench.cluster.audit_log)) as tail:
        yield tail
