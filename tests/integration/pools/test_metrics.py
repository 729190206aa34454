"""What the controller's metrics say of a real cluster, and that they follow it."""

from devcluster.installation import OperatorProcess
from tests.kit.bench import Bench
from tests.kit.cluster.expect import expect
from tests.kit.cluster.operator_processes import fetch, read_metric
from tests.kit.cluster.sharing_pools import given_sharing_pool
from tests.kit.values.manifests import build_pod, build_workload

GIB = 2**30
PER_NODE = {"GPUSHARE_PER_NODE_METRICS": "true"}
POOL = "gpushare.io/pool"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"


def expect_metric(
    bench: Bench, process: OperatorProcess, value: float, name: str, **labels: str
) -> None:
    expect(
        bench,
        f"{name}{labels} is {value:g}",
        lambda: read_metric(process, f"gpushare_{name}", **labels) == value,
    )


def test_a_pool_that_is_gone_is_told_of_no_more(bench: Bench) -> None:
    controller = bench.operators.start("run", env=PER_NODE)
    given_sharing_pool(bench, "Professional", "n1")
    expect_metric(bench, controller, 1, "pool_nodes", pool="training", state="ready")
    bench.delete_pool()

    expect(
        bench,
        "no gauge speaks of it",
        lambda: "gpushare_pool_nodes{" not in fetch(controller, "/metrics"),
    )


def test_of_two_controllers_one_tells_of_the_cluster(bench: Bench) -> None:
    active = bench.operators.start("controller", env=PER_NODE)
    given_sharing_pool(bench, "Professional", "n1")
    pod = build_pod("web", gib=4, selects={POOL: "training"})
    bench.call("POST", DEPLOYMENTS, build_workload("Deployment", "web", replicas=2, pod=pod))
    expect_metric(bench, active, 8 * GIB, "application_memory_allocated_bytes", workload="web")
    standby = bench.operators.start("controller", env=PER_NODE)
    expect_metric(bench, standby, 0, "leader")
    expect(
        bench,
        "the one that stands by knows the nodes",
        lambda: read_metric(standby, "gpushare_watch_last_event_timestamp_seconds") > 0,
    )

    told = {
        line.split("{")[0] for line in fetch(standby, "/metrics").splitlines() if "pool=" in line
    }
    assert told == set()
