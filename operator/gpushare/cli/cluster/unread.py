"""Tells which kinds of objects the user may not list, and what the answer leaves out for that."""

from collections.abc import Iterator, Mapping
from typing import Any

from gpushare.api.pruned.cluster import Cluster, Kind
from gpushare.cli.output.answer import Line, Styled, lay_out

Json = dict[str, Any]
Lacks = Mapping[Kind, str]
"""By kind, what the answer leaves out where that may not be listed."""
UNHEALTHY = "which cards are unhealthy by ConfigMaps of kube-system: they are shown as healthy"


def describe_unread(cluster: Cluster, lacks: Lacks) -> list[Json]:
    """As data; empty where everything could be listed."""
    return [
        {"kind": str(kind), "why": cluster.unread[kind], "lacks": lack}
        for kind, lack in lacks.items()
        if kind in cluster.unread
    ]


def build_unread_lines(cluster: Cluster, lacks: Lacks, *, wide: bool) -> Iterator[Line]:
    """For people: a line for each kind; wide, with the API server's refusal."""
    unread = describe_unread(cluster, lacks)
    if not unread:
        return
    yield ()
    yield (Styled("Left out, because you may not list it", "bold yellow"),)
    columns = ("kind", "lacks", "why") if wide else ("kind", "lacks")
    rows = [tuple(each[column] for column in columns) for each in unread]
    header = ("KIND", "NOT SHOWN", "WHY")
    yield from lay_out(header[: len(columns)], rows, indent=2)
