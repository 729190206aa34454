"""What plays the nodes of a release is started once, and its end is told."""

import os
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import pytest

from devcluster.cluster import Cluster
from devcluster.errors import ClusterError
from devcluster.processes import spawn
from devcluster.release import Release

Json = dict[str, Any]


class FakeCluster:
    """A cluster that has its nodes already; what would play them only lives."""

    name = "demo"

    def __init__(self, folder: Path) -> None:
        self.folder = self.logs = folder
        self.api = self
        self.environment = os.environ
        self.spawned: list[subprocess.Popen[bytes]] = []
        # `python -m` looks for modules in its working folder first.
        (folder / "devcluster").mkdir()
        (folder / "devcluster/processnode.py").write_text("import time; time.sleep(60)\n")

    def exists(self, path: str) -> bool:
        return True

    def call(self, method: str, path: str) -> Json:
        """Of the nodes that were added, none, all are Ready."""
        answers: dict[tuple[str, str], Json] = {
            ("GET", "/api/v1/nodes"): {"items": []},
            ("GET", "/version"): {"gitVersion": "v1.30.14"},
        }
        return answers[method, path]

    def spawn(self, command: Sequence[str], *, log: str, env: Mapping[str, str]) -> None:
        own, log_file = self.folder, self.logs / log
        self.spawned.append(spawn(command, folder=own, working_folder=own, log=log_file, env=env))

    def end(self) -> None:
        for process in self.spawned:
            process.kill()
            process.wait()


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[FakeCluster]:
    fake = FakeCluster(tmp_path)
    yield fake
    fake.end()


@pytest.fixture
def release(cluster: FakeCluster) -> Release:
    return Release(cast(Cluster, cluster))


def test_who_plays_the_nodes_is_started_once(cluster: FakeCluster, release: Release) -> None:
    release.prepare()
    release.prepare()
    assert len(cluster.spawned) == 1


def test_where_who_plays_them_has_ended_that_is_said_and_no_other_is_started(
    cluster: FakeCluster, release: Release
) -> None:
    release.prepare()
    cluster.end()
    with pytest.raises(ClusterError, match=r"devcluster\.processnode.* has ended"):
        release.prepare()
    assert len(cluster.spawned) == 1
