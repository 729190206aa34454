"""A spec that turns bad after it was good."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import yaml

from devcluster.apiserver import ApiError
from devcluster.startup import PROJECT
from tests.integration.outages.fault_scenario import (
    LIST_OF_POOLS,
    Scenario,
    expect_repaired,
    standing,
)
from tests.kit.bench import POOLS, Bench
from tests.kit.cluster.expect import expect, find_condition

INVALID = "SpecInvalid"
CRD = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/gpusharepools.gpushare.io"


@pytest.fixture(scope="module")
def scenario(installed: Bench) -> Iterator[Scenario]:
    with standing(installed) as scenario:
        yield scenario


@contextmanager
def without_a_schema(bench: Bench) -> Iterator[None]:
    """The API server takes any spec, as that of a newer version of the operator would be."""
    ours = yaml.safe_load((PROJECT / "crds" / "gpusharepools.yaml").read_text())["spec"]["versions"]
    anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    loose = [{**version, "schema": {"openAPIV3Schema": anything}} for version in ours]
    bench.call("PATCH", CRD, {"spec": {"versions": loose}})
    try:
        expect(bench, "a mode of tomorrow is accepted", lambda: accepts(bench, "turbo"))
        yield
    finally:
        bench.call("PATCH", CRD, {"spec": {"versions": ours}})
        expect(bench, "a mode of tomorrow is refused", lambda: not accepts(bench, "turbo"))


def accepts(bench: Bench, schedule: str) -> bool:
    try:
        bench.call("PATCH", f"{POOLS}/training?dryRun=All", {"spec": {"schedule": schedule}})
    except ApiError:
        return False
    return True


def test_a_mode_that_is_not_known_leaves_the_nodes_as_they_are(scenario: Scenario) -> None:
    bench = scenario.bench
    with without_a_schema(bench):
        mark = bench.audit.mark()
        with bench.watching() as nodes:
            bench.change_pool(schedule="turbo")
            expect(bench, "it is said", lambda: find_condition(bench.pool())["reason"] == INVALID)
            # A process that never saw the good one knows no more than what stands on the nodes.
            scenario.process.kill()
            since = len(scenario.proxy.requests)
            scenario.start()
            scenario.expect_requests(LIST_OF_POOLS, 2, since=since)
            scenario.expect_requests("/leases/", 4, since=since)
        assert [call for call in bench.audit.our_writes(mark) if call.resource == "nodes"] == []
        assert {node["metadata"]["labels"]["gpushare.io/pool"] for node in nodes.history} == {
            "training"
        }
        bench.change_pool(schedule=scenario.mode)
        scenario.disturb()
        expect_repaired(bench)
    with scenario.flipping():
        scenario.expect_settled()
