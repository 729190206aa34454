"""The chart, installed by Helm: no replica is missed, and its removal leaves what it must.

Helm refuses what another made, so this has a cluster of its own: it starts in seconds, and is
compared at the end with what it was before.
"""

from collections.abc import Iterator
from typing import Any

import pytest

from devcluster.errors import CommandError
from devcluster.release import Release
from tests.kit.bench import MODE, POOL, POOLS, Bench
from tests.kit.cluster.dry_run_pods import expect_routed
from tests.kit.cluster.expect import expect, expect_pool_ready, list_traces, read_change
from tests.kit.cluster.helm_release import (
    GPU_NODES,
    OUTLIVING,
    expect_left,
    list_nodes,
    no_node_notices,
    start_bare_cluster,
)
from tests.kit.cluster.object_diff import take_inventory
from tests.kit.cluster.replicas import Replicas
from tests.kit.cluster.sharing_pools import expect_each_restarted_once, plugin_names
from tests.kit.values.manifests import build_pool

AT_ONCE = "5s"


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
    expect_left(place, before, OUTLIVING)


def test_a_removal_that_waits_too_long_removes_nothing_says_why_and_can_be_taken_back(
    place: Bench, before: set[str]
) -> None:
    replicas = given_release(place, crds={"keep": False}, uninstall={"timeoutSeconds": 10})
    held = build_pool("held", node_pool="none")
    held["metadata"]["finalizers"] = ["example.com/held"]
    place.create_pool(held)

    with no_node_notices(place):
        with pytest.raises(CommandError, match="Pool held waits for other finalizers"):
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
        assert list_traces(node) == []
