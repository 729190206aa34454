"""A release by an older chart, with its own program, becomes one by this chart, and back."""

import re
from functools import partial
from pathlib import Path

import pytest

from devcluster.release import COMPONENTS, Release, find_pid
from devcluster.startup import PROJECT
from tests.integration.install.previous_version import PreviousVersion
from tests.kit.cluster.dry_run_pods import expect_routed, no_call_lost
from tests.kit.cluster.expect import expect_pool_ready
from tests.kit.cluster.helm_release import (
    GPU_NODES,
    expect_left,
    no_node_notices,
    start_bare_cluster,
)
from tests.kit.cluster.object_diff import take_inventory
from tests.kit.cluster.replicas import Replicas
from tests.kit.values.manifests import build_pool

PODS_PER_SECOND = 20


@pytest.mark.timeout(600)  # Three releases after one another, and a removal.
def test_an_older_release_is_upgraded_rolled_back_and_upgraded_again_and_then_removed(
    tmp_path: Path,
) -> None:
    with start_bare_cluster("helm-upgrade", tmp_path / "cluster") as bench:
        before = take_inventory(bench.cluster)
        previous = PreviousVersion.unpack(tmp_path / "previous")
        older = previous.release(bench)
        older.install()
        assert read_sources(older) == {str(previous.source)}
        bench.create_pool(build_pool(schedule="cgpu"))
        expect_pool_ready(bench, nodes=len(GPU_NODES))
        expect_routed(bench)
        release = Release(bench.cluster, {"crds": {"keep": False}})

        for change in (release.upgrade, partial(release.roll_back, 1), release.upgrade):
            old = Replicas(bench, release).all
            with no_node_notices(bench):
                with no_call_lost(bench, per_second=PODS_PER_SECOND):
                    change()
                    replicas = Replicas(bench, release)
                    replicas.expect_whole()
                expect_pool_ready(bench, nodes=len(GPU_NODES))
            assert set(old).isdisjoint(replicas.all)

        assert read_sources(release) == {str(PROJECT / "operator")}
        release.uninstall()
        expect_left(bench, before, set())


def read_sources(release: Release) -> set[str]:
    """Where the program is found that its pods run."""
    pods = (pod for component in COMPONENTS for pod in release.pods(component))
    environments = (Path(f"/proc/{find_pid(pod)}/environ").read_text() for pod in pods)
    return {found for each in environments for found in re.findall("PYTHONPATH=([^\0]*)", each)}
