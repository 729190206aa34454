"""A crash of the operator at one of its writes, on one side of it."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Self

import orjson

from tests.kit.cluster.fault_proxy import Request, Rule
from tests.kit.values.manifests import Json

_METHODS = frozenset({"POST", "PUT", "PATCH", "DELETE"})
_PATH = re.compile(
    r"/apis?/(?:[^/]+/)*?v1[a-z0-9]*/(?:namespaces/[^/]+/)?(?P<resource>[a-z]+)"
    r"(?:/(?P<name>[^/?]+))?(?P<sub>/[a-z]+)?(?:[?]|$)"
)
_ASIDE = frozenset({"events", "leases"})
_REFUSED = 400


@dataclass(frozen=True, slots=True)
class Write:
    """A write, known by what it does: writes of several nodes come in any order."""

    name: str
    """Of the node; for a plugin's pod, whose name is new each time, that of its node, or which of
    the node's it is."""
    resource: str
    verb: str
    step: str
    """The step of the node's change that it records or belongs to; empty: the change is over."""

    def __str__(self) -> str:
        return f"{self.verb} {self.resource} of {self.name}, step {self.step or 'done'}"

    @classmethod
    def parse(cls, request: Request, plugins: Mapping[str, str]) -> Self | None:
        """What a request writes; None where it reads, or writes a Lease, an Event or a status.
        `plugins`: by name of each plugin's pod, what it is called here."""
        parts = _PATH.match(request.target)
        if request.method not in _METHODS or parts is None or parts["sub"] == "/status":
            return None
        resource, name = parts["resource"], parts["name"] or ""
        if resource in _ASIDE or resource.startswith("selfsubject"):
            return None
        if resource == "pods":
            return cls(plugins.get(name, name), resource, request.method, "Restarting")
        step: str = read_change_record(request.body).get("phase", "")
        return cls(name, resource, request.method, step)


class Side(StrEnum):
    """When the operator dies: the API server never hears of the write, or has done it."""

    BEFORE = "before"
    AFTER = "after"


@dataclass(frozen=True, slots=True)
class Crash:
    write: Write
    side: Side

    def __str__(self) -> str:
        return f"{self.side} {self.write}"

    def build_rule(self, plugins: Mapping[str, str], kill: Callable[[], object]) -> Rule:
        """The proxy's rule that calls `kill` at this moment, once."""

        def is_meant(request: Request) -> bool:
            return Write.parse(request, plugins) == self.write

        if self.side is Side.BEFORE:
            return Rule(".*", "", where=is_meant, before=kill)

        def kill_once_done() -> None:
            if rule.answered < _REFUSED:
                rule.removed = True
                kill()

        # A write that was refused, and is sent again, is not done: so each of them is looked at.
        rule = Rule(".*", "", where=is_meant, times=None, after=kill_once_done)
        return rule


def read_change_record(body: bytes) -> Json:
    """The change that an apply to a node records; empty without one, and for any other body."""
    try:
        notes: Json = orjson.loads(body)["metadata"].get("annotations") or {}
        record: Json = orjson.loads(notes.get("gpushare.io/change", "{}"))
    except (ValueError, KeyError, TypeError, AttributeError):
        return {}
    return record
