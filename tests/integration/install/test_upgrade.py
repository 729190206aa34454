"""The version before this one is replaced by this one, and back: nothing on the nodes notices."""

from collections.abc import Iterator

import pytest

from devcluster.editions import Edition
from tests.integration.install.previous_version import PreviousVersion
from tests.kit.bench import NODES, POOLS, VERIFIED, Bench
from tests.kit.cluster.expect import (
    expect,
    expect_isolated,
    expect_pool_ready,
    expect_running,
    expect_step,
)
from tests.kit.cluster.object_diff import find_differences
from tests.kit.cluster.sharing_pools import given_sharing_pool, place_pod, plugin_names
from tests.kit.values.manifests import Json, build_pool

CRD = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/gpusharepools.gpushare.io"


@pytest.fixture(scope="module")
def previous(tmp_path_factory: pytest.TempPathFactory) -> PreviousVersion:
    return PreviousVersion.unpack(tmp_path_factory.mktemp("previous"))


@pytest.fixture
def replaceable(bench: Bench) -> Iterator[Bench]:
    """The cluster; afterwards the installation in it is of this version."""
    yield bench
    bench.operators.end_all()
    bench.operators.installation.apply()


def given_a_flip_that_was_cut_off(bench: Bench, edition: Edition) -> dict[str, str]:
    """Pool `settled` is done; of pool `training` n1 is in its change, n2 waits, and its controller
    is dead. The plugin's pods by node, n1's new one among them.
    """
    bench.install(edition)
    bench.add_nodes("s1", node_pool="np2")
    bench.create_pool(
        build_pool("settled", edition=edition, schedule="cgpu", nodes={"names": ["s1"]})
    )
    given_sharing_pool(bench, edition, "n1", "n2")
    expect_pool_ready(bench, "settled", nodes=1)
    expect_running(bench, place_pod(bench, "old", "s1", pool="settled"))
    first = plugin_of(bench, "n1")
    bench.set_faults("n1", start_delay_seconds=60)
    bench.change_pool(schedule="cgpu")
    expect_step(bench, "n1", "Restarting")
    expect(bench, "its plugin was replaced", lambda: plugin_of(bench, "n1") not in ("", first))
    bench.operators.end()
    bench.set_faults("n1")
    return {node: plugin_of(bench, node) for node in ("n1", "n2", "s1")}


def plugin_of(bench: Bench, node: str) -> str:
    """Name of the sharing plugin's pod on the node; empty where there is none."""
    pod = bench.plugins().get(node)
    return pod["metadata"]["name"] if pod else ""


def read_nodes(bench: Bench) -> dict[str, tuple[Json, bool]]:
    """Labels of each node, but for the one that older versions don't know, and whether it is
    cordoned."""
    return {
        node["metadata"]["name"]: (
            node["metadata"]["labels"] | {VERIFIED: ""},
            bool(node["spec"].get("unschedulable")),
        )
        for node in bench.call("GET", NODES)["items"]
    }


def read_pools(bench: Bench) -> dict[str, Json]:
    return {pool["metadata"]["name"]: pool for pool in bench.call("GET", POOLS)["items"]}


def find_lost(before: dict[str, Json], after: dict[str, Json]) -> list[str]:
    """What of the pools is not there any more, or not as it was; what is new is no loss."""
    return [
        f"{name}: {path}"
        for name, pool in before.items()
        for path, (old, _) in find_differences(pool, after[name]).items()
        if old is not None
    ]


def expect_the_flip_ends(bench: Bench, plugins: dict[str, str], mark: int) -> None:
    """All is Ready, and since `mark` just n2's plugin was restarted: n1's had been before."""
    expect_pool_ready(bench, nodes=2)
    expect_pool_ready(bench, "settled", nodes=1)
    assert bench.audit.our_deletions(mark) == [plugins["n2"]]
    assert {plugins["n1"], plugins["s1"]} <= set(plugin_names(bench))
    expect_isolated(expect_running(bench, place_pod(bench, "new", "n1")))


@pytest.mark.parametrize("edition", ["Professional", pytest.param("Basic", marks=pytest.mark.long)])
def test_an_upgrade_restarts_nothing_and_ends_what_was_begun(
    replaceable: Bench, previous: PreviousVersion, edition: Edition
) -> None:
    bench = replaceable
    previous.apply_crd(bench)
    previous.apply_rights(bench)
    previous.start(bench)
    plugins = given_a_flip_that_was_cut_off(bench, edition)
    pools, nodes, mark = read_pools(bench), read_nodes(bench), bench.audit.mark()

    bench.operators.installation.apply()

    # What is stored means what it meant: it only has defaults for what is new.
    assert find_lost(pools, read_pools(bench)) == []
    assert bench.call("GET", CRD)["status"]["storedVersions"] == ["v1alpha1"]
    assert "training" in bench.cluster.kubectl("get", "gsp")
    assert read_nodes(bench) == nodes
    bench.operators.start("controller")
    expect_the_flip_ends(bench, plugins, mark)
    assert read_nodes(bench)["s1"] == nodes["s1"]
    expect_running(bench, "old")


@pytest.mark.parametrize("edition", ["Basic", pytest.param("Professional", marks=pytest.mark.long)])
def test_a_downgrade_restarts_nothing_and_ends_what_was_begun(
    replaceable: Bench, previous: PreviousVersion, edition: Edition
) -> None:
    bench = replaceable
    bench.operators.start("controller")
    plugins = given_a_flip_that_was_cut_off(bench, edition)
    mark = bench.audit.mark()

    previous.apply_rights(bench)
    previous.apply_crd(bench)
    previous.start(bench)

    expect_the_flip_ends(bench, plugins, mark)
