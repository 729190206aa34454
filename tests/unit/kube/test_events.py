"""Events as the API server gets them: what is told again is counted on the one that is there."""

import asyncio

import pytest

from gpushare.core.status.event_correlation import SAME_SECONDS
from gpushare.kube.errors import ApiError
from gpushare.kube.events import Events, ObjectReference
from gpushare.names import Reason
from tests.kit.values.clock import Clock
from tests.kit.values.manifests import Json

POOL = ObjectReference("gpushare.io/v1alpha1", "GPUSharePool", "training", "uid-1")
POD = ObjectReference("v1", "Pod", "job", "uid-2", "team-a")


class Api:
    """An API server that has Events, and answers when it is let."""

    def __init__(self) -> None:
        self.events: dict[str, Json] = {}
        self.counts: list[int] = []
        """As they were written."""
        self.may_answer = asyncio.Event()
        self.may_answer.set()

    async def create(self, path: str, body: Json) -> Json:
        await self.may_answer.wait()
        path = f"{path}/{body['metadata']['name']}"
        if path in self.events:
            raise ApiError(409, b"{}", what=path)
        self.events[path] = body
        return body

    async def patch(self, path: str, body: Json, *, content_type: str) -> Json:
        assert content_type == "application/merge-patch+json"
        if path not in self.events:
            raise ApiError(404, b"{}", what=path)
        self.events[path] |= body
        self.counts.append(body["series"]["count"])
        return self.events[path]


@pytest.fixture(autouse=True)
def _no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpushare.kube.events.COUNT_SECONDS", 0.0)


@pytest.fixture
def api() -> Api:
    return Api()


@pytest.fixture
def events(api: Api, clock: Clock) -> Events:
    return Events(api, "me", clock)  # type: ignore[arg-type]


async def drain(events: Events) -> None:
    """Until nothing is on its way."""
    await asyncio.gather(*events._tasks)


async def test_a_thousand_of_the_same_are_two_writes_and_later_another(
    api: Api, events: Events, clock: Clock
) -> None:
    api.may_answer.clear()
    for _ in range(1_000):
        events.post(POOL, Reason.UPDATING, "Node n1: Labels are restored")
        await asyncio.sleep(0)
    api.may_answer.set()
    await drain(events)
    (event,) = api.events.values()
    assert event["series"]["lastObservedTime"].endswith("Z")
    assert api.counts == [1_000]
    clock.now += SAME_SECONDS
    events.post(POOL, Reason.UPDATING, "Node n1: Labels are restored")
    await drain(events)
    assert len(api.events) == 2


async def test_an_event_that_somebody_deleted_is_told_anew_the_next_time(
    api: Api, events: Events
) -> None:
    for time in range(3):
        events.post(POOL, Reason.UPDATING, "Node n1: Labels are restored")
        await drain(events)
        if time == 0:
            api.events.clear()
    assert len(api.events) == 1


async def test_what_is_told_a_single_time_is_neither_counted_nor_told_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    api = Api()
    for _ in range(2):
        # A process that starts anew.
        events = Events(api, "me")  # type: ignore[arg-type]
        for note in ("selects no pool", "selects no pool; it runs on n1"):
            events.post(POD, Reason.UNROUTED, note, once=True)
        events.post(POD, Reason.UNROUTED, "selects no pool", once=True)
        await drain(events)
    (event,) = api.events.values()
    assert (event["note"], "series" in event) == ("selects no pool", False)
    assert (api.counts, caplog.records) == ([], [])


async def test_what_tenants_word_is_one_event_in_two_minutes_whatever_it_says(
    api: Api, events: Events, clock: Clock
) -> None:
    for number in range(240):
        events.post(POOL, Reason.EXTENDER_STALE, f"card {number}")
        clock.now += SAME_SECONDS / 120
    await drain(events)
    assert [each["note"] for each in api.events.values()] == ["card 0", "card 120"]


async def test_what_only_the_operator_words_is_news_in_other_words(
    api: Api, events: Events
) -> None:
    for job in ("teardown-1", "teardown-2"):
        events.post(POOL, Reason.TEARDOWN_FAILED, job)
    await drain(events)
    assert [each["note"] for each in api.events.values()] == ["teardown-1", "teardown-2"]


async def test_it_is_told_again_for_another_occasion(api: Api, events: Events) -> None:
    for occasion in ("first", "second", "second"):
        events.post(POD, Reason.UNROUTED, "selects no pool", once=True, occasion=occasion)
        await drain(events)
    assert len(api.events) == 2


async def test_an_event_is_where_kubectl_describe_looks_for_it(api: Api, events: Events) -> None:
    events.post(POD, Reason.UNROUTED, "selects no pool", warns=True)
    events.post(POOL, Reason.ALL_NODES_READY, "2 of 2 nodes are ready")
    await drain(events)
    told = {
        (event["metadata"]["namespace"], event["type"], event["regarding"]["uid"])
        for event in api.events.values()
    }
    assert told == {("team-a", "Warning", "uid-2"), ("default", "Normal", "uid-1")}


async def test_one_that_is_refused_is_said_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    class Closed(Api):
        async def create(self, path: str, body: Json) -> Json:
            raise ApiError(403, b'{"message": "no right"}', what=f"POST {path}")

    events = Events(Closed(), "me")  # type: ignore[arg-type]
    for _ in range(2):
        events.post(POOL, Reason.UPDATING, "Node n1: Labels are restored")
        await drain(events)
    assert [record.getMessage().partition(": ")[0] for record in caplog.records] == [
        "Event Updating not posted"
    ] * 2
