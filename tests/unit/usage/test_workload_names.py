"""Which workload made a pod that is gone."""

import pytest

from gpushare.analysis.usage.workload_names import find_workload
from gpushare.api.k8s.pod_owner import Workload

LONG = "detector-for-the-cameras-of-the-plant-in-europe"
KNOWN = (
    Workload("Deployment", "trainer"),
    Workload("StatefulSet", "db"),
    Workload("Job", "batch"),
    Workload("CronJob", "nightly"),
    Workload("Deployment", LONG),
    Workload("RayCluster", "ray"),
    Workload("PyTorchJob", "tune"),
    Workload("PyTorchJob", "tune-more"),
)


@pytest.mark.parametrize(
    ("pod", "workload"),
    [
        ("trainer-7c9d5b8f6d-x2k4z", KNOWN[0]),
        ("db-0", KNOWN[1]),
        ("batch-x2k4z", KNOWN[2]),
        ("batch-3-x2k4z", KNOWN[2]),
        ("nightly-29012345-x2k4z", KNOWN[3]),
        ("trainer-extra-7c9d5b8f6d-x2k4z", None),
        ("trainer", None),
        # The API server cut the ReplicaSet's name.
        (f"{LONG}-7c9d5b8f6dx2k4z", KNOWN[4]),
        ("other-0", None),
        ("ray-small-worker-x2k4z", KNOWN[5]),
        ("ray", None),
        ("tune-master-0", KNOWN[6]),
        # Of both, names may begin so.
        ("tune-more-0", None),
    ],
)
def test_a_name_leads_to_the_workload_whose_controller_gives_such_names(
    pod: str, workload: Workload | None
) -> None:
    assert find_workload(pod, KNOWN) == workload


def test_a_name_that_two_workloads_may_give_leads_to_none() -> None:
    both = (Workload("Job", "batch"), Workload("ReplicaSet", "batch"))

    assert find_workload("batch-x2k4z", both) is None
