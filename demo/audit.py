"""What the operator wrote, from the API server's audit log: its own word counts for nothing."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

OPERATOR = "system:serviceaccount:gpushare-system:gpushare-controller"
_WRITES = frozenset({"create", "update", "patch", "delete", "deletecollection"})


@dataclass(frozen=True)
class Write:
    """One write that the API server accepted."""

    verb: str
    resource: str
    name: str


def read_operator_writes(log: Path, *, after: int) -> list[Write]:
    """The operator's accepted writes in ``log`` beyond byte ``after``, in order."""
    with log.open("rb") as lines:
        lines.seek(after)
        return list(_parse(lines.read().decode()))


def _parse(text: str) -> Iterator[Write]:
    for line in text.splitlines(keepends=True):
        if not line.endswith("\n"):
            return  # still being written
        event = json.loads(line)
        accepted = event.get("responseStatus", {}).get("code", 500) < 300
        if event["user"]["username"] == OPERATOR and event["verb"] in _WRITES and accepted:
            target = event["objectRef"]
            yield Write(event["verb"], target["resource"], target.get("name", ""))
