"""What answers rest on: the kinds that could not be read, and the settings that were assumed."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from gpushare.api.container_env import Variable
from gpushare.api.pruned.cluster import Cluster, Kind
from gpushare.cli.output.answer import Answer, Line, Styled, lay_out
from gpushare.cli.output.tables import describe
from gpushare.core.analysis.effective_settings import KnownSetup

Json = dict[str, Any]
Lacks = Mapping[Kind, str]
"""By kind, what the answer leaves out where that may not be listed."""
UNHEALTHY = "which cards are unhealthy by ConfigMaps of kube-system: they are shown as healthy"


def build_answer(
    document: dict[str, Any],
    page: Callable[[bool], Iterable[Line]],
    cluster: Cluster,
    lacks: Lacks,
    known: KnownSetup,
    about: Sequence[Variable],
) -> Answer:
    """The answer that has this document and this page, which may be asked for wide.

    It depends on the settings that it is `about`.
    """

    def build(wide: bool) -> list[Line]:
        unread = build_unread_lines(cluster, lacks, wide=wide)
        return [*page(wide), *unread, *build_setup_lines(known, about, wide=wide)]

    setup, unread = describe_setup(known), describe_unread(cluster, lacks)
    return Answer({**document, "setup": setup, "unread": unread}, build)


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


def describe_setup(known: KnownSetup) -> Json:
    """Each variable with its value and where that is from."""
    document: Json = describe(dict(sorted(known.settings.items())))
    return document


def build_setup_lines(
    known: KnownSetup, about: Sequence[Variable], *, wide: bool = False
) -> Iterator[Line]:
    """What was assumed of what an answer is `about`, in a line; wide, where each value is from."""
    told = known.tell_assumed(about)
    if told:
        yield ()
        yield (Styled(f"Assumed{told.removeprefix('assumed')}", "dim"),)
    elif wide:
        yield ()
        yield (Styled(f"Set by {known.tell_sources(about)}", "dim"),)
    if known.elsewhere:
        text = f"Of device plugins nothing is known: {known.elsewhere}"
        yield (Styled(text, "yellow"),)
