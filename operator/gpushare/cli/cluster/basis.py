"""Adds to answers which kinds could not be read, and which settings were assumed."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from gpushare.analysis.effective_settings import KnownSetup
from gpushare.api.pruned.cluster import Cluster, Kind
from gpushare.cli.output.answer import Answer, Line, Styled, lay_out
from gpushare.cli.output.tables import describe
from gpushare.settings import Variable

Json = dict[str, Any]
Lacks = Mapping[Kind, str]
"""Parts that the answer lacks if the user may not list a kind, by kind."""
OF_STACKS: Lacks = {
    Kind.CONFIGMAPS: "which cards are unhealthy (from ConfigMaps of kube-system): all are shown as "
    "healthy",
    Kind.RESOURCESLICES: "whether NVIDIA's DRA driver gives out cards too (from ResourceSlices)",
    Kind.RESOURCECLAIMS: "which pods hold cards of NVIDIA's DRA driver (from ResourceClaims): all "
    "with a claim may",
    Kind.PLUGINCONFIGS: "what pools of the NVIDIA edition need (from the namespace of NVIDIA's "
    "device plugin)",
}
"""Parts that the answer lacks without the kinds that describe plugins and other stacks."""


def build_answer(
    document: Json,
    build_page: Callable[[Json, bool], Iterable[Line]],
    cluster: Cluster,
    lacks: Lacks,
    known: KnownSetup,
    about: Sequence[Variable],
) -> Answer:
    """Build the answer with this document and its page, which may be wide.

    `about` are the settings that it depends on.
    """

    def build(document: Json, wide: bool) -> Iterator[Line]:
        yield from build_page(document, wide)
        yield from build_unread_lines(document["unread"], wide=wide)
        yield from build_setup_lines(document, wide=wide)

    unread = describe_unread(cluster, lacks)
    return Answer({**document, **describe_setup(known, about), "unread": unread}, build)


def describe_unread(cluster: Cluster, lacks: Lacks) -> list[Json]:
    """Describe the kinds that could not be listed; empty where all could."""
    return [
        {"kind": str(kind), "why": cluster.unread[kind], "lacks": lack}
        for kind, lack in lacks.items()
        if kind in cluster.unread
    ]


def build_unread_lines(unread: Sequence[Json], *, wide: bool) -> Iterator[Line]:
    """Yield a line for each kind that could not be listed; wide, with the API server's refusal."""
    if not unread:
        return
    yield ()
    yield (Styled("Not shown, because you may not list it", "bold yellow"),)
    columns = ("kind", "lacks", "why") if wide else ("kind", "lacks")
    rows = [tuple(each[column] for column in columns) for each in unread]
    header = ("KIND", "NOT SHOWN", "WHY")
    yield from lay_out(header[: len(columns)], rows, indent=2)


def describe_setup(known: KnownSetup, about: Sequence[Variable]) -> Json:
    """Describe each variable with its value and source; in sentences those that an answer is
    `about`."""
    return {
        "setup": describe(dict(sorted(known.settings.items()))),
        "basis": {
            "assumed": known.tell_assumed(about),
            "sources": known.tell_sources(about),
            "elsewhere": known.elsewhere,
        },
    }


def build_setup_lines(document: Json, *, wide: bool) -> Iterator[Line]:
    """Yield a line with the settings that were assumed; wide, with the source of each."""
    basis = document["basis"]
    if basis["assumed"]:
        yield ()
        yield (Styled(basis["assumed"], "dim"),)
    elif wide:
        yield ()
        yield (Styled(f"Set by {basis['sources']}", "dim"),)
    if basis["elsewhere"]:
        yield (Styled(basis["elsewhere"], "yellow"),)
