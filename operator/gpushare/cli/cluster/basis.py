"""Answers that say at their end what they rest on: what could not be read, and what was assumed."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from gpushare.api.pruned.cluster import Cluster
from gpushare.api.variables import Variable
from gpushare.cli.cluster.settings import build_setup_lines, describe_setup
from gpushare.cli.cluster.unread import Lacks, build_unread_lines, describe_unread
from gpushare.cli.output.answer import Answer, Line
from gpushare.core.analysis.effective_settings import KnownSetup


@dataclass(frozen=True, slots=True)
class Basis:
    """What an answer rests on."""

    cluster: Cluster
    lacks: Lacks
    known: KnownSetup
    about: Sequence[Variable]
    """The settings on which it depends."""


def build_answer(
    document: dict[str, Any], page: Callable[[bool], Iterable[Line]], basis: Basis
) -> Answer:
    """The answer that has this document and this page, which may be asked for wide."""

    def build(wide: bool) -> list[Line]:
        unread = build_unread_lines(basis.cluster, basis.lacks, wide=wide)
        return [*page(wide), *unread, *build_setup_lines(basis.known, basis.about, wide=wide)]

    setup = {"setup": describe_setup(basis.known)}
    return Answer(
        {**document, **setup, "unread": describe_unread(basis.cluster, basis.lacks)}, build
    )
