"""The page on other systems: each has a manifest, and admission does with its pods what it says.

`make test-company` has the API server check the manifests against the CRDs of their projects.
"""

from collections.abc import Iterator
from copy import deepcopy
from typing import Any

import pytest
import yaml

from gpushare.api.k8s.pod_request import read_pod_request
from gpushare.core.admission.decide import decide
from gpushare.core.admission.decision import AdmissionDecision
from gpushare.core.admission.request import Rules
from gpushare.webhook.pod_template import PodsFound, find_pods
from gpushare.workload_kinds import find_kind, merge_kinds
from tests.kit.values.doc_pages import DOCS, Page
from tests.kit.values.pool_views import HERE, a_view, admit

PAGE = Page(DOCS / "workloads.md")
Json = dict[str, Any]
KINDS = {
    "job.yaml": "Job",
    "raycluster.yaml": "RayCluster",
    "inferenceservice.yaml": "InferenceService",
    "trainjob.yaml": "TrainJob",
    "pytorchjob.yaml": "PyTorchJob",
    "jobset.yaml": "JobSet",
    "leaderworkerset.yaml": "LeaderWorkerSet",
    "workflow.yaml": "Workflow",
    "vcjob.yaml": "Job",
    "koordinator.yaml": "Pod",
}
POOLS = (a_view("training"), a_view("inference", priority=200))
"""The second is preferred to the first."""
NAMED = {"raycluster.yaml", "leaderworkerset.yaml"}
"""Manifests that name the pool `training`."""


def read_manifests() -> dict[str, Json]:
    blocks = [block for block in PAGE.blocks if block.language == "yaml"]
    return {str(block.file_name): yaml.safe_load(block.text) for block in blocks}


MANIFESTS = read_manifests()


def read_pods(manifest: Json) -> list[PodsFound]:
    kind = find_kind(merge_kinds(), manifest)
    assert kind is not None
    return list(find_pods(kind, manifest))


def decide_on(manifest: Json) -> Iterator[AdmissionDecision]:
    for found in read_pods(manifest):
        assert found.pod is not None, found.problem
        yield decide(read_pod_request(found.pod), HERE, POOLS)


def test_each_system_has_a_manifest_of_its_kind() -> None:
    shown = {name: each.get("kind") for name, each in MANIFESTS.items() if name != "my-values.yaml"}
    assert shown == KINDS


def test_each_system_of_the_table_has_a_section() -> None:
    linked = {link.removeprefix("#") for link in PAGE.links if link.startswith("#")}
    assert linked >= {"kueue", "kuberay", "kserve", "kubeflow", "volcano", "koordinator"}
    assert linked - PAGE.anchors == set()


@pytest.mark.parametrize(
    "name", sorted(KINDS.keys() - {"job.yaml", "trainjob.yaml", "koordinator.yaml"})
)
def test_pods_of_a_manifest_get_the_pool_that_it_names_or_the_best(name: str) -> None:
    decisions = list(decide_on(MANIFESTS[name]))
    assigned = {decision.pool for decision in decisions if decision.pool is not None}
    assert assigned == {"training" if name in NAMED else "inference"}
    assert [warning for decision in decisions for warning in decision.warnings] == []


def test_pods_of_a_trainjob_are_not_known() -> None:
    (found,) = read_pods(MANIFESTS["trainjob.yaml"])
    assert (found.pod, found.problem) == (None, "it names object torch-distributed")


def test_pods_of_kueue_get_the_pool_of_their_flavor() -> None:
    pod = deepcopy(MANIFESTS["job.yaml"]["spec"]["template"])
    pod["spec"]["nodeSelector"] = {"gpushare.io/pool": "training"}
    decision = admit(pod, *POOLS)
    assert (decision.reason, decision.warnings) == ("AlreadySelects", ())


def test_a_pod_of_koordinator_gets_a_pool_with_the_values_of_the_page() -> None:
    pod = MANIFESTS["koordinator.yaml"]
    assert admit(pod, *POOLS).reason == "OtherScheduler"
    listed = MANIFESTS["my-values.yaml"]["webhook"]["schedulers"]
    assert admit(pod, *POOLS, rules=Rules(schedulers=frozenset(listed))).pool == "inference"
