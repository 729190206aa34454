"""What a mirror believes of the cluster while answers and watch events cross."""

from collections.abc import AsyncIterator, Sequence
from typing import Any, cast

import pytest

from devcluster.client import Client
from devcluster.mirror import Mirror
from devcluster.simulator.objects import Node, parse_node

Object = dict[str, Any]
Event = tuple[str, Object]


class ScriptEndedError(Exception):
    """The scripted server has nothing more to say."""


class ScriptedClient:
    """Answers lists and watches from a script, then raises ScriptEndedError."""

    def __init__(self, *lists: tuple[list[Object], int], watches: Sequence[list[Any]] = ()) -> None:
        self.lists, self.watches = list(lists), list(watches)
        self.versions: list[int] = []

    async def list(self, path: str, params: object) -> tuple[list[Object], int]:
        if not self.lists:
            raise ScriptEndedError
        return self.lists.pop(0)

    async def watch(self, path: str, params: object, version: int) -> AsyncIterator[Event]:
        self.versions.append(version)
        if not self.watches:
            raise ScriptEndedError
        for event in self.watches.pop(0):
            if isinstance(event, Exception):
                raise event
            yield event


class Watched:
    """A mirror of nodes and what it told of them: (name, resourceVersion or gone)."""

    def __init__(self, client: ScriptedClient) -> None:
        self.told: list[tuple[str, int | None]] = []
        self.mirror = Mirror(cast(Client, client), "/api/v1/nodes", {}, parse_node, self._note)

    async def run(self) -> None:
        with pytest.raises(ScriptEndedError):
            await self.mirror.run()

    def _note(self, old: Node | None, new: Node | None) -> None:
        known = new or old
        assert known is not None
        self.told.append((known.name, new.version if new else None))


def node(name: str, version: int) -> Object:
    return {"metadata": {"name": name, "uid": name, "resourceVersion": str(version)}}


async def watch_to_the_end(client: ScriptedClient) -> Watched:
    watched = Watched(client)
    await watched.run()
    return watched


async def test_the_answer_to_a_write_counts_until_the_watch_has_passed_it() -> None:
    client = ScriptedClient(([node("a", 1)], 5), watches=[[("DELETED", node("a", 9))]])
    watched = await watch_to_the_end(client)
    watched.mirror.overlay(node("a", 8))
    watched.mirror.overlay(node("b", 10))
    assert watched.told == [("a", 1), ("a", None), ("b", 10)]


async def test_an_event_older_than_a_known_answer_is_ignored() -> None:
    client = ScriptedClient(([node("a", 1)], 5))
    watched = await watch_to_the_end(client)
    watched.mirror.overlay(node("a", 8))
    client.watches.append([("MODIFIED", node("a", 7)), ("MODIFIED", node("a", 8))])
    await watched.run()
    assert watched.told == [("a", 1), ("a", 8)]
