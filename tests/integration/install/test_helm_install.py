"""The chart, installed by Helm: no replica is missed, and its removal leaves what it must.

Helm refuses what another made, so this has a cluster of its own: it starts in seconds, and is
compared at the end with what it was before.
"""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from devcluster.errors import CommandError
from devcluster.installation import NAMESPACE
from devcluster.release import COMPONENTS, Release
from tests.kit.bench import POOLS, Bench
from tests.kit.cluster.dry_run_pods import DryRuns, expect_routed, no_call_lost
from tests.kit.cluster.expect import (
    expect,
    expect_pool_ready,
    read_change,
)
from tests.kit.cluster.helm_release import (
    GPU_NODES,
    expect_left,
    list_nodes,
    no_node_notices,
    start_bare_cluster,
)
from tests.kit.cluster.object_diff import take_inventory
from tests.kit.cluster.replicas import Replicas
from tests.kit.cluster.sharing_pools import POOL, expect_each_restarted_once, plugin_names
from tests.kit.cluster.watch_recording import Recording
from tests.kit.values.manifests import build_pod, build_pool

Json = dict[str, Any]

SLICES = f"/apis/discovery.k8s.io/v1/namespaces/{NAMESPACE}/endpointslices"
_SERVICE_OF = "kubernetes.io/service-name"


PODS_PER_SECOND = 20
CALL = timedelta(seconds=3)
"""So long the API server waits for an answer (webhook.timeoutSeconds)."""
WATCH_HEALTH = timedelta(seconds=3)
"""So much later than this test a kube-proxy may hear of an EndpointSlice: it looks once a second
at most (--iptables-min-sync-period), and not while a busy machine lets it wait."""
LISTED_SECONDS = 20
"""A dead pod is out of its EndpointSlice by then: kube-controller-manager writes one in the same
second, or the next, on a machine that has the time."""
AT_ONCE = "5s"
OTHER_PORT = 9444
MODE = "ack.node.gpu.schedule"
KEPT = {
    "customresourcedefinitions.apiextensions.k8s.io /gpusharepools.gpushare.io",
    "apiservices.apiregistration.k8s.io /v1alpha1.gpushare.io",
    "gpusharepools.gpushare.io /training",
}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    with start_bare_cluster("helm", tmp_path_factory.mktemp("helm")) as bench:
        yield bench


@pytest.fixture(scope="module")
def before(place: Bench) -> set[str]:
    """What is there before anything is installed."""
    return take_inventory(place.cluster)


@pytest.fixture
def replicas(place: Bench, before: set[str]) -> Replicas:
    """The release with the chart's defaults, whole, and a pool that is Ready."""
    return given_release(place)


def given_release(place: Bench, **values: Any) -> Replicas:
    """The release with such values, whole, and a pool that is Ready, as its nodes are already."""
    release = Release(place.cluster, values)
    if not release.is_installed:
        release.install()
    elif values:
        release.upgrade()
    replicas = Replicas(place, release)
    replicas.expect_whole()
    if not place.call("GET", POOLS)["items"]:
        mode = place.node(GPU_NODES[0])["metadata"]["labels"].get(MODE, "share")
        place.create_pool(build_pool(schedule=mode))
    expect_pool_ready(place, nodes=len(GPU_NODES))
    expect_routed(place)
    return replicas


# What is installed.


def test_two_of_a_kind_are_on_different_nodes_though_those_have_no_zone(replicas: Replicas) -> None:
    for component in COMPONENTS:
        nodes = {pod["spec"]["nodeName"] for pod in replicas.release.pods(component)}
        assert len(nodes) == len(replicas.names(component)), f"{component}: {nodes}"


# Replicas go while there is work.


def test_controllers_killed_in_a_change_of_isolation_restart_each_plugin_once(
    place: Bench, replicas: Replicas
) -> None:
    plugins, mark = plugin_names(place), place.audit.mark()
    place.change_pool(schedule="cgpu")
    for _ in replicas.names("controller"):
        expect(place, "a node is being changed", lambda: any(map(read_change, list_nodes(place))))
        replicas.kill(replicas.active)
    expect_pool_ready(place, nodes=len(GPU_NODES))
    expect_each_restarted_once(place, plugins, mark)


def find_delisted(watch: Recording, address: str, since: datetime) -> datetime:
    """When, after `since`, the webhook's Service first listed the pod of this address no more.

    `watch` is one of `SLICES`; raises StopIteration where it always did.
    """
    return next(
        at
        for at, found in zip(watch.last_event_at, watch.history, strict=True)
        if at > since
        and found["metadata"]["labels"].get(_SERVICE_OF) == "gpushare-webhook"
        and not any(address in each["addresses"] for each in list_ready(found))
    )


def list_ready(slice_: Json) -> list[Json]:
    """Endpoints that get new connections."""
    endpoints: list[Json] = slice_.get("endpoints") or []
    return [each for each in endpoints if each["conditions"].get("ready", True)]


def test_killed_in_turn_under_load_they_cost_no_more_than_the_calls_sent_to_the_dead(
    place: Bench, replicas: Replicas
) -> None:
    # A call that goes to a dead webhook fails, and its pod is created unrouted (failurePolicy
    # Ignore). Its connections died with it, so that is over when its Service lists it no more.
    deaths = []
    with no_node_notices(place), place.watching(SLICES) as slices:
        with DryRuns(place, build_pod("p"), per_second=PODS_PER_SECOND) as pods:
            for name in replicas.names("controller"):
                replicas.kill(name)
            for pod in replicas.release.pods("webhook"):
                deaths.append((datetime.now(UTC), pod["status"]["podIP"]))
                replicas.kill(pod["metadata"]["name"])
        expect_pool_ready(place, nodes=len(GPU_NODES))
    ends = [find_delisted(slices, ip, at) for at, ip in deaths]
    listed = [(end - at).total_seconds() for (at, _), end in zip(deaths, ends, strict=True)]
    print(
        f"killed-in-turn pods={pods.sent} unrouted={len(pods.failures)} "
        f"seconds={pods.seconds:.1f} listed-when-dead={[f'{each:.2f}' for each in listed]}"
    )
    assert all("without a pool" in failure for failure in pods.failures), pods.failures
    for sent_at in pods.failed_at:
        assert any(
            at - CALL < sent_at < end + WATCH_HEALTH
            for (at, _), end in zip(deaths, ends, strict=True)
        ), f"{sent_at}: no webhook was dead then: {deaths}"
    assert max(listed) < LISTED_SECONDS
    assert pods.sent > 0.8 * PODS_PER_SECOND * pods.seconds


def test_an_upgrade_restarts_each_of_them_and_nothing_else(
    place: Bench, replicas: Replicas
) -> None:
    old = replicas.all
    with no_node_notices(place):
        with no_call_lost(place, per_second=PODS_PER_SECOND):
            replicas.release.upgrade(
                logLevel="DEBUG", webhook={"drainSeconds": 3, "port": OTHER_PORT}
            )
            replicas.expect_whole()
        expect_pool_ready(place, nodes=len(GPU_NODES))
    assert set(old).isdisjoint(replicas.all)


# The release goes.


def test_uninstalled_it_leaves_the_pools_which_nothing_holds_and_nothing_else(
    place: Bench, replicas: Replicas, before: set[str]
) -> None:
    place.create_pool(build_pool("spare", node_pool="none"))
    expect_pool_ready(place, "spare", nodes=0)

    with no_node_notices(place):
        replicas.release.uninstall()

    place.cluster.kubectl("delete", "gsp", "spare", f"--timeout={AT_ONCE}")
    assert "finalizers" not in place.pool()["metadata"]
    expect_left(place, before, KEPT)


def test_a_removal_that_waits_too_long_removes_nothing_says_why_and_can_be_taken_back(
    place: Bench, before: set[str]
) -> None:
    replicas = given_release(place, crds={"keep": False}, uninstall={"timeoutSeconds": 10})
    held = build_pool("held", node_pool="none")
    held["metadata"]["finalizers"] = ["example.com/held"]
    place.create_pool(held)

    with no_node_notices(place):
        with pytest.raises(CommandError, match="pool held: waits for finalizers of others"):
            replicas.release.uninstall()
        replicas.expect_whole()
        replicas.release.roll_back(1)
        replicas.expect_whole()

    place.call("PATCH", f"{POOLS}/held", {"metadata": {"finalizers": None}})
    expect(place, "it is gone", lambda: not place.call("GET", POOLS)["items"])


def test_installed_again_it_goes_on_and_uninstalled_with_its_crd_it_gives_the_nodes_back(
    place: Bench, before: set[str]
) -> None:
    with no_node_notices(place):
        replicas = given_release(place, crds={"keep": False})
    mark = place.audit.mark()

    replicas.release.uninstall()

    expect_left(place, before, set())
    assert place.audit.our_deletions(mark) == []
    for node in list_nodes(place):
        # As deletionPolicy Retain has it: pods may select the labels.
        assert node["metadata"]["labels"][POOL] == "training"
        notes = {key for key in node["metadata"]["annotations"] if key.startswith("gpushare.io/")}
        assert notes <= {"gpushare.io/module"}
