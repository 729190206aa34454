"""While no webhook answers as it should: only pods that it would be asked about notice."""

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from functools import partial

import pytest

from devcluster.apiserver import ApiError
from tests.integration.webhook.fake_webhook import serving, with_a_foreign_certificate
from tests.kit.bench import Bench
from tests.kit.cluster.dry_run_pods import count_lost
from tests.kit.cluster.namespaces import Namespace, default_namespace, temporary_namespace
from tests.kit.values.manifests import build_pod

Outage = Callable[[Bench], AbstractContextManager[None]]

TIMEOUT_SECONDS = 3
SLACK_SECONDS = 6.0
"""A busy machine may stand still for so long; a webhook without its timeout has 10 s."""


def killed(bench: Bench) -> AbstractContextManager[None]:
    """Nobody listens any more."""
    return nullcontext()


OUTAGES: dict[str, tuple[Outage, str]] = {
    "killed": (killed, "connection refused"),
    "slow": (partial(serving, delay_seconds=3.1), "context deadline exceeded"),
    "foreign certificate": (with_a_foreign_certificate, "signed by unknown authority"),
}
"""And what the API server says of each."""


@pytest.fixture
def bench(bench: Bench) -> Bench:
    """No webhook of ours runs."""
    bench.operators.end_all()
    return bench


@pytest.fixture
def strict(bench: Bench) -> Iterator[Namespace]:
    """A namespace whose pods are not to be created unrouted."""
    with temporary_namespace(bench, {"gpushare.io/failure-policy": "fail"}) as space:
        yield space


@pytest.mark.parametrize(("outage", "sentence"), OUTAGES.values(), ids=list(OUTAGES))
def test_gpu_pods_are_created_as_they_are_or_refused_once_the_time_is_up(
    bench: Bench, strict: Namespace, outage: Outage, sentence: str
) -> None:
    with outage(bench):
        before, began = count_lost(bench), time.monotonic()
        pod = default_namespace(bench).send(build_pod("shared"))
        assert "nodeSelector" not in pod["spec"]
        assert count_lost(bench) == before + 1
        with pytest.raises(ApiError, match=f"failed calling webhook .*{sentence}") as refusal:
            strict.send(build_pod("shared"))
        assert refusal.value.status == 500
        assert count_lost(bench) == before + 2
        assert time.monotonic() - began < 2 * TIMEOUT_SECONDS + SLACK_SECONDS
