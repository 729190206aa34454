"""Watches a rollout from outside, and judges every event as it comes. Watches of its own tell of
nodes and pods, the audit log of what the operator deleted."""

import asyncio
import contextlib
import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Self

import aiohttp
import orjson

from devcluster.apiserver import ApiError
from devcluster.client import Client
from devcluster.waiting import wait_until
from tests.chaos.judge import Judge, Rules, Violation
from tests.chaos.node_state import Deletion, parse_node, parse_pod
from tests.kit.bench import NODES, Bench, Json
from tests.kit.cluster.audit_log import AuditTail
from tests.kit.cluster.background_thread import Background

_ALL_PODS = "/api/v1/pods"
_SYNC_SECONDS = 30
_CATCH_UP_SECONDS = 90
"""As long as the longest outage of a test, and then some."""
_POLL_SECONDS = 0.05
_GONE = 410
_UNREACHABLE = (aiohttp.ClientError, OSError, TimeoutError)
_DELETIONS = (b'"verb":"delete"', b'"subresource":"eviction"')


class Reader(Client):
    """An administrator's reading of whole lists, of which the audit log knows."""

    async def read(self, path: str) -> tuple[list[Json], int, str]:
        """The objects as they are now, their revision, and the request's id in the audit log."""
        async with self._session.get(path, raise_for_status=True) as answer:
            body = orjson.loads(await answer.read())
            audit_id = answer.headers["Audit-Id"]
        return body["items"], int(body["metadata"]["resourceVersion"]), audit_id


@dataclass
class Stream:
    """All events of the objects under a path; what breaks is resumed where it was."""

    reader: Reader
    path: str
    on_event: Callable[[Json, bool], None]
    """The object, and whether it was deleted."""
    on_gap: Callable[[list[Json], int], None]
    """All objects at one revision, where events before it were missed."""
    revision: int = 0
    known: dict[str, int] = field(default_factory=dict)
    """Revision of each object by UID."""
    is_synced: bool = False

    async def run(self) -> None:
        """Until it is cancelled."""
        too_old = True
        while True:
            try:
                if too_old:
                    await self._fill_gap()
                    too_old = False
                async for kind, item in self.reader.watch(self.path, {}, self.revision):
                    self._take(kind, item)
            except (ApiError, *_UNREACHABLE) as error:
                too_old = too_old or getattr(error, "status", None) == _GONE
                await asyncio.sleep(_POLL_SECONDS)

    async def catch_up(self) -> str:
        """Until everything is judged that has happened by now; id of the list that shows it."""
        while True:
            with contextlib.suppress(*_UNREACHABLE):
                items, revision, audit_id = await self.reader.read(self.path)
                if self.revision >= revision or self.known == _index(items):
                    return audit_id
            await asyncio.sleep(_POLL_SECONDS)

    async def _fill_gap(self) -> None:
        items, revision, _ = await self.reader.read(self.path)
        # Nothing can have come and gone unseen while each object is the very one that we know.
        if not self.is_synced or self.known != _index(items):
            self.on_gap(items, revision)
        self.known, self.revision, self.is_synced = _index(items), revision, True

    def _take(self, kind: str, item: Json) -> None:
        meta = item["metadata"]
        revision = int(meta["resourceVersion"])
        if kind != "BOOKMARK":
            self.on_event(item, kind == "DELETED")
            if kind == "DELETED":
                self.known.pop(meta["uid"], None)
            else:
                self.known[meta["uid"]] = revision
        self.revision = max(self.revision, revision)


def _index(items: Iterable[Json]) -> dict[str, int]:
    return {item["metadata"]["uid"]: int(item["metadata"]["resourceVersion"]) for item in items}


class Watching(Background):
    """A block in which every event is judged as it comes; it must have kept all promises."""

    def __init__(self, bench: Bench, *, budget: int) -> None:
        super().__init__("watching")
        self._cluster = bench.cluster
        self._judge = Judge(Rules("training", budget))
        self._streams: list[Stream] = []
        self._loop = asyncio.new_event_loop()
        self._audited: asyncio.Queue[str] = asyncio.Queue()
        """Ids of the lists that the audit log has."""
        self.violations: list[str] = []
        """A sentence for each that was found so far."""

    def __enter__(self) -> Self:
        super().__enter__()
        wait_until(
            lambda: self._streams != [] and all(stream.is_synced for stream in self._streams),
            expectation="the watcher is in sync",
            timeout_seconds=_SYNC_SECONDS,
        )
        return self

    def __exit__(self, *raised: object) -> None:
        try:
            if raised[0] is None:
                self.expect_clean()
        finally:
            super().__exit__(*raised)

    def catch_up(self) -> None:
        """Until all is judged that happened before this call; TimeoutError where it takes long."""
        caught_up = asyncio.run_coroutine_threadsafe(self._catch_up(), self._loop)
        caught_up.result(_CATCH_UP_SECONDS)

    def expect_clean(self) -> None:
        """Everything until now kept the promises; AssertionError lists what did not."""
        self.catch_up()
        assert not self.violations, "\n".join(self.violations)

    @property
    def restarts(self) -> Counter[str]:
        """By node, how many plugin pods the operator deleted, as of the last `catch_up`."""
        return Counter(self._judge.restarts)

    # In its thread.

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._watch())

    async def _watch(self) -> None:
        with contextlib.closing(AuditTail(self._cluster.audit_log)) as tail:
            async with Reader(self._cluster.kubeconfig, user_agent="watching") as reader:
                self._streams = [
                    Stream(reader, NODES, self._take_node, self._replace_nodes),
                    Stream(reader, _ALL_PODS, self._take_pod, self._replace_pods),
                ]
                work = [asyncio.create_task(stream.run()) for stream in self._streams]
                while not self._leaving.is_set():
                    self._follow_audit(tail)
                    await asyncio.sleep(_POLL_SECONDS)
                    for task in work:
                        if task.done():
                            # It never ends by itself: this raises what went wrong.
                            task.result()
            # Their connections are closed by now; who ends first leaves its own half open.
            for task in work:
                task.cancel()
            await asyncio.gather(*work, return_exceptions=True)

    async def _catch_up(self) -> None:
        ids = [await stream.catch_up() for stream in self._streams]
        while await self._audited.get() != ids[-1]:
            pass
        self._tell(self._judge.finish())

    def _follow_audit(self, tail: AuditTail) -> None:
        for call in tail.read(about=(*_DELETIONS, b'"verb":"list"')):
            if call.verb == "list":
                self._audited.put_nowait(call.id)
            elif call.is_ours and call.succeeded and call.resource in ("pods", "pods/eviction"):
                deletion = Deletion(call.namespace, call.name, call.resource == "pods/eviction")
                self._tell(self._judge.see_deletion(deletion))

    def _take_node(self, raw: Json, gone: bool) -> None:
        node = parse_node(raw)
        if gone:
            self._tell(self._judge.lose_node(node.name, node.revision))
        else:
            self._tell(self._judge.see_node(node, time.monotonic()))

    def _replace_nodes(self, items: list[Json], revision: int) -> None:
        nodes = [parse_node(item) for item in items]
        self._tell(self._judge.replace_nodes(nodes, revision, time.monotonic()))

    def _take_pod(self, raw: Json, gone: bool) -> None:
        self._tell(self._judge.see_pod(parse_pod(raw, gone=gone)))

    def _replace_pods(self, items: list[Json], revision: int) -> None:
        self._tell(self._judge.replace_pods([parse_pod(item) for item in items]))

    def _tell(self, violations: Iterable[Violation]) -> None:
        at = datetime.now(UTC).isoformat(timespec="milliseconds")
        self.violations += [f"{at} {each.promise}: {each.sentence}" for each in violations]
