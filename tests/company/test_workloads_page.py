"""The page on other systems: the API server takes each manifest as one of its kind, by the CRDs in
the projects' Go modules, and Kueue admits the page's Job."""

import os
from collections.abc import Iterator

import pytest

from devcluster.company.controller import read_manifests
from devcluster.installation import apply_crds
from devcluster.toolchain import KUEUE, find_source
from tests.company.page import find_manifest, kubectl_apply
from tests.company.queues import Queues
from tests.kit.bench import Bench, Json
from tests.kit.cluster.command_line import run_command
from tests.kit.cluster.expect import expect
from tests.kit.cluster.pod_admission import decision_of, pool_of

JOBSET = "sigs.k8s.io/jobset", "config/components/crd/bases/jobset.x-k8s.io_jobsets.yaml"
LWS = (
    "sigs.k8s.io/lws",
    "config/crd/bases/leaderworkerset.x-k8s.io_leaderworkersets.yaml",
)
TRAINER = (
    "github.com/kubeflow/trainer/v2",
    "manifests/base/crds/trainer.kubeflow.org_trainjobs.yaml",
)
OPERATOR = (
    "github.com/kubeflow/training-operator",
    "manifests/base/crds/kubeflow.org_pytorchjobs.yaml",
)


@pytest.fixture(
    params=[
        ("jobset.yaml", *JOBSET),
        ("leaderworkerset.yaml", *LWS),
        ("trainjob.yaml", *TRAINER),
        ("pytorchjob.yaml", *OPERATOR),
    ],
    ids=lambda given: given[0],
)
def manifest(request: pytest.FixtureRequest, bench: Bench) -> Iterator[str]:
    """A manifest whose CRD, of the version that Kueue requires, is in the cluster."""
    name, module, crd = request.param
    (definition,) = read_manifests((find_source(os.environ, KUEUE, module) / crd).read_text())
    # Its conversion would call a webhook that does not run.
    definition["spec"].pop("conversion", None)
    apply_crds(bench.cluster, [definition])
    yield find_manifest(name)
    bench.cluster.kubectl("delete", "crd", definition["metadata"]["name"])


def test_a_manifest_of_the_page_has_only_fields_of_its_kind(bench: Bench, manifest: str) -> None:
    kubectl_apply(bench, manifest)


def test_kueue_admits_the_job_of_the_page_into_the_pool_of_its_queue(queues: Queues) -> None:
    kubeconfig = queues.bench.cluster.kubeconfig
    rendered = run_command("render", "kueue", "-n", "default", kubeconfig=kubeconfig)
    assert rendered.code == 0, rendered.err
    kubectl_apply(queues.bench, rendered.out)
    warnings = kubectl_apply(queues.bench, find_manifest("job.yaml"))
    assert "If the Kueue flavor has node labels" in warnings

    def probe() -> list[Json] | None:
        pods = queues.bench.pods()
        return pods if len(pods) == 2 and {pool_of(pod) for pod in pods} == {"training"} else None

    for pod in expect(queues.bench, "Kueue admits the Job into the pool training", probe):
        assert decision_of(pod)["reason"] == "AlreadySelects"
