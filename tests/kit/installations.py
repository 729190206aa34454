"""Installations other than the standard one."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from devcluster.installation import Installation
from tests.kit.bench import Bench
from tests.kit.builders import build_pool
from tests.kit.certificatewatch import forget_certificate


@contextmanager
def installed_with(bench: Bench, values: Mapping[str, str]) -> Iterator[Bench]:
    """With one pool and no certificate yet, for a block; then it is the standard one again."""
    Installation(bench.cluster, values).apply()
    forget_certificate(bench)
    bench.create_pool(build_pool())
    yield bench
    bench.operators.end_all()
    bench.operators.installation.apply()
    forget_certificate(bench)
