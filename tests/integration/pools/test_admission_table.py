"""The object by which the API server itself chooses pools follows the pools."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.kit.bench import TABLES, Bench, Json
from tests.kit.cluster.expect import expect, expect_quiet
from tests.kit.cluster.installations import installation_with
from tests.kit.cluster.operator_processes import read_metric
from tests.kit.cluster.sharing_pools import given_sharing_pool
from tests.kit.values.manifests import build_pod, build_pool

TABLE = f"{TABLES}/pools"


@pytest.fixture(scope="module", autouse=True)
def _policy(installed: Bench) -> Iterator[None]:
    with installation_with(installed, {"admissionPolicy.enabled": "true"}):
        yield
    installed.call("DELETE", TABLE)


@pytest.fixture
def controller(bench: Bench) -> Any:
    """A controller that keeps the table, which it creates itself."""
    if bench.cluster.api.exists(TABLE):
        bench.call("DELETE", TABLE)
    return bench.operators.start("controller", env={"GPUSHARE_ADMISSION_TABLE": "true"})


def read_table(bench: Bench) -> Json:
    table: Json = bench.call("GET", TABLE)
    return table


def list_names(bench: Bench) -> list[str]:
    return [each["name"] for each in read_table(bench)["spec"]["pools"]]


def count_writes(bench: Bench, mark: int) -> int:
    """How often the table was written since `mark`."""
    kind = TABLES.rpartition("/")[2]
    return sum(call.is_write for call in bench.audit.calls(mark) if call.resource == kind)


def expect_listed(bench: Bench, *names: str) -> Json:
    """Wait until the table lists exactly these pools, in this order."""
    told = f"the table lists {names}"
    expect(bench, told, lambda: list_names(bench) == list(names), within_seconds=30)
    return read_table(bench)


@pytest.mark.usefixtures("controller")
def test_it_follows_a_pool_that_comes_changes_and_goes(bench: Bench) -> None:
    bench.create_pool(build_pool("first"))
    bench.create_pool(build_pool("second", schedule="cgpu"))
    found = expect_listed(bench, "first", "second")
    assert found["spec"]["modes"][found["spec"]["pools"][1]["mode"]]["isolatesByKernel"]
    bench.change_pool("second", priority=500)
    expect_listed(bench, "second", "first")
    bench.change_pool("first", reconcile="Observe")
    expect_listed(bench, "second")
    bench.delete_pool("second")
    found = expect_listed(bench)
    writers = {each["manager"] for each in found["metadata"]["managedFields"]}
    assert writers == {"gpushare-operator"}
    assert found["spec"] == {"modes": {}, "pools": [], "count": 0, "omitted": 0}


def test_what_others_do_to_it_is_undone(bench: Bench, controller: Any) -> None:
    bench.create_pool(build_pool())
    before = expect_listed(bench, "training")
    bench.call("PATCH", TABLE, {"spec": {"pools": [], "omitted": 7}})
    expect_listed(bench, "training")
    bench.call("DELETE", TABLE)
    after = expect_listed(bench, "training")
    assert after["spec"]["pools"][0]["nodes"] == before["spec"]["pools"][0]["nodes"]
    assert after["metadata"]["uid"] != before["metadata"]["uid"]
    verified = read_metric(controller, "gpushare_admission_table_verified_timestamp_seconds")
    assert verified > 0


@pytest.mark.usefixtures("controller")
def test_a_change_of_capacity_writes_nothing(bench: Bench) -> None:
    given_sharing_pool(bench, "Professional", "n1")
    expect(bench, "it tells of labels", lambda: len(read_table(bench)["spec"]["pools"]) == 1)
    expect_quiet(bench, "the table is settled", lambda: read_table(bench)["metadata"])
    mark, free = bench.audit.mark(), bench.pool()["status"]["capacity"]["freeBlocks"]
    bench.create_pod(build_pod("a", gib=3, selects={"gpushare.io/pool": "training"}))
    expect(
        bench,
        "the capacity is another",
        lambda: bench.pool()["status"]["capacity"]["freeBlocks"] != free,
    )
    # What comes later than the change of capacity would be written with or after it.
    bench.create_pool(build_pool("last", node_pool="none"))
    expect_listed(bench, "training", "last")
    assert count_writes(bench, mark) == 1
