"""Builds what the page shows of a split of nodes over pools that is set by hand."""

from collections.abc import Mapping
from shlex import quote
from typing import Any

import orjson

from gpushare.analysis.placement.cluster import find_members
from gpushare.analysis.placement.place import PodOrigin
from gpushare.analysis.placement.search import SplitSearch
from gpushare.analysis.placement.shared_nodes import (
    MOST_POOLS,
    SharedNodes,
    divide,
    find_shared_nodes,
)
from gpushare.analysis.placement.split import roll_out
from gpushare.analysis.placement.what_if import list_waiting
from gpushare.analysis.program_name import name_command
from gpushare.api.pruned.cluster import Cluster
from gpushare.cli.exit_codes import CommandError, Exit
from gpushare.cli.simulate.split_view import view_split
from gpushare.cli.simulate.view import SimulateInput, build_input, describe_placement

Json = dict[str, Any]

MOST_TRIES = 200_000
"""Limit of nodes times pods to place: those of up to 50 placements take half a minute."""


def tell_split(cluster: Cluster, options: str, query: Mapping[str, str]) -> bytes:
    """Tell as JSON which nodes can be divided, or with `nodes` and `sizes` in `query` what runs on
    that split. `options` of the command line name the same cluster.

    Raises `CommandError` for a query that is none, or that takes too long to answer.
    """
    asked = build_input(cluster)
    members = find_members(asked.snapshot)
    found = find_shared_nodes(asked.snapshot, members)
    if not query:
        return orjson.dumps(_describe_choices(found, asked))
    shared = next((each for each in found if each.label == query.get("nodes")), None)
    if shared is None:
        message = "nodes: no such label, or its nodes can't be divided any more. Read again"
        raise CommandError(Exit.NOT_FOUND, message)
    sizes = _read_sizes(query.get("sizes", ""), shared)
    search = SplitSearch(asked.observed, (), shared.nodes, tuple(sizes))
    divided = divide(search, asked.snapshot, members, sizes)
    everyone = {**search.others, **divided}
    changes = _count_changes(asked, everyone)
    view = view_split(asked, everyone, tuple(sizes))
    assert view.answer.split is not None
    displaced = (p for p in view.answer.split.pods if p.pod.origin is PodOrigin.DISPLACED)
    command = name_command(f"simulate {options}".strip())
    searched = f"--search {quote(shared.label)} --pools {','.join(sizes)}"
    document = {key: value for key, value in view.document.items() if key != "placements"}
    return orjson.dumps(
        {
            **document,
            "takenAt": cluster.taken_at.isoformat(timespec="seconds"),
            "changes": changes,
            "mustGo": [describe_placement(each) for each in displaced],
            "search": f"{command} {searched}",
            "command": f"{command} -f - <<'EOF'\n{view.manifests}EOF\n",
        }
    )


def _describe_choices(found: tuple[SharedNodes, ...], asked: SimulateInput) -> Json:
    modes = {pool.name: str(pool.spec.schedule) for pool in asked.snapshot.pools}
    return {
        "shared": [
            {
                "label": each.label,
                "nodes": len(each.nodes),
                "pools": [
                    {"name": name, "schedule": modes[name], "nodes": count}
                    for name, count in each.sizes.items()
                ],
            }
            for each in found
        ],
        "why": "" if found else _explain_none(),
    }


def _explain_none() -> str:
    return (
        f"No nodes can be divided: no label is on nodes that 2 to {MOST_POOLS} pools claim "
        "together, and on no node without a GPU. For any other change of pools, run "
        f"{name_command('simulate')} -f"
    )


def _read_sizes(text: str, shared: SharedNodes) -> dict[str, int]:
    """Read `POOL:NODES,...`. Raises `CommandError` where that is no split of these nodes."""
    parts = [part.rpartition(":") for part in text.split(",")]
    sizes = {pool: int(count) for pool, _, count in parts if count.isdecimal() and len(count) < 6}
    if sizes.keys() != shared.sizes.keys() or sum(sizes.values()) > len(shared.nodes):
        raise CommandError(
            Exit.USAGE,
            f"sizes: must be a number of nodes for each of {', '.join(shared.sizes)}, as "
            f"POOL:NODES,..., of {len(shared.nodes)} nodes together",
        )
    return sizes


def _count_changes(asked: SimulateInput, members: Mapping[str, str]) -> int:
    """Count the nodes whose mode changes. Raises `CommandError` where it would take too long to
    place the pods on this split."""
    split = roll_out(asked.snapshot, members, asked.observed.setup.memory_unit)
    pods = len(list_waiting(asked.observed)[0]) + len(split.displaced)
    if len(members) * pods > MOST_TRIES:
        raise CommandError(
            Exit.USAGE,
            f"{pods} pods to place on {len(members)} nodes take too long for this page. Write the "
            f"pools to a file, and run {name_command('simulate')} -f",
        )
    return split.changes
