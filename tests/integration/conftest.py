"""Installations other than the standard one."""

from collections.abc import Iterator

import pytest

from devcluster.installation import Installation
from tests.kit.bench import Bench
from tests.kit.builders import build_pool
from tests.kit.certificatewatch import forget_certificate


@pytest.fixture
def strict(bench: Bench) -> Iterator[Bench]:
    """An installation that refuses GPU pods while no webhook answers, with one pool."""
    Installation(bench.cluster, {"webhook.failurePolicy": "Fail"}).apply()
    forget_certificate(bench)
    bench.create_pool(build_pool())
    yield bench
    bench.operators.end_all()
    bench.operators.installation.apply()
    forget_certificate(bench)
