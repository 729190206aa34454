"""Findings about the policy by which the API server chooses pools, and about what it reads."""

from typing import Any

import pytest

from gpushare.analysis.doctor.admission_policy import AdmissionPolicy, judge_admission_policy
from gpushare.analysis.finding import FindingCode, Severity, Unseen
from gpushare.cli.doctor import admission_policy
from gpushare.cli.doctor.admission_policy import BINDING_PATH, POLICY_PATH, read_admission_policy
from gpushare.core.admission.table import build_table
from gpushare.kube.resources import pools
from gpushare.kube.resources.admission_tables import PATH
from tests.kit.values.fake_api import FakeApi
from tests.kit.values.pool_views import Json, a_view
from tests.unit.doctor.expect_findings import expect_one, list_codes

POOLS = (a_view("a"), a_view("b"))
FORBIDDEN = Unseen("a right is missing: no")


def a_table(*views: Any, **spec: Any) -> Json:
    return {"metadata": {"name": "pools"}, "spec": {**build_table(views).dump(), **spec}}


def a_policy(**parts: Any) -> AdmissionPolicy:
    values: Json = {
        "is_wanted": True,
        "policy": {"spec": {}},
        "binding": {"spec": {}},
        "table": a_table(*POOLS),
        "pools": POOLS,
    }
    return AdmissionPolicy(**(values | parts))


TOO_MANY = tuple(a_view(f"p{number:03}") for number in range(303))


@pytest.mark.parametrize(
    ("parts", "code", "told"),
    [
        ({}, FindingCode.TABLE_CURRENT, "(2)"),
        ({"is_wanted": False}, FindingCode.TABLE_CURRENT, ""),
        ({"policy": None}, FindingCode.POLICY_MISSING, "helm upgrade"),
        ({"binding": None}, FindingCode.POLICY_MISSING, "binding"),
        ({"table": None}, FindingCode.TABLE_MISSING, "crds/"),
        ({"table": a_table(POOLS[0])}, FindingCode.TABLE_DIFFERS, "log"),
        ({"table": {"metadata": {}}}, FindingCode.TABLE_DIFFERS, "log"),
        ({"table": a_table(*TOO_MANY), "pools": TOO_MANY}, FindingCode.TABLE_OMITS_POOLS, "3"),
    ],
)
def test_what_is_wrong_with_the_policy_or_its_table_is_said_with_what_to_do(
    parts: Json, code: FindingCode, told: str
) -> None:
    expect_one(judge_admission_policy(a_policy(**parts)), code, code.severity, told)
    assert code is FindingCode.TABLE_CURRENT or code.severity is Severity.WARNING


@pytest.mark.parametrize("policy", [None, FORBIDDEN], ids=["missing", "unseen"])
def test_where_nobody_wants_the_policy_nothing_is_said_of_it(policy: Unseen | None) -> None:
    found = a_policy(is_wanted=False, policy=policy, table=None)
    assert list_codes(judge_admission_policy(found)) == []


def test_what_may_not_be_read_is_skipped() -> None:
    found = judge_admission_policy(a_policy(policy=FORBIDDEN, pools=FORBIDDEN))
    assert list_codes(found) == ["Skipped", "Skipped"]


def a_cluster(table: Json | None) -> FakeApi:
    """An API server of that table, without pools."""
    fake = FakeApi(pools.PATH)
    for path in (POLICY_PATH, BINDING_PATH):
        fake.put(path, {"spec": {}})
    if table is not None:
        fake.put(PATH, table)
    return fake


@pytest.mark.parametrize(
    ("fake", "code"),
    [
        (a_cluster(a_table()), "TableCurrent"),
        (a_cluster(a_table(*POOLS)), "TableDiffers"),
        (a_cluster(None), "TableMissing"),
    ],
)
async def test_a_cluster_is_read(fake: FakeApi, code: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admission_policy, "PATIENCE_SECONDS", 0.0)
    async with fake.connected() as api:
        found = await read_admission_policy(api, is_wanted=True)
    assert list_codes(judge_admission_policy(found)) == [code]


async def test_a_cluster_that_serves_neither_kind_is_one_without_policy_and_table() -> None:
    async with FakeApi().connected() as api:
        found = await read_admission_policy(api, is_wanted=True)
    assert list_codes(judge_admission_policy(found)) == ["PolicyMissing", "TableMissing"]


async def test_a_table_that_comes_in_time_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = a_cluster(a_table(*POOLS))

    async def come(seconds: float) -> None:
        fake.put(PATH, a_table())

    monkeypatch.setattr("gpushare.cli.doctor.admission_policy.asyncio.sleep", come)
    async with fake.connected() as api:
        found = await read_admission_policy(api, is_wanted=True)
    assert list_codes(judge_admission_policy(found)) == ["TableCurrent"]
