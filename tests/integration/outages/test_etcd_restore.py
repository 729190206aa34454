"""etcd is restored from a backup, and resourceVersions begin again below those that were read."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from devcluster.cluster import Cluster
from tests.kit.bench import NODES, Bench
from tests.kit.cluster.expect import expect, expect_pool_ready, expect_step
from tests.kit.cluster.namespaces import default_namespace
from tests.kit.cluster.operator_processes import KUBELET_PERIOD_SECONDS
from tests.kit.cluster.pod_admission import expect_known
from tests.kit.cluster.sharing_pools import given_sharing_pool
from tests.kit.values.manifests import build_pool

CONTROL_PLANE = (
    *("kube-scheduler", "kube-controller-manager", "kwok-controller"),
    *("kube-apiserver", "etcd"),
)
"""All are restarted with a restore, as Kubernetes asks for: else they go on with what they know."""
WRITES = 150
"""So many versions nobody reaches again within the test."""


@pytest.fixture
def own(tmp_path: Path) -> Iterator[Bench]:
    """A cluster of this test's own: it goes back in time."""
    cluster = Cluster(
        f"restored-{os.getpid()}", tmp_path / "own", kubelet_period_seconds=KUBELET_PERIOD_SECONDS
    )
    cluster.up()
    bench = Bench(cluster)
    bench.operators.installation.apply()
    yield bench
    bench.operators.end_all()
    cluster.down()


@pytest.mark.long
def test_processes_end_where_etcd_was_restored_and_others_go_on_from_there(
    own: Bench, tmp_path: Path
) -> None:
    controller = own.operators.start("controller", env={"GPUSHARE_LEASE_DURATION_SECONDS": "60"})
    webhook = own.operators.start("webhook")
    given_sharing_pool(own, "Basic", "n1", "n2")
    data, backup = own.cluster.etcd_data, tmp_path / "backup"
    with own.cluster.killed(*CONTROL_PLANE):
        shutil.copytree(data, backup)
    own.add_nodes("n3")
    expect_pool_ready(own, nodes=3)
    for number in range(WRITES):
        own.annotate(f"{NODES}/n3", {"example.com/written": str(number)})
    # The webhook, too, has read a version that nobody reaches again.
    own.create_pool(build_pool("late", edition="Basic", nodes={"names": ["absent"]}))
    expect_known(default_namespace(own), "late")

    with own.cluster.killed(*CONTROL_PLANE):
        shutil.rmtree(data)
        shutil.copytree(backup, data)

    expect(own, "both end", lambda: not (controller.alive or webhook.alive))
    for process in (controller, webhook):
        assert "etcd was restored" in process.log.read_text()
    own.change_pool(schedule="cgpu")
    own.operators.start("controller", identity=controller.identity)
    # The simulated hardware does not come back from the restore.
    expect_step(own, "n1", "Restarting")
