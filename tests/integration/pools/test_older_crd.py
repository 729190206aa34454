"""What an older CRD stored and this one would refuse."""

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

import pytest

from devcluster.apiserver import ApiError
from gpushare import names
from tests.kit.bench import POOLS, Bench, Json
from tests.kit.cluster.command_line import run_command
from tests.kit.cluster.expect import expect
from tests.kit.values.manifests import build_pool

CRD = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{names.PLURAL}.{names.GROUP}"
GOOD = {"nodes": {"names": ["nobody"]}, "schedule": "share"}
MALFORMED: dict[str, Json] = {
    "number": {"spec": GOOD, "status": 7},
    "counts": {"spec": GOOD, "status": {"nodes": [1]}},
    "list": {"spec": [1]},
}


@contextmanager
def older_crd(bench: Bench) -> Iterator[None]:
    """Serve pools by a CRD that takes anything."""
    versions = bench.call("GET", CRD)["spec"]["versions"]
    loose = copy.deepcopy(versions)
    for version in loose:
        schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
        version["schema"] = {"openAPIV3Schema": schema}
    bench.call("PATCH", CRD, {"spec": {"versions": loose}})
    try:
        yield
    finally:
        bench.call("PATCH", CRD, {"spec": {"versions": versions}})


def is_stored(bench: Bench, name: str, stored: Json) -> bool:
    """Store a pool. The API server takes its time with another schema, by which it may have
    created one already whose status it still refuses."""
    try:
        if not bench.cluster.api.exists(f"{POOLS}/{name}"):
            bench.create_pool(build_pool(name) | {"spec": stored["spec"]})
        if "status" in stored:
            bench.call("PATCH", f"{POOLS}/{name}/status", {"status": stored["status"]})
    except ApiError:
        return False
    return True


def is_gone(bench: Bench, name: str) -> bool:
    try:
        bench.call("PATCH", f"{POOLS}/{name}", {"metadata": {"finalizers": []}})
        bench.call("DELETE", f"{POOLS}/{name}")
    except ApiError as error:
        return error.status == 404
    return False


@pytest.fixture
def malformed(bench: Bench) -> Iterator[None]:
    """Pools with fields of another type than this version's."""
    bench.operators.end_all()
    with older_crd(bench):
        for name, stored in MALFORMED.items():
            expect(bench, f"{name} is stored", partial(is_stored, bench, name, stored))
    yield
    bench.operators.end_all()
    with older_crd(bench):
        for name in MALFORMED:
            expect(bench, f"{name} is gone", partial(is_gone, bench, name))


@pytest.mark.usefixtures("malformed")
def test_pools_of_other_types_end_no_process_and_keep_no_command_from_the_others(
    bench: Bench,
) -> None:
    bench.create_pool(build_pool(nodes={"names": ["nobody"]}))
    process = bench.operators.start("run")
    expect(bench, "the good pool has a status", lambda: "status" in bench.pool("training"))
    for command in ("inspect --pools", "explain pool training", "plan pool training", "doctor"):
        shown = run_command(*command.split(), kubeconfig=bench.cluster.kubeconfig)
        assert "training" in shown.out, shown
        assert "API server failed" not in shown.err
    told = run_command("doctor", kubeconfig=bench.cluster.kubeconfig)
    assert all(name in told.out for name in MALFORMED), told
    assert process.alive, process.log.read_text()[-600:]
