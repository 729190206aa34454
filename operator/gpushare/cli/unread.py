"""What could not be read for an answer, and what the answer therefore lacks."""

from collections.abc import Iterator, Mapping
from typing import Any

from gpushare.api.cluster import Cluster, Kind
from gpushare.cli.output import Line, Styled, lay_out

Json = dict[str, Any]
Lacks = Mapping[Kind, str]
"""What an answer does not say without each kind that it needs more of than what has a name."""


def describe_unread(cluster: Cluster, lacks: Lacks) -> list[Json]:
    """As data; empty where all could be read."""
    return [
        {"kind": str(kind), "why": cluster.unread[kind], "lacks": lack}
        for kind, lack in lacks.items()
        if kind in cluster.unread
    ]


def build_unread_lines(cluster: Cluster, lacks: Lacks, *, wide: bool) -> Iterator[Line]:
    """For people: a line for each kind; wide, with the right that is missing."""
    unread = describe_unread(cluster, lacks)
    if not unread:
        return
    yield ()
    yield (Styled("What you may not list", "bold yellow"),)
    columns = ("kind", "lacks", "why") if wide else ("kind", "lacks")
    rows = [tuple(each[column] for column in columns) for each in unread]
    header = ("KIND", "SO THIS DOES NOT SAY", "RIGHT THAT IS MISSING")
    yield from lay_out(header[: len(columns)], rows, indent=2)
