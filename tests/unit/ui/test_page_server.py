"""The page's server in this process: what it gives to whom, and how long it reads a cluster."""

import asyncio
import errno
import socket
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import orjson
import pytest

from gpushare.api.pruned.cluster import Cluster
from gpushare.cli.cluster.snapshot_file import parse_snapshot
from gpushare.cli.exit_codes import CommandError, Exit
from gpushare.cli.ui import feed as feeding
from gpushare.cli.ui import server as serving_page
from gpushare.cli.ui.feed import LONGEST_SECONDS, PERIOD_SECONDS, Feed, build_state, find_period
from gpushare.cli.ui.guard import HEADERS
from gpushare.cli.ui.server import Address, PageServer
from tests.browser.ui_server import Answer, send
from tests.kit.cluster.command_line import run_command

SNAPSHOT = Path(__file__).parents[2] / "browser/cluster.json"
CLUSTER = parse_snapshot(SNAPSHOT.read_bytes(), "cluster.json")
Read = Callable[[], Awaitable[Cluster]]


def build_feed(read: Read | None = None) -> Feed:
    return Feed("context test", CLUSTER, read)


class Client:
    """A browser, or somebody else of this machine."""

    def __init__(self, address: Address) -> None:
        page = urlsplit(address.page)
        assert page.port is not None
        self.port, self.path, self.ticket = page.port, page.path, urlsplit(address.ticket).path

    async def ask(self, path: str = "", method: str = "GET", **headers: str) -> Answer:
        return await self.ask_path(f"{self.path}{path}", method, **headers)

    async def ask_path(self, path: str, method: str = "GET", **headers: str) -> Answer:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return await asyncio.to_thread(send, self.port, path, method, named)


@asynccontextmanager
async def serving(feed: Feed | None = None) -> AsyncIterator[Client]:
    async with PageServer(feed or build_feed()).listening(0) as address:
        yield Client(address)


async def test_the_state_is_what_inspect_says_and_a_little_more() -> None:
    async with serving() as client:
        answer = await client.ask("state")
    told = orjson.loads(answer.body)
    printed = run_command("inspect", "--pools", "-o", "json", "--snapshot", str(SNAPSHOT)).out
    said = orjson.loads(printed)
    assert {key: told[key] for key in said} == said
    assert told["takenAt"] == CLUSTER.taken_at.isoformat(timespec="seconds")
    assert [node["name"] for node in told["outside"]] == ["cn-beijing.10.0.1.41"]


async def test_without_the_secret_nothing_is_there() -> None:
    async with serving() as client:
        for path in (
            "/",
            "/state",
            "/split",
            "/index.html",
            f"{client.path[:-2]}/state",
            "//state",
        ):
            assert (await client.ask_path(path)).status == 404, path
        assert (await client.ask("state")).status == 200
        async with serving() as other:
            assert client.path != other.path
        assert len(client.path.strip("/")) >= 32


async def test_a_ticket_leads_to_the_page_once() -> None:
    async with serving() as client:
        first = await client.ask_path(client.ticket)
        second = await client.ask_path(client.ticket)
    assert (first.status, first.headers["Location"]) == (303, client.path)
    assert (second.status, "Location" in second.headers) == (410, False)


async def test_a_wrong_ticket_leads_nowhere_and_uses_nothing_up() -> None:
    async with serving() as client:
        assert (await client.ask_path("/open/guess")).status == 404
        assert (await client.ask_path("/open/%C3%A9")).status == 404
        assert (await client.ask_path(client.ticket)).status == 303


async def test_a_ticket_of_whom_it_is_not_for_leads_nowhere_and_stays_good(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with serving() as client:
        with monkeypatch.context() as elsewhere:
            elsewhere.setattr(serving_page, "is_own", lambda peer, here: False)
            stolen = await client.ask_path(client.ticket)
        assert (stolen.status, "Location" in stolen.headers) == (403, False)
        assert (await client.ask_path(client.ticket)).status == 303


async def test_the_address_without_its_last_slash_leads_to_the_page() -> None:
    async with serving() as client:
        answer = await client.ask_path(client.path.removesuffix("/"))
    assert (answer.status, answer.headers["Location"]) == (303, client.path)


@pytest.mark.parametrize(
    "path", ["", "main.js", "page.css", "icon.svg", "state", "split", "nothing"]
)
async def test_every_answer_has_the_headers_that_keep_other_sites_out(path: str) -> None:
    async with serving() as client:
        answer = await client.ask(path)
    assert {name: answer.headers.get(name) for name in HEADERS} == HEADERS


async def test_who_asks_under_another_name_or_from_another_site_gets_only_a_refusal() -> None:
    async with serving() as client:
        rebound = await client.ask("state", Host=f"attacker.example:{client.port}")
        foreign = await client.ask("state", Sec_Fetch_Site="cross-site")
        posted = await client.ask("state", "POST")
    assert [each.status for each in (rebound, foreign, posted)] == [421, 403, 405]
    assert not any(b"pools" in each.body for each in (rebound, foreign, posted))
    assert rebound.headers["Content-Security-Policy"]


@pytest.mark.parametrize("path", ["../main.py", "..%2fmain.py", "%2e%2e/guard.py", "guard.py", "."])
async def test_no_file_but_the_page_s_own_is_given(path: str) -> None:
    async with serving() as client:
        assert (await client.ask(path)).status == 404


async def test_a_state_that_is_known_is_not_told_again() -> None:
    async with serving() as client:
        told = await client.ask("state")
        known = told.headers["Etag"]
        again = await client.ask("state", If_None_Match=known)
        other = await client.ask("state", If_None_Match='"other"')
    assert (again.status, again.body, again.headers["Etag"]) == (304, b"", known)
    assert (other.status, other.body) == (200, told.body)


async def test_a_split_is_told_as_data_and_a_bad_one_as_a_sentence() -> None:
    async with serving() as client:
        choices = orjson.loads((await client.ask("split")).body)
        label = quote(choices["shared"][0]["label"])
        told = await client.ask(f"split?nodes={label}&sizes=inference:3,notebooks:3,training:3")
        bad = await client.ask(f"split?nodes={label}&sizes=inference:99")
    assert (told.status, bad.status) == (200, 400)
    assert orjson.loads(told.body)["takenAt"] == CLUSTER.taken_at.isoformat(timespec="seconds")
    assert "inference" in bad.body.decode()


async def test_before_the_operator_is_installed_a_split_is_refused_with_the_reason() -> None:
    async with serving(Feed("context test", replace(CLUSTER, pools=None))) as client:
        answer = await client.ask("split")
    assert answer.status == 400
    assert b"gpusharepools" in answer.body.lower()


async def test_an_internal_error_of_a_split_is_told_and_the_next_split_is_computed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(*_: object) -> bytes:
        raise ValueError("a mistake")

    async with serving() as client:
        with monkeypatch.context() as broken:
            broken.setattr(serving_page, "tell_split", fail)
            failed = await client.ask("split")
        assert (failed.status, b"a mistake" in failed.body) == (500, True)
        assert (await client.ask("split")).status == 200


class HeldSplits:
    """Splits whose computation ends when the test says so."""

    def __init__(self) -> None:
        self.begun, self.may_end = threading.Semaphore(0), threading.Event()
        self.computed = 0

    def __call__(self, *_: object) -> bytes:
        self.begun.release()
        self.may_end.wait()
        self.computed += 1
        return b"{}"


@pytest.fixture
def splits(monkeypatch: pytest.MonkeyPatch) -> HeldSplits:
    held = HeldSplits()
    monkeypatch.setattr(serving_page, "tell_split", held)
    return held


async def test_one_split_is_computed_at_a_time_and_the_state_is_told_meanwhile(
    splits: HeldSplits,
) -> None:
    async with serving() as client, asyncio.TaskGroup() as group:
        asked = [group.create_task(client.ask("split")) for _ in range(2)]
        await asyncio.to_thread(splits.begun.acquire)
        state = await client.ask("state")
        assert not splits.begun.acquire(blocking=False)
        splits.may_end.set()
    assert [each.result().status for each in asked] == [200, 200]
    assert state.status == 200


async def test_a_split_for_which_nobody_waits_any_more_is_not_computed(splits: HeldSplits) -> None:
    async with serving() as client, asyncio.TaskGroup() as group:
        group.create_task(client.ask("split"))
        await asyncio.to_thread(splits.begun.acquire)
        _, writer = await asyncio.open_connection("127.0.0.1", client.port)
        host = f"Host: 127.0.0.1:{client.port}"
        writer.write(f"GET {client.path}split HTTP/1.1\r\n{host}\r\n\r\n".encode())
        # What is answered later was read later.
        await client.ask("state")
        writer.close()
        await client.ask("state")
        splits.may_end.set()
        await client.ask("split")
    assert splits.computed == 2


async def test_a_port_that_is_taken_is_said_in_a_sentence() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(CommandError, match=f"port {port} on 127.0.0.1") as told:
            async with PageServer(build_feed()).listening(port):
                pass
    assert told.value.exit_code is Exit.FAILURE


async def test_nobody_but_this_machine_can_reach_it() -> None:
    async with serving() as client:
        for family, address in ((socket.AF_INET, "127.0.0.2"), (socket.AF_INET6, "::1")):
            with socket.socket(family) as other:
                assert other.connect_ex((address, client.port)) == errno.ECONNREFUSED


class Reads:
    """A cluster that is read when the test says so."""

    def __init__(self) -> None:
        self.results: asyncio.Queue[Cluster | Exception] = asyncio.Queue()
        self.begun = asyncio.Event()
        self.ended = False

    async def __call__(self) -> Cluster:
        self.begun.set()
        try:
            return await self._read()
        finally:
            self.ended = True

    async def _read(self) -> Cluster:
        result = await self.results.get()
        if isinstance(result, Exception):
            raise result
        return result


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feeding, "PERIOD_SECONDS", 0.01)
    monkeypatch.setattr(feeding, "SHARE", 0)


async def tell_when(feed: Feed, holds: Callable[[Any], bool]) -> Any:
    """What is told once that holds."""
    while True:
        told = orjson.loads(feed.tell()[0])
        if holds(told):
            return told
        await asyncio.sleep(0.01)


@pytest.mark.usefixtures("at_once")
async def test_a_failure_is_told_with_its_code_and_the_old_data_stay_until_a_reading_succeeds() -> (
    None
):
    reads = Reads()
    feed = build_feed(reads)
    async with aclosing(feed):
        reads.results.put_nowait(CommandError(Exit.FORBIDDEN, "a right is missing"))
        told = await tell_when(feed, lambda told: told["problem"] is not None)
        assert (told["problem"]["code"], told["problem"]["message"]) == (5, "a right is missing")
        assert told["takenAt"] == CLUSTER.taken_at.isoformat(timespec="seconds")
        assert told["pools"] == build_state(CLUSTER)["pools"]
        since = told["problem"]["since"]

        reads.results.put_nowait(ValueError("a mistake"))
        told = await tell_when(feed, lambda told: told["problem"]["code"] == Exit.FAILURE)
        assert told["problem"]["since"] == since

        now = datetime.now(UTC)
        reads.results.put_nowait(replace(CLUSTER, taken_at=now, pools=None))
        told = await tell_when(feed, lambda told: told["problem"] is None)
        assert told["takenAt"] == now.isoformat(timespec="seconds")
        assert (told["installed"], told["pools"]) == (False, [])
        assert len(told["outside"]) == 10


async def test_a_cluster_is_read_when_somebody_asks_and_not_before() -> None:
    reads = Reads()
    async with aclosing(build_feed(reads)) as feed:
        await asyncio.sleep(0)
        assert not reads.begun.is_set()
        feed.tell()
        await reads.begun.wait()
    assert reads.ended


def test_readings_are_further_apart_the_more_often_they_fail_and_close_again_after_one() -> None:
    periods = [find_period(0.1, failures) for failures in range(1, 8)]
    assert periods == [PERIOD_SECONDS * n for n in (1, 2, 4, 8)] + [LONGEST_SECONDS] * 3
    assert find_period(0.1, 10**6) == LONGEST_SECONDS
    assert find_period(0.1, 0) == PERIOD_SECONDS
    # Who took long to answer is given twice as long to rest.
    assert [find_period(40.0, failures) for failures in (0, 1, 20)] == [120.0] * 3
