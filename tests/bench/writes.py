"""How many applies the API server answered, by its own counters."""

from tests.bench.api import Api

_COUNTER = "apiserver_request_total{"


async def count_applies(api: Api) -> int:
    """Server-side applies of nodes that the API server answered since it started.

    It counts them as verb APPLY; whoever sent them, and however they ended.
    """
    return sum_applies(await api.text("metrics"))


def sum_applies(metrics: str) -> int:
    """The sum of that counter over its other labels, in the text that Prometheus reads."""
    return sum(
        int(float(line.rsplit(" ", 1)[1]))
        for line in metrics.splitlines()
        if line.startswith(_COUNTER) and 'resource="nodes"' in line and 'verb="APPLY"' in line
    )
