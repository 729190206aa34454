"""`gpushare freeze`, `unfreeze` and `start-now` as they are typed, and what they write."""

from datetime import datetime
from typing import Any

import pytest

from gpushare import names
from gpushare.cli.cluster.access import Access
from gpushare.cli.exit_codes import Exit
from gpushare.kube.resources.pools import PATH as POOLS
from tests.kit.cluster.command_line import expect_error, run_command
from tests.kit.values.fake_api import FakeApi
from tests.kit.values.manifests import Json, build_pool

POOL = f"{POOLS}/training"
FREEZE = "api/v1/namespaces/gpushare-system/configmaps/gpushare-freeze"
LATER = "2190-01-04T08:00:00+08:00"
SEEN = "0123456789ab"


@pytest.fixture
def connections() -> list[str]:
    """Each connection that a command opens."""
    return []


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch, connections: list[str]) -> FakeApi:
    """An API server with one pool, whose changes wait for a window."""
    api, plan = FakeApi(POOLS), {"hash": SEEN, "summary": "share -> cgpu on 1 node"}
    pool = build_pool(rollout={"canary": 1})
    pool["metadata"] |= {"uid": "1", "creationTimestamp": "2026-01-02T03:04:05Z", "generation": 1}
    api.put(POOL, pool | {"status": {"plan": plan, "window": {"summary": "", "state": "Closed"}}})

    async def connect(access: Access) -> Any:
        connections.append("one")
        return api.connected()

    monkeypatch.setattr(Access, "connect", connect)
    return api


def run(*words: str) -> None:
    ended = run_command(*words)
    assert (ended.code, ended.err) == (Exit.OK, ""), ended


def read_rollout(api: FakeApi) -> Json:
    rollout: Json = api.objects[POOL]["spec"]["rollout"]
    return rollout


def test_a_pool_is_frozen_anew_without_its_former_end_and_released(api: FakeApi) -> None:
    run("freeze", "training", "--reason", "release week", "--until", LATER)
    frozen = read_rollout(api)["freeze"]
    assert datetime.fromisoformat(frozen.pop("until")) == datetime.fromisoformat(LATER)
    assert frozen == {"reason": "release week"}
    run("freeze", "training", "--reason", "an incident")
    assert read_rollout(api) == {"canary": 1, "freeze": {"reason": "an incident"}}
    run("unfreeze", "training")
    assert read_rollout(api) == {"canary": 1}


def test_the_freeze_of_all_pools_is_one_config_map_until_it_is_lifted(api: FakeApi) -> None:
    run("freeze", "--all", "--reason", "release week", "--until", LATER)
    run("freeze", "--all", "--reason", "an incident")
    assert api.objects[FREEZE]["data"] == {"reason": "an incident"}
    api.objects[FREEZE]["metadata"]["uid"] = "2"
    run("unfreeze", "--all")
    assert FREEZE not in api.objects
    assert "freeze" not in read_rollout(api)


@pytest.mark.parametrize(
    "words",
    [
        ("freeze", "training", "--reason", "x"),
        ("freeze", "--all", "--reason", "x"),
        ("unfreeze", "training"),
    ],
    ids=" ".join,
)
def test_where_the_answer_of_a_write_is_lost_it_is_unknown_whether_it_was_done(
    api: FakeApi, words: tuple[str, ...]
) -> None:
    api.objects[POOL]["spec"]["rollout"]["freeze"] = {"reason": "y"}
    api.broken_verbs |= {"POST", "PATCH"}
    expect_error(run_command(*words), Exit.INCOMPLETE, "unknown whether this was written")


@pytest.mark.parametrize(("target", "right"), [("training", "patch on gpush"), ("--all", "create")])
def test_a_right_to_freeze_that_is_missing_is_named(api: FakeApi, target: str, right: str) -> None:
    api.forbidden |= {POOL, FREEZE.rpartition("/")[0]}
    expect_error(run_command("freeze", target, "--reason", "x"), Exit.FORBIDDEN, right)


def test_one_command_connects_once(api: FakeApi, connections: list[str]) -> None:
    api.objects[POOL]["spec"]["rollout"]["freeze"] = {"reason": "y"}
    run("unfreeze", "training")
    assert len(connections) == 1


def test_a_pool_that_cannot_be_read_is_no_pool_without_a_plan(api: FakeApi) -> None:
    api.objects[POOL]["spec"]["schedule"] = "unheard-of"
    ended = run_command("start-now", "training", "--plan", SEEN)
    expect_error(ended, Exit.FAILURE, "pool training can't be read", "schedule")
    assert "pydantic" not in ended.err


def test_a_pool_whose_spec_is_no_mapping_has_no_freeze_to_end(api: FakeApi) -> None:
    api.objects[POOL]["spec"] = [1]
    expect_error(run_command("unfreeze", "training"), Exit.NOT_CALLED_FOR, "training")


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (("freeze", "other", "--reason", "x"), Exit.NOT_FOUND, "other"),
        (("unfreeze", "other"), Exit.NOT_FOUND, "other"),
        (("unfreeze", "training"), Exit.NOT_CALLED_FOR, "training"),
        (("unfreeze", "--all"), Exit.NOT_CALLED_FOR, "gpushare-freeze"),
        (("freeze", "--all", "--reason", "x", "--until", "2020-01-01"), Exit.USAGE, "--until"),
        (("freeze", "training", "--reason", "x" * 201), Exit.USAGE, "--reason"),
        (("start-now", "other", "--plan", SEEN), Exit.NOT_FOUND, "other"),
        (("start-now", "training", "--plan", "ba9876543210"), Exit.NOT_CALLED_FOR, SEEN),
    ],
)
def test_what_is_not_there_or_not_called_for_is_refused(
    api: FakeApi, words: tuple[str, ...], code: int, told: str
) -> None:
    expect_error(run_command(*words), code, told)
    assert api.writes == []


@pytest.mark.parametrize(
    "words",
    [
        ("freeze", "training", "--all", "--reason", "x"),
        ("freeze", "--reason", "x"),
        ("freeze", "training"),
        ("freeze", "training", "--reason", ""),
        ("unfreeze", "training", "--all"),
        ("unfreeze",),
        ("unfreeze", "training", "-n", "gpushare-system"),
        ("freeze", "--all", "--reason", "x", "--until", "tomorrow"),
        ("start-now", "training"),
    ],
    ids=" ".join,
)
def test_a_target_a_reason_and_a_plan_are_given_once_and_in_full(
    api: FakeApi, words: tuple[str, ...]
) -> None:
    ended = run_command(*words)
    assert (ended.code, ended.out, api.writes) == (Exit.USAGE, "", [])


def test_a_plan_that_is_started_now_is_written_with_the_time(api: FakeApi) -> None:
    run("start-now", "training", "--plan", SEEN, "--dry-run")
    assert api.writes == []
    run("start-now", "training", "--plan", SEEN)
    said = api.objects[POOL]["metadata"]["annotations"][names.ANNOTATION_START_NOW]
    plan_hash, _, said_at = said.partition("@")
    assert plan_hash == SEEN
    assert datetime.fromisoformat(said_at).tzinfo is not None
