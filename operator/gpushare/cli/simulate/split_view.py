"""Describes what runs on a split of nodes over pools, with the manifests of these pools."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pydantic import ValidationError

from gpushare import names
from gpushare.analysis.placement.search import name_nodes
from gpushare.analysis.placement.what_if import WhatIf, ask_what_if
from gpushare.api.documents import format_yaml
from gpushare.api.pool import Pool
from gpushare.cli.exit_codes import CommandError, Exit
from gpushare.cli.simulate.view import SimulateInput, describe_what_if

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class SplitView:
    """A split as answers show it."""

    answer: WhatIf
    document: Json
    manifests: str
    """The pools that get nodes, as YAML."""
    notes: tuple[str, ...]
    """Sentences on the pools that get none."""


def view_split(asked: SimulateInput, members: Mapping[str, str], pools: Sequence[str]) -> SplitView:
    """View the split in which these `pools` have the nodes that `members` says, by node.

    Raises `CommandError` where a pool can't list so many nodes.
    """
    snapshot = asked.snapshot
    try:
        changed = {p.name: name_nodes(p, members) for p in snapshot.pools if p.name in pools}
    except ValidationError as error:
        message = "a pool would have more nodes than spec.nodes.names may list. Select fewer nodes"
        raise CommandError(Exit.USAGE, message) from error
    split = replace(snapshot, pools=tuple(changed.get(p.name, p) for p in snapshot.pools))
    answer = ask_what_if(asked.observed, asked.new.pods, split, set(pools))
    full = [pool for pool in changed.values() if pool.spec.nodes.names]
    empty = sorted(changed.keys() - {pool.name for pool in full})
    return SplitView(
        answer,
        describe_what_if(answer, asked),
        "---\n".join(format_yaml(_build_manifest(pool)) for pool in full),
        tuple(
            f"pool {name} gets no node, and is left out. Delete it, or list its nodes of today in "
            "its spec.nodes.exclude"
            for name in empty
        ),
    )


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
