"""Initial and final states of tests of isolation changes."""

from collections.abc import Mapping, Sequence
from typing import Any

from devcluster.editions import Edition
from tests.kit.bench import POOL, Bench
from tests.kit.cluster.expect import (
    expect,
    expect_isolated,
    expect_pool_ready,
    expect_running,
    is_out_of_service,
    read_record,
)
from tests.kit.cluster.watch_recording import Recording
from tests.kit.values.manifests import build_pod, build_pool


def given_sharing_pool(
    bench: Bench, edition: Edition, *nodes: str, name_label: bool = True, **spec: Any
) -> dict[str, str]:
    """Create Ready nodes in the pool `training` in mode share; return their plugin pods' UIDs by
    node. Uses the running operator, or starts the standard one."""
    bench.install(edition, name_label=name_label)
    bench.add_nodes(*nodes)
    if not any(process.alive for process in bench.operators.installation.processes):
        bench.operators.standard()
    bench.create_pool(build_pool(edition=edition, **spec))
    expect_pool_ready(bench, nodes=len(nodes))
    return plugin_uids(bench)


def plugin_uids(bench: Bench) -> dict[str, str]:
    return {node: pod["metadata"]["uid"] for node, pod in bench.plugins().items()}


def plugin_names(bench: Bench) -> list[str]:
    return sorted(pod["metadata"]["name"] for pod in bench.plugins().values())


def expect_each_restarted_once(bench: Bench, before: Sequence[str], mark: int) -> None:
    """Check that since `mark` the operator deleted exactly the plugin pods `before`.

    A second restart would delete another pod. The deletion of one pod may be requested twice, where
    the first answer was lost.
    """
    expect(
        bench,
        f"each of {list(before)} was deleted once, and no other",
        lambda: set(bench.audit.our_deletions(mark)) == set(before),
    )


def expect_one_node_at_a_time(recording: Recording) -> None:
    together = recording.most_at_once(is_out_of_service)
    assert len(together) == 1, f"out of service at once: {sorted(together)}"


def expect_isolated_from_now_on(bench: Bench, nodes: Sequence[str]) -> None:
    """Check that a new pod on every node is isolated, and served by the running plugin."""
    for node in nodes:
        pod = expect_running(bench, place_pod(bench, f"after-{node}", node))
        expect_isolated(pod)
        assert read_record(pod)["main"]["plugin"] == plugin_uids(bench)[node]


def place_pod(bench: Bench, name: str, node: str, *, pool: str = "training", **options: Any) -> str:
    """Create a GPU pod that the scheduler can only bind to `node` of the pool."""
    selects: Mapping[str, str] = {"kubernetes.io/hostname": node, POOL: pool}
    return bench.create_pod(build_pod(name, selects=selects, **options))
