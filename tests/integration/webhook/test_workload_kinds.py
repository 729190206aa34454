"""Who applies an object of another project's kind reads where its pods will go."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import pytest

from gpushare.workload_kinds import merge_kinds
from tests.kit.bench import Bench
from tests.kit.cluster.expect import expect
from tests.kit.cluster.pod_admission import count_calls, given_pools, kubectl_create
from tests.kit.values.manifests import Json, build_pod
from tools.workload_kind_schemas import FILE

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
OTHERS = "other-workloads.gpushare.io"
CLUSTERS, JOBS = "rayclusters.ray.io", "jobs.batch.volcano.sh"


def build_crd(key: str) -> Json:
    """Build a CRD of the kind from what is kept of its schema; other fields are kept as well."""
    kind = merge_kinds()[key]
    versions = json.loads(FILE.read_text())[key]
    newest = min(versions, key=lambda name: ("alpha" in name, name))
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": key},
        "spec": {
            "group": kind.group,
            "scope": "Namespaced",
            "names": {"plural": kind.resource, "kind": kind.kind},
            "versions": [
                {
                    "name": newest,
                    "served": True,
                    "storage": True,
                    "subresources": {"status": {}},
                    "schema": {"openAPIV3Schema": _open(versions[newest]["schema"])},
                }
            ],
        },
    }


def _open(schema: Json) -> Json:
    """Let the leaves of a schema have any fields."""
    opened = dict(schema)
    if "properties" in schema:
        opened["properties"] = {key: _open(each) for key, each in schema["properties"].items()}
    for key in ("items", "additionalProperties"):
        if key in schema:
            opened[key] = _open(schema[key])
    if schema.get("type") == "array" and "items" not in schema:
        opened["items"] = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    if schema.get("type") == "object" and "additionalProperties" not in schema:
        opened["x-kubernetes-preserve-unknown-fields"] = True
    return opened


@contextmanager
def serving(bench: Bench, *keys: str) -> Iterator[None]:
    """Have the cluster serve these kinds within the block."""
    kinds = merge_kinds()
    for key in keys:
        crd = build_crd(key)
        bench.call("POST", CRDS, crd)
    try:
        for key in keys:
            expect(bench, f"{key} is served", partial(_is_served, bench, kinds[key].group))
        yield
    finally:
        for key in keys:
            bench.call("DELETE", f"{CRDS}/{key}")
        for key in keys:
            # The next test creates it again.
            expect(bench, f"{key} is gone", partial(_is_gone, bench, key))


def _is_gone(bench: Bench, key: str) -> bool:
    return not bench.cluster.api.exists(f"{CRDS}/{key}")


def _is_served(bench: Bench, group: str) -> bool:
    served = bench.call("GET", "/apis")["groups"]
    return any(each["name"] == group for each in served)


@pytest.fixture
def kinds(bench: Bench) -> Iterator[Bench]:
    with serving(bench, CLUSTERS, JOBS):
        yield bench


def build_template(**pod: Any) -> Json:
    return {"spec": build_pod("p", **pod)["spec"]}


def build_ray_cluster() -> Json:
    groups = [
        {"groupName": "small", "replicas": 1, "template": build_template()},
        {"groupName": "whole", "replicas": 1, "template": build_template(gib=None, core=30)},
    ]
    head = {"rayStartParams": {}, "template": build_template(gib=None)}
    return {
        "apiVersion": "ray.io/v1",
        "kind": "RayCluster",
        "metadata": {"name": "ray"},
        "spec": {"headGroupSpec": head, "workerGroupSpecs": groups},
    }


def test_each_group_of_a_cluster_is_told_where_it_goes_and_nothing_else_is_called(
    kinds: Bench,
) -> None:
    kinds.operators.standard()
    given_pools(kinds, training={"schedule": "cgpu"})
    assigned, *others = kubectl_create(kinds, build_ray_cluster()).warnings
    assert assigned == "Pods of workerGroupSpecs[small] will be assigned to pool training (cgpu)"
    assert any(
        each.startswith("workerGroupSpecs[whole]: No pool accepts this pod") for each in others
    )

    path = "/apis/ray.io/v1/namespaces/default/rayclusters"
    kinds.call("POST", path, build_ray_cluster())
    before = count_calls(kinds)
    kinds.call("PATCH", f"{path}/ray/status", {"status": {"state": "ready"}})
    kinds.call("PATCH", f"{path}/ray", {"metadata": {"labels": {"a": "b"}}})
    assert (count_calls(kinds) - before)[OTHERS] == 0
    kinds.call("PATCH", f"{path}/ray?dryRun=All", {"spec": {"suspend": True}})
    assert (count_calls(kinds) - before)[OTHERS] == 1
    kinds.call("DELETE", f"{path}/ray")


def test_volcano_places_the_pods_of_its_job(kinds: Bench) -> None:
    kinds.operators.standard()
    given_pools(kinds, training={"schedule": "cgpu"})
    job = {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": "train"},
        "spec": {"tasks": [{"name": "worker", "replicas": 2, "template": build_template()}]},
    }
    (warning,) = kubectl_create(kinds, job).warnings
    assert warning.startswith("tasks[worker]: No pool assigned: scheduler volcano chooses the node")
