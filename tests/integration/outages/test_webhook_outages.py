"""While no webhook answers as it should: only pods that it would be asked about notice."""

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from urllib.error import HTTPError

import pytest

from devcluster.apiserver import ApiError
from devcluster.installation import OperatorProcess
from tests.integration.webhook.fake_webhook import (
    ROUTED,
    blackholed,
    serving,
    with_a_foreign_certificate,
    with_an_expired_certificate,
)
from tests.kit.bench import Bench
from tests.kit.cluster.expect import expect, read_events
from tests.kit.cluster.fault_proxy import FaultProxy, Rule
from tests.kit.cluster.namespaces import Namespace, default_namespace, temporary_namespace
from tests.kit.cluster.operator_processes import fetch, wait_ready
from tests.kit.cluster.pod_admission import count_calls, expect_sent
from tests.kit.values.manifests import build_pod, build_pool, build_workload

Outage = Callable[[Bench], AbstractContextManager[None]]

TIMEOUT_SECONDS = 3
STALE_SECONDS = 60
LISTS = "/(gpusharepools|namespaces)[?]"
SLACK_SECONDS = 6.0
"""A busy machine may stand still for so long; a webhook without its timeout has 10 s."""


def killed(bench: Bench) -> AbstractContextManager[None]:
    """Nobody listens any more."""
    return nullcontext()


OUTAGES: dict[str, tuple[Outage, str]] = {
    "killed": (killed, "connection refused"),
    "blackholed": (blackholed, "context deadline exceeded"),
    "slow": (partial(serving, delay_seconds=3.1), "context deadline exceeded"),
    "foreign certificate": (with_a_foreign_certificate, "signed by unknown authority"),
    "expired certificate": (with_an_expired_certificate, "certificate has expired"),
}
"""And what the API server says of each."""
ALL = pytest.mark.parametrize(
    "outage", [outage for outage, _ in OUTAGES.values()], ids=list(OUTAGES)
)


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


@ALL
def test_pods_without_gpu_see_no_delay(bench: Bench, strict: Namespace, outage: Outage) -> None:
    with outage(bench):
        before = count_calls(bench)
        for space in (default_namespace(bench), strict, Namespace(bench, "kube-system")):
            space.send(build_pod("plain", gib=None))
        assert count_calls(bench) == before


@ALL
def test_gpu_pods_are_created_as_they_are_once_the_time_is_up(bench: Bench, outage: Outage) -> None:
    with outage(bench):
        before = count_calls(bench)
        began = time.monotonic()
        pod = default_namespace(bench).send(build_pod("shared"))
        assert "nodeSelector" not in pod["spec"]
        assert time.monotonic() - began < TIMEOUT_SECONDS + SLACK_SECONDS
        assert count_calls(bench) != before


@pytest.mark.parametrize(("outage", "sentence"), OUTAGES.values(), ids=list(OUTAGES))
def test_gpu_pods_are_refused_where_the_namespace_says_so(
    bench: Bench, strict: Namespace, outage: Outage, sentence: str
) -> None:
    with outage(bench):
        began = time.monotonic()
        with pytest.raises(ApiError, match=f"failed calling webhook .*{sentence}") as refusal:
            strict.send(build_pod("shared"))
        assert refusal.value.status == 500
        assert time.monotonic() - began < TIMEOUT_SECONDS + SLACK_SECONDS


def test_a_daemonset_of_exporters_gets_its_pods_where_gpu_pods_are_refused(
    bench: Bench, strict: Namespace
) -> None:
    exporter = build_pod("exporter", gib=None, env={"NVIDIA_VISIBLE_DEVICES": "all"})
    with pytest.raises(ApiError, match="failed calling webhook"):
        strict.send(exporter)
    bench.add_nodes("n1")
    workload = build_workload("DaemonSet", "exporter", pod=exporter)
    bench.call("POST", f"/apis/apps/v1/namespaces/{strict.name}/daemonsets", workload)
    expect(bench, "its pod is there", lambda: bench.call("GET", strict.pods)["items"])


@ALL
def test_workloads_are_created_in_spite_of_it(
    bench: Bench, strict: Namespace, outage: Outage
) -> None:
    workload = build_workload("Deployment", "work", pod=build_pod("work"))
    with outage(bench):
        path = f"/apis/apps/v1/namespaces/{strict.name}/deployments?dryRun=All"
        assert bench.call("POST", path, workload)["metadata"]["name"] == "work"


@pytest.mark.parametrize("is_strict", [False, True], ids=["ignore", "fail"])
def test_an_answer_that_comes_just_in_time_counts(
    bench: Bench, strict: Namespace, is_strict: bool
) -> None:
    space = strict if is_strict else default_namespace(bench)

    def taken() -> dict[str, str] | None:
        # What else takes a tenth of a second on a busy machine makes it late: one in time will do.
        began = time.monotonic()
        try:
            sent = space.send(build_pod("shared"))
        except ApiError:
            return None
        assert time.monotonic() - began >= 2.9
        selector: dict[str, str] | None = sent["spec"].get("nodeSelector")
        return selector

    with serving(bench, delay_seconds=2.9):
        assert expect(bench, "an answer counts", taken, within_seconds=60) == ROUTED


@pytest.mark.parametrize("label", ["ignore", None], ids=["ignore", "no label"])
def test_an_installation_that_fails_closed_leaves_the_choice_to_its_namespaces(
    bench: Bench, label: str | None
) -> None:
    installation = bench.operators.installation
    labels = {"gpushare.io/failure-policy": label} if label else {}
    with temporary_namespace(bench, labels) as space:
        installation.values = {"webhook.failurePolicy": "Fail"}
        installation.apply()
        try:
            outcome = partial(is_refused, space)
            wanted = label is None
            expect(bench, f"refused: {wanted}", lambda: outcome() is wanted)
        finally:
            installation.values = {}
            installation.apply()
        expect(bench, "it is as it was", lambda: not is_refused(space))


def find_unready(webhook: OperatorProcess) -> str:
    """What /readyz says is wrong; empty where nothing is."""
    try:
        fetch(webhook, "/readyz")
    except HTTPError as answer:
        return answer.read().decode()
    return ""


def is_refused(space: Namespace) -> bool:
    """Whether GPU pods are refused now."""
    try:
        space.send(build_pod("shared"))
    except ApiError as error:
        if "failed calling webhook" not in str(error):
            raise
        return True
    return False


@pytest.mark.long
def test_what_was_long_not_heard_of_is_not_answered_from(bench: Bench, strict: Namespace) -> None:
    bench.create_pool(build_pool())
    with FaultProxy(bench.cluster) as proxy:
        webhook = bench.operators.start("webhook", api_url=proxy.url)
        expect_sent(default_namespace(bench), build_pod("p"), "training")
        proxy.add(Rule("GET", LISTS, times=None, cut="request"))
        proxy.cut(LISTS)

        expect(
            bench,
            "it is not ready",
            lambda: "were last heard of" in find_unready(webhook),
            within_seconds=STALE_SECONDS + 10,
        )
        assert is_refused(strict)
        assert "nodeSelector" not in default_namespace(bench).send(build_pod("p"))["spec"]
        proxy.remove_all()
        wait_ready(webhook)
        expect_sent(strict, build_pod("p"), "training")


def test_a_pod_that_was_created_meanwhile_is_reported(bench: Bench) -> None:
    bench.operators.start("controller")
    bench.create_pool(build_pool())
    with blackholed(bench):
        bench.create_pod(build_pod("shared"))
    pod = bench.pod("shared")

    (event,) = expect(
        bench, "an Event says that it was not routed", lambda: read_events(bench, pod, "Unrouted")
    )
    assert "the webhook was away" in event["note"]
