"""The copy in memory: complete before it is used, and never older than what was seen."""

import asyncio
from collections.abc import AsyncGenerator, Callable

import orjson
import pytest

from gpushare.kube.errors import ApiError, KubeError, SilentWatchError, SyncLostError
from gpushare.kube.informer import REMEMBERED_DELETIONS, Informer
from gpushare.kube.watch_health import WatchHealth
from tests.kit.values.manifests import Json


class Server:
    """An API server's answers in order: lists, and the watches after them."""

    def __init__(self, *answers: Json | list[Json] | KubeError):
        self.answers = list(answers)
        self.versions = [1_000_000]
        """What etcd is at, at each look; the last stays."""
        self.asked: list[dict[str, str]] = []
        self.watched_seconds: list[float] = []
        self.exhausted = asyncio.Event()

    async def get(self, path: str, **params: str) -> Json:
        if params["limit"] == "1":
            return _list(self.versions.pop(0) if len(self.versions) > 1 else self.versions[0])
        self.asked.append(params)
        answer = self.answers.pop(0)
        if isinstance(answer, KubeError):
            raise answer
        assert isinstance(answer, dict)
        return answer

    async def watch(
        self, path: str, *, timeout_seconds: float, **params: str
    ) -> AsyncGenerator[Json, None]:
        self.asked.append(params)
        self.watched_seconds.append(timeout_seconds)
        if not self.answers:
            self.exhausted.set()
            await asyncio.Event().wait()
        answer = self.answers.pop(0)
        if isinstance(answer, KubeError):
            raise answer
        for event in answer:
            assert isinstance(event, dict)
            yield event


def _object(name: str, version: int, value: str = "") -> Json:
    return {"metadata": {"name": name, "resourceVersion": str(version)}, "value": value}


def _list(version: int, *items: Json, more: str = "") -> Json:
    return {"metadata": {"resourceVersion": str(version), "continue": more}, "items": list(items)}


def _event(kind: str, item: Json) -> Json:
    return {"type": kind, "object": item}


def _error(status: int) -> ApiError:
    return ApiError(status, orjson.dumps({"message": "no"}), what="watch")


async def _run(
    server: Server,
    on_alive: Callable[[], None] = lambda: None,
    refusal_seconds: float = 0.0,
) -> tuple[Informer[str], list[tuple[str, object]]]:
    changes: list[tuple[str, object]] = []
    informer: Informer[str] = Informer(
        server,  # type: ignore[arg-type]
        "api/v1/things",
        lambda raw: raw["value"],
        on_change=lambda key, old, new: changes.append((key, new)),
        on_alive=on_alive,
        refusal_seconds=refusal_seconds,
    )
    task = asyncio.create_task(informer.run())
    await server.exhausted.wait()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    return informer, changes


async def _run_to_its_end(server: Server) -> None:
    informer: Informer[str] = Informer(
        server,  # type: ignore[arg-type]
        "api/v1/things",
        lambda raw: raw["value"],
    )
    async with asyncio.timeout(5):
        await informer.run()


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpushare.kube.informer.BACKOFF_SECONDS", (0.0,))


async def test_pages_are_followed_to_the_end_before_the_copy_counts_as_complete() -> None:
    server = Server(_list(9, _object("a", 1, "x"), more="next"), _list(9, _object("b", 2, "y")))
    informer, _ = await _run(server)
    assert dict(informer.records) == {"a": "x", "b": "y"}
    assert informer.synced.is_set()
    assert server.asked[1]["continue"] == "next"
    assert server.asked[2]["resourceVersion"] == "9"


async def test_nothing_counts_as_known_before_the_first_list_is_taken_in() -> None:
    server, known = Server(_list(9, _object("a", 1))), list[bool]()
    informer: Informer[None] = Informer(
        server,  # type: ignore[arg-type]
        "api/v1/things",
        lambda raw: known.append(informer.synced.is_set()),
    )
    task = asyncio.create_task(informer.run())
    await server.exhausted.wait()
    task.cancel()
    assert known == [False]
    assert informer.synced.is_set()


async def test_a_list_that_fails_half_way_is_not_complete() -> None:
    server = Server(_list(9, _object("a", 1), more="next"), _error(500), _list(9, _object("a", 1)))
    left: list[int] = []
    informer, _ = await _run(server, on_alive=lambda: left.append(len(server.answers)))
    # A webhook that was told so after the first page answered without the others.
    assert left == [0]
    assert "continue" not in server.asked[2]
    assert informer.synced.is_set()


async def test_events_change_the_copy_and_are_told_once() -> None:
    events = [
        _event("ADDED", _object("b", 10, "y")),
        _event("MODIFIED", _object("b", 11, "y")),
        _event("MODIFIED", _object("b", 12, "z")),
        _event("DELETED", _object("a", 13)),
    ]
    informer, changes = await _run(Server(_list(9, _object("a", 1, "x")), events))
    assert dict(informer.records) == {"b": "z"}
    assert changes == [("a", "x"), ("b", "y"), ("b", "z"), ("a", None)]


async def test_an_expired_watch_is_listed_anew_and_what_vanished_is_noticed() -> None:
    server = Server(
        _list(9, _object("a", 1, "x"), _object("b", 2, "y")),
        _error(410),
        _list(20, _object("b", 2, "y")),
    )
    informer, changes = await _run(server)
    assert dict(informer.records) == {"b": "y"}
    assert changes[-1] == ("a", None)


@pytest.mark.parametrize("end", [_error(500), []], ids=["failed", "ended early"])
async def test_an_etcd_that_was_restored_ends_what_knows_more_than_it(
    end: KubeError | list[Json],
) -> None:
    server = Server(_list(397, _object("a", 300, "x")), [_event("ADDED", _object("b", 626))], end)
    server.versions = [402]
    with pytest.raises(SyncLostError, match="402 is before 626"):
        await _run_to_its_end(server)


async def test_an_api_server_that_is_only_late_is_asked_again() -> None:
    server = Server(_list(397), [_event("ADDED", _object("b", 626, "x"))], _error(500))
    server.versions = [402, 626]
    informer, _ = await _run(server)
    assert dict(informer.records) == {"b": "x"}
    assert server.asked[-1]["resourceVersion"] == "626"


@pytest.mark.parametrize("kind", ["ADDED", "BOOKMARK"])
async def test_an_interrupted_watch_goes_on_where_it_was(kind: str) -> None:
    server = Server(_list(9), [_event(kind, _object("a", 12, "x"))], _error(500))
    await _run(server)
    assert server.asked[-1]["resourceVersion"] == "12"


async def test_an_answer_to_our_own_write_is_seen_before_the_watch_echoes_it() -> None:
    informer, _ = await _run(Server(_list(9, _object("a", 1, "x"))))
    informer.offer(_object("a", 15, "ours"))
    informer._take(_object("a", 12, "older"), deleted=False)
    assert informer.records["a"] == "ours"


async def test_a_list_that_is_older_than_our_own_write_takes_nothing_away() -> None:
    server = Server(_list(9))
    informer, _ = await _run(server)
    informer.offer(_object("a", 15, "ours"))
    server.answers = [_list(12)]
    await informer.relist()
    assert dict(informer.records) == {"a": "ours"}


async def test_a_late_answer_brings_nothing_back_however_much_was_deleted_since() -> None:
    names = ("a", *(f"other-{index}" for index in range(2 * REMEMBERED_DELETIONS)))
    events = [_event("DELETED", _object(name, 15 + at)) for at, name in enumerate(names)]
    informer, _ = await _run(Server(_list(9, *(_object(name, 1, "x") for name in names)), events))
    informer.offer(_object("a", 14, "late"))
    assert not informer.records


async def test_an_old_list_brings_none_of_the_last_thousand_back() -> None:
    names = [f"thing-{index}" for index in range(2 * REMEMBERED_DELETIONS)]
    events = [_event("DELETED", _object(name, 15 + at)) for at, name in enumerate(names)]
    old = _list(10, *(_object(name, 1, "x") for name in names))
    informer, _ = await _run(Server(old, events, _error(410), old))
    assert sorted(informer.records) == sorted(names[:REMEMBERED_DELETIONS])


@pytest.mark.parametrize("answer", [{}, {"metadata": None}, {"metadata": {}, "items": []}])
async def test_an_answer_that_is_no_list_is_not_taken_for_an_empty_one(answer: Json) -> None:
    server = Server(
        _list(9, _object("a", 1, "x")), _error(410), answer, _list(20, _object("a", 1, "x"))
    )
    _, changes = await _run(server)
    assert changes == [("a", "x")]


@pytest.mark.parametrize(("healthy_seconds", "heard"), [(0.0, 2), (60.0, 1)])
async def test_a_watch_without_events_is_heard_of_when_it_ends_in_its_time(
    healthy_seconds: float, heard: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gpushare.kube.informer.HEALTHY_SECONDS", healthy_seconds)
    server = Server(_list(9), [])
    signs: list[None] = []
    await _run(server, on_alive=lambda: signs.append(None))
    assert len(signs) == heard


async def test_after_a_failure_the_first_watch_is_a_short_one() -> None:
    server = Server(_list(9), _error(500), [], [])
    await _run(server)
    assert server.watched_seconds == [20.0, 2.0, 2.0, 2.0]


async def test_reading_anew_shows_what_the_watch_has_not_told() -> None:
    server = Server(_list(9, _object("a", 1, "x"), _object("b", 2, "y")))
    informer, _ = await _run(server)
    server.answers = [_error(503), _list(12, _object("a", 11, "z"))]
    await informer.relist()
    assert dict(informer.records) == {"a": "z"}


@pytest.mark.parametrize(
    ("failure", "is_sign"),
    [(_error(503), True), ([], True), (SilentWatchError("open, and silent"), False)],
    ids=["refused", "ended at once", "silent"],
)
async def test_a_watch_that_is_refused_or_ended_is_not_deaf_and_one_that_is_open_and_silent_is(
    failure: KubeError | list[Json], is_sign: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    signs: list[WatchHealth] = []
    monkeypatch.setattr(WatchHealth, "note", lambda watch_health: signs.append(watch_health))
    await _run(Server(_list(9), failure))
    # The first is the list's.
    assert len(signs) == (2 if is_sign else 1)


async def test_what_may_be_listed_no_more_is_forgotten_until_it_may_be_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    item = _object("a", 1, "x")
    server = Server(_list(9, item), _error(403), _error(403), _list(9, item))
    informer, changes = await _run(server, refusal_seconds=0.001)
    assert changes == [("a", "x"), ("a", None), ("a", "x")]
    assert dict(informer.records) == {"a": "x"}
    assert informer.synced.is_set()
    told = [record.message for record in caplog.records if "no right to read" in record.message]
    assert len(told) == 1


async def test_a_refusal_where_the_right_must_be_there_takes_nothing_away() -> None:
    server = Server(_list(9, _object("a", 1, "x")), _error(403))
    informer, changes = await _run(server)
    assert (dict(informer.records), changes) == ({"a": "x"}, [("a", "x")])


async def test_a_right_that_may_be_missing_is_not_waited_for_when_all_is_listed_anew() -> None:
    server = Server(_list(9))
    informer, _ = await _run(server, refusal_seconds=60.0)
    server.answers = [_error(403)]
    await informer.relist()
    assert not server.answers
