"""Pods that hold a change up are evicted where pool and installation want it, as budgets allow."""

from collections.abc import Iterator
from typing import Any

import pytest

from devcluster.installation import OperatorProcess
from tests.integration.webhook.fake_webhook import refusing_evictions
from tests.kit.bench import BUDGETS, PODS, POOL, Bench, Json
from tests.kit.cluster.expect import (
    expect,
    expect_gone,
    expect_pool_ready,
    expect_reason,
    expect_running,
    is_isolated,
    list_running,
    read_events,
)
from tests.kit.cluster.operator_processes import read_metric
from tests.kit.cluster.sharing_pools import (
    expect_isolated_from_now_on,
    given_sharing_pool,
    place_pod,
)
from tests.kit.values.manifests import build_pod, build_workload

EVICT = {"workloads": "Evict"}
SWITCHED_ON = {"eviction.enabled": "true"}
_WORKLOADS = "/apis/apps/v1/namespaces/default"


@pytest.fixture(scope="module")
def _switched_on(installed: Bench) -> Iterator[None]:
    """The chart is installed with the switch, which gives the right to evict."""
    switch(installed, SWITCHED_ON)
    yield
    installed.operators.end_all()
    switch(installed, {})


def switch(bench: Bench, values: dict[str, str]) -> None:
    """Install the chart with these values from now on."""
    bench.operators.installation.values = values
    bench.operators.installation.apply()


@pytest.fixture
def evicting(_switched_on: None, bench: Bench) -> OperatorProcess:
    """An operator that may evict, running."""
    return bench.operators.start(env={"GPUSHARE_ALLOW_EVICTION": "true"})


def create_workload(bench: Bench, kind: str, name: str, *, replicas: int = 1, **pod: Any) -> None:
    """Pods of 3 GiB in the pool, of one owner."""
    template = build_pod(name, selects={POOL: "training", **pod.pop("selects", {})}, **pod)
    workload = build_workload(kind, name, replicas=replicas, pod=template)
    bench.call("POST", f"{_WORKLOADS}/{kind.lower()}s", workload)
    expect(bench, f"{replicas} of {name} run", lambda: len(list_running(bench, name)) == replicas)


def create_budget(bench: Bench, app: str, *, min_available: int, allowed: int) -> None:
    """A PodDisruptionBudget, once the control plane says that it allows so many disruptions."""
    spec = {"minAvailable": min_available, "selector": {"matchLabels": {"app": app}}}
    bench.call("POST", BUDGETS, {"metadata": {"name": app}, "spec": spec})

    def is_counted() -> bool:
        budget = bench.call("GET", f"{BUDGETS}/{app}")
        status = budget.get("status", {})
        if status.get("observedGeneration") != budget["metadata"]["generation"]:
            return False
        return bool(status["disruptionsAllowed"] == allowed)

    expect(bench, f"the budget of {app} allows {allowed} disruptions", is_counted)


def evictions(bench: Bench, mark: int) -> list[str]:
    """Names of the pods whose eviction the operator asked for since the mark, granted or not."""
    return [call.name for call in bench.audit.our_writes(mark) if call.resource == "pods/eviction"]


def test_just_the_pods_that_hold_the_resource_are_evicted(
    bench: Bench, evicting: OperatorProcess
) -> None:
    given_sharing_pool(bench, "Professional", "n1", rollout=EVICT)
    expect_running(bench, place_pod(bench, "job", "n1"))
    expect_running(bench, place_pod(bench, "bystander", "n1", gib=None))
    job, bystander, mark = bench.pod("job"), bench.pod("bystander"), bench.audit.mark()

    bench.change_pool(schedule="cgpu")
    expect_pool_ready(bench, nodes=1)

    assert evictions(bench, mark) == ["job"]
    expect_gone(bench, f"{PODS}/job")
    assert bench.pod("bystander")["metadata"]["uid"] == bystander["metadata"]["uid"]
    (told,) = expect(bench, "it is told on the pod", lambda: read_events(bench, job, "PodEvicted"))
    assert "training" in told["note"]
    assert "n1" in told["note"]
    evicted = read_metric(evicting, "gpushare_evictions_total", pool="training", outcome="evicted")
    assert evicted == 1
    expect_isolated_from_now_on(bench, ["n1"])


def test_a_budget_that_allows_no_disruption_is_honoured_and_told_until_it_is_lifted(
    bench: Bench, evicting: OperatorProcess
) -> None:
    rollout = {**EVICT, "maxUnavailable": 2}
    given_sharing_pool(bench, "Professional", "n1", "n2", rollout=rollout)
    create_workload(bench, "Deployment", "server", selects={"kubernetes.io/hostname": "n1"})
    create_budget(bench, "server", min_available=1, allowed=0)
    expect_running(bench, place_pod(bench, "job", "n1"))
    (server,) = list_running(bench, "server")
    name = server["metadata"]["name"]

    bench.change_pool(schedule="cgpu")

    sample = expect_reason(bench, "n1", "EvictionRefused")
    assert f"default/{name}" in sample["message"]
    assert "needs 1 healthy pods" in sample["message"]
    expect_gone(bench, f"{PODS}/job")
    # Neither another node nor any other write waits for the budget.
    expect_isolated_from_now_on(bench, ["n2"])
    (told,) = expect(
        bench, "it is told on the pod", lambda: read_events(bench, server, "EvictionRefused")
    )
    assert (told["type"], "needs 1 healthy pods" in told["note"]) == ("Warning", True)
    assert read_metric(evicting, "gpushare_evictions_total", outcome="refused") >= 1
    assert read_metric(evicting, "gpushare_node_waits_total", reason="EvictionRefused") == 1
    assert read_events(bench, bench.pool(), "EvictionRefused")
    assert [pod["metadata"]["uid"] for pod in list_running(bench, "server")] == [
        server["metadata"]["uid"]
    ]

    bench.call("DELETE", f"{BUDGETS}/server")
    expect_pool_ready(bench, nodes=2)
    expect_gone(bench, f"{PODS}/{name}")
    expect(bench, "server runs again", lambda: list_running(bench, "server"))


@pytest.mark.parametrize("code", [429, 500, 503, 0])
def test_a_webhook_that_refuses_one_eviction_holds_no_other_pod_back(
    bench: Bench, evicting: OperatorProcess, code: int
) -> None:
    given_sharing_pool(bench, "Professional", "n1", rollout=EVICT)
    # The first by name is asked first.
    for name in ("a-kept", "job"):
        expect_running(bench, place_pod(bench, name, "n1"))
    kept = bench.pod("a-kept")
    with refusing_evictions(bench, code, of="a-kept"):
        bench.change_pool(schedule="cgpu")
        sample = expect_reason(bench, "n1", "EvictionRefused")
        expect_gone(bench, f"{PODS}/job")
        (told,) = expect(
            bench, "it is told on the pod", lambda: read_events(bench, kept, "EvictionRefused")
        )
    assert "default/a-kept" in sample["message"]
    for text in (sample["message"], told["note"]):
        assert "another.example.com" in text
    assert read_metric(evicting, "gpushare_evictions_total", outcome="refused") >= 1
    expect_pool_ready(bench, nodes=1)
    expect_gone(bench, f"{PODS}/a-kept")


def _fewest_running(history: list[Json], app: str) -> int:
    """The smallest number of pods of a workload that ran at one moment."""
    running: set[str] = set()
    counts = []
    for pod in history:
        meta = pod["metadata"]
        if meta.get("labels", {}).get("app") != app:
            continue
        if pod["status"].get("phase") == "Running" and "deletionTimestamp" not in meta:
            running.add(meta["uid"])
        else:
            running.discard(meta["uid"])
        counts.append(len(running))
    # The first states are those of the pods that were there, one by one.
    return min(counts[counts.index(max(counts)) :])


@pytest.mark.usefixtures("evicting")
def test_pods_that_keep_a_former_isolation_go_one_node_at_a_time_as_budgets_allow(
    bench: Bench,
) -> None:
    given_sharing_pool(bench, "Basic", "n1", "n2", rollout={"staleWorkloads": "Evict"})
    create_workload(bench, "Deployment", "server", replicas=3)
    create_budget(bench, "server", min_available=2, allowed=1)
    old = {pod["metadata"]["uid"] for pod in list_running(bench, "server")}

    with bench.watching(PODS) as watch:
        bench.change_pool(schedule="cgpu")
        expect(
            bench,
            "three others run, each isolated",
            lambda: (
                len(found := list_running(bench, "server")) == 3
                and not old & {pod["metadata"]["uid"] for pod in found}
                and all(map(is_isolated, found))
            ),
            within_seconds=90,
        )

    expect_pool_ready(bench, nodes=2)
    assert _fewest_running(watch.history, "server") >= 2
