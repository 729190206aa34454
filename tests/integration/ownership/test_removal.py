"""The operator is removed, in whatever order: no webhook, no finalizer, the labels as agreed."""

import subprocess
from collections.abc import Iterator
from functools import partial
from urllib.error import HTTPError

import pytest

from devcluster.installation import NAMESPACE, OperatorProcess
from tests.integration.install.uninstall_hook import POOLS_GO, uninstall
from tests.kit.bench import MODE, NODES, POOL, POOLS, TABLES, Bench, Json
from tests.kit.cluster.expect import (
    expect,
    expect_gone,
    expect_labels,
    expect_pool_ready,
    list_traces,
)
from tests.kit.cluster.installations import forget_certificate
from tests.kit.cluster.operator_processes import fetch
from tests.kit.cluster.sharing_pools import given_sharing_pool
from tests.kit.values.doc_pages import DOCS, Page
from tests.kit.values.manifests import build_empty_table, build_pool

CRD = "gpusharepools.gpushare.io"
CRD_PATH = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{CRD}"
CONFIGURATION = "mutatingwebhookconfiguration/gpushare-webhook"
PAGE = Page(DOCS / "upgrade.md")
POOLS_STAY: dict[str, str] = {}


@pytest.fixture
def removable(bench: Bench) -> Iterator[Bench]:
    """The cluster; whatever is removed of the installation is there again for the next test."""
    yield bench
    bench.operators.end_all()
    bench.operators.installation.apply()
    forget_certificate(bench)


def read_nodes(bench: Bench) -> dict[str, Json]:
    """What a person set on each node, and what the operator did."""
    return {
        node["metadata"]["name"]: {
            "labels": node["metadata"]["labels"],
            "ours": {
                k: v for k, v in node["metadata"]["annotations"].items() if "gpushare.io" in k
            },
            "spec": node["spec"],
        }
        for node in bench.call("GET", NODES)["items"]
    }


def expect_left(bench: Bench, node: str, labels: dict[str, str | None]) -> None:
    """The node has these labels, and nothing on it is ours any more."""
    assert list_traces(expect_labels(bench, node, labels)) == []


def waits_for_crd(process: OperatorProcess) -> bool:
    """Whether /readyz says that the CRD is missing."""
    try:
        fetch(process, "/readyz")
    except HTTPError as error:
        return CRD in error.read().decode()
    except OSError:
        # Nobody listens for a moment.
        return False
    return False


# Pools that go with their CRD: before the controller does.


@pytest.mark.usefixtures("operator")
def test_pools_that_go_give_their_nodes_back_as_each_policy_says(bench: Bench) -> None:
    bench.install("Professional")
    bench.add_nodes("n1", "n2")
    bench.create_pool(build_pool("kept", nodes={"names": ["n1"]}))
    bench.create_pool(build_pool("undone", nodes={"names": ["n2"]}, deletionPolicy="Restore"))
    for pool in ("kept", "undone"):
        expect_pool_ready(bench, pool, nodes=1)
    # Of an admission policy that was switched off since.
    bench.call("POST", TABLES, build_empty_table())

    done = uninstall(bench, POOLS_GO)

    assert (done.returncode, done.stderr) == (0, "")
    assert bench.call("GET", POOLS)["items"] == []
    expect_left(bench, "n1", {MODE: "share", POOL: "kept"})
    expect_left(bench, "n2", {MODE: None, POOL: None})
    assert (
        "Pool kept is being deleted. Its nodes are released (deletionPolicy Retain)" in done.stdout
    )
    assert done.stdout.endswith("No pool is left\nThe admission table is deleted\n")
    assert bench.call("GET", TABLES)["items"] == []


def test_a_controller_that_is_dead_stops_the_removal_and_is_named(bench: Bench) -> None:
    controller = bench.operators.start("controller")
    given_sharing_pool(bench, "Professional", "n1", deletionPolicy="Restore")
    controller.kill()
    before = read_nodes(bench)

    done = uninstall(bench, POOLS_GO, timeout_seconds=10)

    assert done.returncode == 1
    assert "Pool training waits for the controller" in done.stderr
    assert "kubectl -n gpushare-system get pods" in done.stderr
    assert read_nodes(bench) == before
    bench.operators.restart(controller)
    assert uninstall(bench, POOLS_GO).returncode == 0
    expect_left(bench, "n1", {MODE: None, POOL: None})


# The CRD first.


def test_its_processes_outlive_the_crd_and_go_on_when_it_is_back(removable: Bench) -> None:
    bench = removable
    active = bench.operators.start("run")
    standby = bench.operators.start("controller", wait=False)
    given_sharing_pool(bench, "Professional", "n1")

    bench.cluster.kubectl("delete", "crd", CRD, "--timeout=60s")

    expect_left(bench, "n1", {MODE: "share", POOL: "training"})
    for process in (active, standby):
        expect(bench, "it waits for its CRD", partial(waits_for_crd, process))
        assert "Traceback" not in process.log.read_text()
    for values in (POOLS_GO, POOLS_STAY):
        assert uninstall(bench, values).returncode == 0
    bench.operators.installation.apply()
    bench.create_pool(build_pool("again"))
    expect_pool_ready(bench, "again", nodes=1)
    assert active.alive
    assert standby.alive
    active.stop()
    bench.change_pool("again", placement="spread")
    expect_pool_ready(bench, "again", nodes=1)


def test_a_crd_that_hangs_without_a_controller_goes_when_its_pools_are_let_go_of(
    removable: Bench,
) -> None:
    bench = removable
    controller = bench.operators.start("controller")
    given_sharing_pool(bench, "Professional", "n1")
    controller.kill()
    bench.cluster.kubectl("delete", "crd", CRD, "--wait=false")
    expect(bench, "it hangs", lambda: "deletionTimestamp" in bench.pool()["metadata"])

    assert uninstall(bench, POOLS_STAY).returncode == 0

    expect_gone(bench, CRD_PATH)
    expect_labels(bench, "n1", {MODE: "share", POOL: "training"})


# Other things first.


def test_without_its_webhook_configuration_it_goes_on_and_can_be_removed(removable: Bench) -> None:
    bench = removable
    operator = bench.operators.start("run")
    given_sharing_pool(bench, "Professional", "n1")

    bench.cluster.kubectl("delete", CONFIGURATION)

    assert uninstall(bench, POOLS_GO).returncode == 0
    assert operator.alive
    expect_left(bench, "n1", {MODE: "share", POOL: "training"})


def type_command(bench: Bench, beginning: str) -> None:
    """Type the command of the page that begins so, as a person does."""
    (command,) = (each for each in PAGE.commands if each.startswith(beginning))
    subprocess.run(
        command, shell=True, check=True, env=bench.cluster.environment, capture_output=True
    )


def test_after_its_namespace_the_commands_of_the_page_take_the_rest_away(
    removable: Bench,
) -> None:
    bench = removable
    controller = bench.operators.start("controller")
    given_sharing_pool(bench, "Professional", "n1")
    before = read_nodes(bench)

    # Its pods go with it, and so do their accounts.
    controller.kill()
    bench.cluster.kubectl("delete", "namespace", NAMESPACE, "--timeout=60s")
    type_command(bench, "kubectl delete mutatingwebhookconfigurations,")
    type_command(bench, "kubectl --namespace kube-system delete ")
    type_command(bench, "kubectl delete gpushareadmissiontables ")
    type_command(bench, "kubectl delete mutatingadmissionpolicies,")
    type_command(bench, "kubectl get gsp -o name | xargs ")

    assert sorted(find_left(bench)) == ["gpushareadmissiontables.gpushare.io", CRD]
    bench.cluster.kubectl("delete", "gsp", "--all", "--timeout=30s")
    assert read_nodes(bench) == before


def find_left(bench: Bench) -> list[str]:
    """Names of the chart's objects that are still there."""
    rendered = bench.operators.installation.render()
    found = bench.cluster.kubectl(
        "get", "--filename=-", "--ignore-not-found", "--output=name", stdin=rendered
    )
    return [name.rpartition("/")[2] for name in found.split()]
