"""While no webhook answers as it should: only pods that it would be asked about notice."""

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from functools import partial

import pytest

from devcluster.apiserver import ApiError
from tests.integration.webhook.fake_webhook import ROUTED, serving, with_a_foreign_certificate
from tests.kit.bench import Bench
from tests.kit.cluster.dry_run_pods import count_lost
from tests.kit.cluster.expect import expect
from tests.kit.cluster.installations import installed_with
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


def test_an_answer_that_comes_just_in_time_counts(bench: Bench) -> None:
    def taken() -> dict[str, str] | None:
        # What else takes a tenth of a second on a busy machine makes it late: one in time will do.
        began = time.monotonic()
        sent = default_namespace(bench).send(build_pod("shared"))
        assert time.monotonic() - began >= 2.9
        selector: dict[str, str] | None = sent["spec"].get("nodeSelector")
        return selector

    with serving(bench, delay_seconds=2.9):
        assert expect(bench, "an answer counts", taken, within_seconds=60) == ROUTED


def test_an_installation_that_fails_closed_leaves_the_choice_to_its_namespaces(
    bench: Bench,
) -> None:
    with (
        installed_with(bench, {"webhook.failurePolicy": "Fail"}),
        temporary_namespace(bench, {"gpushare.io/failure-policy": "ignore"}) as lenient,
    ):
        expect(bench, "GPU pods are refused", lambda: is_refused(default_namespace(bench)))
        assert not is_refused(lenient)


def is_refused(space: Namespace) -> bool:
    """Whether GPU pods are refused now."""
    try:
        space.send(build_pod("shared"))
    except ApiError as error:
        if "failed calling webhook" not in str(error):
            raise
        return True
    return False
