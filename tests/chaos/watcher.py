"""A process that watches a rollout from outside, and judges every event as it comes.

`python -m tests.chaos.watcher --kubeconfig F --pool NAME --budget N --audit-log F --out FILE`
holds its own watches on the API server and reads the audit log, until SIGTERM. FILE gets a JSON
object a line, told apart by `kind`: `violation`; `blind`, where a watch could not be resumed and
objects had changed meanwhile; `state`, once in sync, each second, and at SIGUSR1 once everything
that had happened by then is judged (`number` counts those).
"""

import argparse
import asyncio
import contextlib
import signal
import ssl
import time
from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import aiohttp
import orjson

from devcluster.kubeconfig import read_own_kubeconfig
from tests.chaos.judge import Judge, Rules, Violation
from tests.chaos.sight import Deletion, parse_node, parse_pod
from tests.kit.cluster.audit_log import AuditTail

Json = dict[str, Any]

NODES, PODS = "/api/v1/nodes", "/api/v1/pods"
_AGAIN_SECONDS = 0.05
_TAIL_SECONDS = 0.05
_STATE_SECONDS = 1.0
_LONGEST_LINE = 2**22
_GONE = 410
_UNREACHABLE = (aiohttp.ClientError, OSError, TimeoutError)
_DELETIONS = (b'"verb":"delete"', b'"subresource":"eviction"')


class _TooOldError(Exception):
    """The API server does not remember this revision any more."""


@dataclass
class Stream:
    """All events of the objects under a path; what breaks is resumed where it was."""

    session: aiohttp.ClientSession
    path: str
    on_event: Callable[[Json, bool], None]
    """The object, and whether it was deleted."""
    on_gap: Callable[[list[Json], int, bool], None]
    """All objects at one revision; and whether events before it were missed."""
    revision: int = 0
    known: dict[str, int] = field(default_factory=dict)
    """Revision of each object by UID."""
    synced: asyncio.Event = field(default_factory=asyncio.Event)

    async def run(self) -> None:
        """Until it is cancelled."""
        too_old = True
        while True:
            try:
                if too_old:
                    await self._fill_gap()
                    too_old = False
                await self._watch()
            except _TooOldError:
                too_old = True
            except _UNREACHABLE:
                await asyncio.sleep(_AGAIN_SECONDS)

    async def list(self) -> tuple[list[Json], int, str]:
        """The objects as they are now, their revision, and the request's id in the audit log."""
        async with self.session.get(self.path, raise_for_status=True) as answer:
            body = orjson.loads(await answer.read())
            audit_id = answer.headers["Audit-Id"]
        return body["items"], int(body["metadata"]["resourceVersion"]), audit_id

    def has_seen(self, items: Iterable[Json], revision: int) -> bool:
        """Whether everything is judged that led to `items`, a list of that revision."""
        return self.revision >= revision or self.known == _index(items)

    async def _fill_gap(self) -> None:
        items, revision, _ = await self.list()
        # Nothing can have come and gone unseen while each object is the very one that we know.
        missed = self.synced.is_set() and self.known != _index(items)
        if missed or not self.synced.is_set():
            self.on_gap(items, revision, missed)
        self.known, self.revision = _index(items), revision
        self.synced.set()

    async def _watch(self) -> None:
        query = {
            "watch": "true",
            "resourceVersion": str(self.revision),
            "allowWatchBookmarks": "true",
        }
        async with self.session.get(self.path, params=query) as answer:
            if answer.status == _GONE:
                raise _TooOldError
            answer.raise_for_status()
            async for line in answer.content:
                self._take(orjson.loads(line))

    def _take(self, event: Json) -> None:
        kind, item = event["type"], event["object"]
        if kind == "ERROR":
            if item.get("code") == _GONE:
                raise _TooOldError
            raise aiohttp.ClientPayloadError(f"watch of {self.path}: {item.get('message')}")
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


class Watcher:
    """The judge, and what it is told from."""

    def __init__(
        self, session: aiohttp.ClientSession, rules: Rules, audit_log: Path, out: Path
    ) -> None:
        self._judge = Judge(rules)
        self._out = out.open("ab", buffering=0)
        self._tail = AuditTail(audit_log)
        self._nodes = Stream(session, NODES, self._take_node, self._replace_nodes)
        self._pods = Stream(session, PODS, self._take_pod, self._replace_pods)
        self._audited: set[str] = set()
        """Ids of the lists that the audit log had since the last time that we caught up."""
        self._heard = asyncio.Condition()
        self._asked = asyncio.Event()
        self._blind = 0
        self._events = 0
        self._number = 0

    async def run(self) -> None:
        """Until SIGTERM; what happened before that is judged first."""
        loop, ended = asyncio.get_running_loop(), asyncio.Event()
        loop.add_signal_handler(signal.SIGUSR1, self._asked.set)
        loop.add_signal_handler(signal.SIGTERM, ended.set)
        async with asyncio.TaskGroup() as tasks:
            work = [
                tasks.create_task(each)
                for each in (
                    self._nodes.run(),
                    self._pods.run(),
                    self._follow_audit(),
                    self._answer(),
                )
            ]
            await self._nodes.synced.wait()
            await self._pods.synced.wait()
            while not ended.is_set():
                self._tell_state()
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(ended.wait(), _STATE_SECONDS)
            await self._catch_up()
            for task in work:
                task.cancel()

    async def _answer(self) -> None:
        while True:
            await self._asked.wait()
            self._asked.clear()
            await self._catch_up()

    async def _catch_up(self) -> None:
        """Until all that had happened by now is judged."""
        last = ""
        for stream in (self._nodes, self._pods):
            while True:
                try:
                    items, revision, last = await stream.list()
                except _UNREACHABLE:
                    await asyncio.sleep(_AGAIN_SECONDS)
                    continue
                if stream.has_seen(items, revision):
                    break
                await asyncio.sleep(_AGAIN_SECONDS)
        async with self._heard:
            await self._heard.wait_for(lambda: last in self._audited)
            self._audited.clear()
        self._tell(self._judge.finish())
        self._number += 1
        self._tell_state()

    async def _follow_audit(self) -> None:
        while True:
            for call in self._tail.read(about=(*_DELETIONS, b'"verb":"list"')):
                if call.verb == "list":
                    self._audited.add(call.id)
                elif call.is_ours and call.succeeded and call.resource in ("pods", "pods/eviction"):
                    evicted = call.resource == "pods/eviction"
                    deletion = Deletion(call.at, call.namespace, call.name, evicted)
                    self._tell(self._judge.see_deletion(deletion))
            async with self._heard:
                self._heard.notify_all()
            await asyncio.sleep(_TAIL_SECONDS)

    # What the streams tell.

    def _take_node(self, raw: Json, gone: bool) -> None:
        self._events += 1
        node = parse_node(raw)
        if gone:
            self._tell(self._judge.lose_node(node.name, node.revision))
        else:
            self._tell(self._judge.see_node(node, time.monotonic()))

    def _replace_nodes(self, items: list[Json], revision: int, missed: bool) -> None:
        self._count_gap("nodes", missed)
        nodes = [parse_node(item) for item in items]
        self._tell(self._judge.replace_nodes(nodes, revision, time.monotonic()))

    def _take_pod(self, raw: Json, gone: bool) -> None:
        self._events += 1
        self._tell(self._judge.see_pod(parse_pod(raw, gone=gone)))

    def _replace_pods(self, items: list[Json], revision: int, missed: bool) -> None:
        self._count_gap("pods", missed)
        self._tell(self._judge.replace_pods([parse_pod(item) for item in items]))

    # What is told to the parent.

    def _count_gap(self, resource: str, missed: bool) -> None:
        if missed:
            self._blind += 1
            self._write("blind", {"resource": resource})

    def _tell(self, violations: Iterable[Violation]) -> None:
        for violation in violations:
            self._write("violation", asdict(violation))

    def _tell_state(self) -> None:
        state = {
            "number": self._number,
            "events": self._events,
            "blind": self._blind,
            "restarts": dict(self._judge.restarts),
        }
        self._write("state", state)

    def _write(self, kind: str, values: Json) -> None:
        at = datetime.now(UTC).isoformat(timespec="milliseconds")
        self._out.write(orjson.dumps({"kind": kind, "at": at, **values}, option=_NEWLINE))


_NEWLINE = orjson.OPT_APPEND_NEWLINE


@contextlib.asynccontextmanager
async def open_session(kubeconfig: Path) -> AsyncIterator[aiohttp.ClientSession]:
    """A session with the API server of a devcluster, as its administrator."""
    config = read_own_kubeconfig(kubeconfig)
    server, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
    tls = ssl.create_default_context(cafile=server["certificate-authority"])
    tls.load_cert_chain(user["client-certificate"], user["client-key"])
    async with aiohttp.ClientSession(
        base_url=server["server"],
        connector=aiohttp.TCPConnector(ssl=tls),
        timeout=aiohttp.ClientTimeout(total=None, sock_connect=5),
        read_bufsize=_LONGEST_LINE,
    ) as session:
        yield session


async def watch(kubeconfig: Path, rules: Rules, audit_log: Path, out: Path) -> None:
    """Watch until SIGTERM."""
    async with open_session(kubeconfig) as session:
        await Watcher(session, rules, audit_log, out).run()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("--kubeconfig", "--audit-log", "--out"):
        parser.add_argument(name, type=Path, required=True)
    parser.add_argument("--pool", required=True)
    parser.add_argument("--budget", type=int, required=True)
    parser.add_argument("--notice-seconds", type=float, default=Rules.notice_seconds)
    parser.add_argument("--restarts-per-change", type=int, default=Rules.restarts_per_change)
    parser.add_argument("--evictions", action="store_true")
    given = parser.parse_args()
    rules = Rules(
        pool=given.pool,
        budget=given.budget,
        notice_seconds=given.notice_seconds,
        restarts_per_change=given.restarts_per_change,
        evictions=given.evictions,
    )
    asyncio.run(watch(given.kubeconfig, rules, given.audit_log, given.out))


if __name__ == "__main__":
    main()
