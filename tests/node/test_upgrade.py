"""A release of the commit before this one becomes one of this commit, on a real node."""

import subprocess
from pathlib import Path

import pytest

from devcluster.installation import NAMESPACE
from devcluster.node.cluster import NodeCluster
from devcluster.node.release import NodeRelease, provide_image
from devcluster.startup import PROJECT
from tests.kit.bench import Bench
from tests.kit.cluster.dry_run_pods import expect_routed, no_call_lost
from tests.kit.cluster.expect import expect_pool_ready
from tests.kit.cluster.replicas import Replicas
from tests.kit.values.manifests import build_pool

PODS_PER_SECOND = 20
BEFORE = "before"
"""Tag of the image of the commit before."""


@pytest.fixture
def former(tmp_path: Path) -> Path:
    """The files of the commit before; a clone without history skips the test, with the reason."""
    archive = tmp_path / "former.tar"
    git = ["git", "-C", str(PROJECT), "archive", f"--output={archive}", "HEAD~1"]
    done = subprocess.run(git, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        pytest.skip(f"there is no commit before this one here: {done.stderr.strip()}")
    folder = tmp_path / "former"
    folder.mkdir()
    subprocess.run(["tar", "-xf", str(archive), "-C", str(folder)], check=True)
    return folder


def test_the_release_of_the_commit_before_is_upgraded_and_no_call_fails(
    place: Bench, cluster: NodeCluster, former: Path
) -> None:
    provide_image(cluster, tag=BEFORE, source=former)
    older = NodeRelease(cluster, chart=former / "chart", tag=BEFORE)
    older.install()
    release = NodeRelease(cluster, {"crds": {"keep": False}})
    try:
        place.create_pool(build_pool(node_pool="none"))
        expect_pool_ready(place, nodes=0)
        expect_routed(place)
        old = Replicas(place, older).all
        with no_call_lost(place, per_second=PODS_PER_SECOND):
            release.upgrade()
            replicas = Replicas(place, release)
            replicas.expect_whole()
        expect_pool_ready(place, nodes=0)
        assert set(old).isdisjoint(replicas.all)
    finally:
        release.uninstall()
        cluster.kubectl("delete", "namespace", NAMESPACE)
