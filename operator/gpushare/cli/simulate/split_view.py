"""Describes what runs on a split of nodes over pools, with the manifests of these pools."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pydantic import ValidationError

from gpushare import names
from gpushare.analysis.placement.search import name_nodes
from gpushare.analysis.placement.what_if import WhatIf, ask_what_if
from gpushare.api.documents import format_yaml
from gpushare.api.k8s.node import Node
from gpushare.api.pool import Pool
from gpushare.api.selector import Nodes
from gpushare.cli.exit_codes import CommandError, Exit
from gpushare.cli.simulate.view import SimulateInput, describe_what_if
from gpushare.core.ownership.claims import is_member

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class SplitView:
    """A split as answers show it."""

    answer: WhatIf
    document: Json
    manifests: str
    """The pools as YAML."""


def view_split(asked: SimulateInput, members: Mapping[str, str], pools: Sequence[str]) -> SplitView:
    """View the split in which these `pools` have the nodes that `members` says, by node.

    Raises `CommandError` where a pool can't list so many nodes.
    """
    snapshot = asked.snapshot
    named = (pool for pool in snapshot.pools if pool.name in pools)
    try:
        changed = {pool.name: _claim(pool, members, snapshot.nodes) for pool in named}
    except ValidationError as error:
        message = "a pool would list more nodes than spec.nodes allows. Select fewer nodes"
        raise CommandError(Exit.USAGE, message) from error
    split = replace(snapshot, pools=tuple(changed.get(p.name, p) for p in snapshot.pools))
    answer = ask_what_if(asked.observed, asked.new.pods, split, set(pools))
    manifests = "---\n".join(format_yaml(_build_manifest(pool)) for pool in changed.values())
    return SplitView(answer, describe_what_if(answer, asked), manifests)


def _claim(pool: Pool, members: Mapping[str, str], nodes: Mapping[str, Node]) -> Pool:
    """Return `pool` with its nodes by name. One without any claims what it did, and excludes each
    node of that: a pool has to select something."""
    changed = name_nodes(pool, members)
    if changed.spec.nodes.names:
        return changed
    old = pool.spec.nodes
    lost = sorted(node.name for node in nodes.values() if is_member(old, node))
    excluding = Nodes(
        selector=old.selector,
        names=old.names,
        exclude=(*old.exclude, *lost),
        cards=old.cards,
        scaling=old.scaling,
    )
    spec = pool.spec.model_copy(update={"nodes": excluding, "demand": None})
    return pool.model_copy(update={"spec": spec})


def _build_manifest(pool: Pool) -> Json:
    spec = pool.spec.model_dump(mode="json", by_alias=True, exclude_defaults=True)
    if pool.spec.nvidia is not None:
        spec.pop("schedule", None)
    spec["edition"] = str(pool.spec.edition)
    return {
        "apiVersion": f"{names.GROUP}/{names.VERSION}",
        "kind": names.KIND,
        "metadata": {"name": pool.name},
        "spec": spec,
    }
