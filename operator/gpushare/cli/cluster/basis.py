"""Answers that say at their end what they rest on: what could not be read, and what was assumed."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from gpushare.api.pruned.cluster import Cluster
from gpushare.api.variables import Variable
from gpushare.cli.cluster.settings import build_setup_lines, describe_setup
from gpushare.cli.cluster.unread import Lacks, build_unread_lines, describe_unread
from gpushare.cli.output.answer import Answer, Line
from gpushare.core.analysis.effective_settings import KnownSetup


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
