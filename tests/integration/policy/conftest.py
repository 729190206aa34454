"""Fixtures of tests of the admission policy."""

from collections.abc import Iterator

import pytest

from tests.integration.policy.policy_bench import PolicyBench
from tests.kit.bench import Bench
from tests.kit.cluster.installations import installation_with


@pytest.fixture(scope="module")
def policy(installed: Bench) -> Iterator[PolicyBench]:
    """The chart's policy, while no webhook is there."""
    with installation_with(installed, {"admissionPolicy.enabled": "true"}):
        bench = PolicyBench(installed)
        yield bench
        bench.close()
