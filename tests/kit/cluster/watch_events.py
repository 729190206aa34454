"""Changes that the operator has heard of before a test goes on."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

from tests.kit.bench import Bench
from tests.kit.cluster.expect import expect
from tests.kit.cluster.operator_processes import read_metric

_LAST_EVENT = "gpushare_watch_last_event_timestamp_seconds"


@contextmanager
def hearing(bench: Bench, resource: str) -> Iterator[None]:
    """A block that changes `nodes`, `pods` or `daemonsets`; it is left when the standard operator
    has heard of one of them since it began. Another watch may tell it earlier of what comes next.
    """
    since = time.time()
    yield
    operator = bench.operators.standard()
    expect(
        bench,
        f"the operator hears of {resource}",
        lambda: read_metric(operator, _LAST_EVENT, resource=resource) > since,
    )
