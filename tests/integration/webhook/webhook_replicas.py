"""Several webhooks behind one address, as a Deployment and its Service have them."""

import contextlib
from collections.abc import Iterator, Mapping, Sequence

from devcluster.installation import OperatorProcess
from devcluster.ports import is_free
from tests.integration.webhook.service_forwarder import Backend, Forwarder
from tests.kit.bench import Bench
from tests.kit.cluster.expect import expect


@contextlib.contextmanager
def two_webhooks(
    bench: Bench, env: Mapping[str, str] | None = None
) -> Iterator[Sequence[OperatorProcess]]:
    """Two `gpushare webhook` that the API server reaches by the configuration's address; the block
    begins when both are ready."""
    # From the end of the block of ports: probes take theirs from its beginning.
    free = [port for port in reversed(bench.cluster.ports.spare) if is_free(port)][:2]
    processes = [
        bench.operators.start(
            "webhook",
            identity=f"webhook-{port}",
            env={"GPUSHARE_WEBHOOK_PORT": str(port), **(env or {})},
            wait=False,
        )
        for port in free
    ]
    backends = [
        Backend(port, each.metrics_port) for port, each in zip(free, processes, strict=True)
    ]
    with Forwarder(bench.cluster.ports.webhook, backends) as forwarder:
        expect(bench, "both webhooks are ready", lambda: len(forwarder.ready) == len(backends))
        try:
            yield processes
        finally:
            for process in processes:
                process.kill()
