"""Builds the answer of `gpushare simulate --search`: the best splits, and their pools as YAML."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from gpushare import names
from gpushare.analysis.placement.search import FoundSplit, SearchResult, SplitSearch
from gpushare.analysis.program_name import name_command
from gpushare.api.k8s.node import Node
from gpushare.api.pool import Pool
from gpushare.cli.cluster.access import Access
from gpushare.cli.exit_codes import CommandError, Exit
from gpushare.cli.input.manifests import Given
from gpushare.cli.output.answer import Answer, Line, Styled, lay_out
from gpushare.cli.simulate.queue import Wanted
from gpushare.cli.simulate.split_view import view_split
from gpushare.cli.simulate.view import SimulateInput, ask, build_what_if
from gpushare.core.ownership.claims import is_member

Json = dict[str, Any]

_SHORT = {"nodepool": names.LABEL_NODE_POOL}


def search_splits(
    access: Access, files: Sequence[Given], wanted: Wanted, selector: str, pools: str
) -> Answer:
    """Search the best split of the nodes that `selector` selects over these pools.

    Raises `CommandError`, and what `errors_as_sentences` knows.
    """
    asked = ask(access, files, wanted)
    snapshot = asked.snapshot
    named = _find_pools(pools, asked)
    nodes = _find_nodes(selector, snapshot.nodes)
    _check_claims(nodes, named, snapshot.pools)
    search = SplitSearch(
        replace(asked.observed, snapshot=snapshot), asked.new.pods, [n.name for n in nodes], named
    )
    result = search.run()
    view = view_split(asked, {**search.others, **result.best[0].members}, named)
    document = {"search": _describe(result, named, len(nodes)), **view.document}
    return replace(asked.build_answer(document, _build_page), manifests=view.manifests)


def _find_pools(text: str, asked: SimulateInput) -> tuple[str, ...]:
    named = tuple(dict.fromkeys(text.split(",")))
    if not all(named):
        raise CommandError(Exit.USAGE, f"--pools: {text!r} has an empty name of a pool")
    for name in named:
        asked.check_pool(name)
    return named


def _find_nodes(selector: str, nodes: Mapping[str, Node]) -> list[Node]:
    labels = {}
    for part in selector.split(","):
        key, separator, value = part.partition("=")
        if not separator or not key:
            message = f"--search: {part!r} is not of the form label=value"
            raise CommandError(Exit.USAGE, message)
        labels[_SHORT.get(key, key)] = value
    found = [node for node in nodes.values() if labels.items() <= node.labels.items()]
    if not found:
        raise CommandError(Exit.NOT_FOUND, f"--search: no node has the labels {selector}")
    return found


def _check_claims(nodes: Sequence[Node], named: Collection[str], pools: Sequence[Pool]) -> None:
    """Raise `CommandError` where another pool claims one of the nodes, and would keep it."""
    for pool in pools:
        for node in nodes if pool.name not in named else ():
            if is_member(pool.spec.nodes, node):
                raise CommandError(
                    Exit.USAGE,
                    f"--pools: pool {pool.name} claims node {node.name} too. Name it in --pools, "
                    "or list the node in its spec.nodes.exclude",
                )


def _describe(result: SearchResult, pools: Sequence[str], nodes: int) -> Json:
    return {
        "nodes": nodes,
        "pools": list(pools),
        "tried": result.tried,
        "exact": result.is_exact,
        "best": [_describe_split(each, pools) for each in result.best],
    }


def _describe_split(split: FoundSplit, pools: Sequence[str]) -> Json:
    return {
        "sizes": {pool: split.count(pool) for pool in pools},
        "placed": split.placed,
        "displaced": split.displaced,
        "changes": split.score.changes,
        "largestFreeBlockGiB": -split.score.less_largest_free,
        "nodes": {pool: sorted(n for n, p in split.members.items() if p == pool) for pool in pools},
    }


def _build_page(document: Json, wide: bool) -> Iterator[Line]:
    search = document["search"]
    told = f"{'All ' if search['exact'] else ''}{search['tried']} splits"
    yield (Styled(f"{told} of {search['nodes']} nodes were tried", "bold"),)
    yield ()
    header = ("SPLIT", *search["pools"], "RUN", "MUST GO FIRST", "NODES CHANGED", "LARGEST FREE")
    rows = [
        (
            str(number),
            *(str(each["sizes"][pool]) for pool in search["pools"]),
            str(each["placed"]),
            str(each["displaced"]),
            str(each["changes"]),
            f"{each['largestFreeBlockGiB']} GiB",
        )
        for number, each in enumerate(search["best"], start=1)
    ]
    yield from lay_out(header, rows, indent=2)
    if not search["exact"]:
        yield (Styled("  These are too many to try all: a better one may exist", "yellow"),)
    yield ()
    yield (Styled("Split 1", "bold"),)
    yield from build_what_if(document, wide)
    command = name_command("simulate")
    yield (f"To write its pools to a file: run {command} again with -o yaml",)
