"""Builds the answer of `gpushare adopt`: the pools that describe a cluster, and their plan."""

from collections.abc import Iterator, Sequence, Sized

from gpushare import names
from gpushare.analysis.adoption.adopt import describe_snapshot, prove
from gpushare.analysis.adoption.grouping import AdoptedPool, build_manifest
from gpushare.analysis.adoption.notes import Note, gather, list_names
from gpushare.analysis.adoption.simulation import Simulated
from gpushare.api.manifest import parse_manifest
from gpushare.api.selector import Nodes
from gpushare.cli.cluster.access import Access
from gpushare.cli.cluster.snapshot import PLANNED, observe_cluster, with_pools
from gpushare.cli.exit_codes import Exit
from gpushare.cli.output.answer import Answer, Line, Styled, lay_out
from gpushare.cli.output.data import Json, render_manifests

EMPTY = (
    f"The plan is empty: nodes get only the operator's labels and annotations ({names.GROUP}/), no "
    "other label, no cordon, no restart and no reboot"
)
NOTHING = "Nothing to adopt: no node outside a pool carries a mode's label"


def adopt(access: Access, *, node_pool_label: str, observe: bool) -> Answer:
    """Describe all nodes that carry a mode's label and are in no pool, by pools.

    `observe`: pools that only report what they would do; the plan is that of pools that act.
    """
    cluster = access.read(*PLANNED)
    snapshot = observe_cluster(cluster).snapshot
    described = describe_snapshot(snapshot, node_pool_label)
    manifests = [build_manifest(pool) for pool in described.pools]
    new = [parse_manifest(manifest, cluster.taken_at) for manifest in manifests]
    proof = prove(with_pools(snapshot, new), described.pools, cluster.taken_at)
    notes = gather((*described.notes, *proof.notes))
    if observe:
        for manifest in manifests:
            manifest["spec"]["reconcile"] = "Observe"
    changes, conclusion = proof.changes, _conclude(described.pools, proof.changes)
    head = [conclusion, *(str(note) for note in notes if not note.is_of_pool)]
    return Answer(
        {
            "pools": {"apiVersion": "v1", "kind": "List", "items": manifests},
            "planIsEmpty": not changes,
            "nodes": [_describe_node(each) for each in proof.simulated],
            "notes": [describe_note(note) for note in notes],
        },
        lambda document, wide: _build_page(described.pools, conclusion, changes, notes, wide=wide),
        manifests=render_manifests(
            head, manifests, _build_comments(described.pools, changes, notes)
        ),
        notes=tuple(map(str, notes)),
        exit_code=Exit.CHANGES if changes else Exit.OK,
    )


def _describe_node(each: Simulated) -> Json:
    return {
        "name": each.node,
        "pool": each.pool,
        "state": str(each.plan.state),
        "reason": str(each.plan.reason),
        "message": each.plan.message,
        "labels": {key: {"from": of, "to": to} for key, (of, to) in each.labels.items()},
        "change": str(each.plan.kind) if each.plan.kind is not None else None,
        "restartsPlugin": each.restarts,
        "reboots": each.reboots,
        "planIsEmpty": each.is_empty,
    }


def describe_note(note: Note) -> Json:
    """Describe a note as data."""
    return {
        "code": str(note.code),
        "pools" if note.is_of_pool else "nodes": list(note.names),
        "message": note.message,
        "leftOut": note.code.leaves_out,
    }


def _conclude(pools: Sized, changes: Sized) -> str:
    if not pools:
        return NOTHING
    return f"The plan is not empty: {_count(changes)} would change" if changes else EMPTY


def _build_page(
    pools: Sequence[AdoptedPool],
    conclusion: str,
    changes: Sequence[Simulated],
    notes: Sequence[Note],
    *,
    wide: bool,
) -> Iterator[Line]:
    if pools:
        header = ["POOL", "EDITION", "MODE", "PLACEMENT", "NODES", "MEMBERS"]
        rows: list[Line] = [_build_row(pool, wide=wide) for pool in pools]
        yield from lay_out([*header, "NAMES"] if wide else header, rows)
        yield ()
    yield (conclusion,)
    if changes:
        yield ()
        told = [(c.node, c.pool, _tell_labels(c) or "-", _tell_change(c)) for c in changes]
        yield from lay_out(("NODE", "POOL", "LABELS", "CHANGE"), told, indent=2)
    yield from build_notes(notes)


def _build_comments(
    pools: Sequence[AdoptedPool], changes: Sequence[Simulated], notes: Sequence[Note]
) -> dict[str, list[str]]:
    """Build the comments that stand above each pool."""
    comments = {pool.name: [f"{_count(pool.nodes)}: {list_names(pool.nodes)}"] for pool in pools}
    for note in notes:
        for name in note.names if note.is_of_pool else ():
            comments[name].append(f"{note.code}: {note.message}")
    for change in changes:
        told = "; ".join(filter(None, (_tell_labels(change), _tell_change(change))))
        comments[change.pool].append(f"would change {change.node}: {told}")
    return comments


def build_notes(notes: Sequence[Note]) -> Iterator[Line]:
    """Build the table of notes; nothing where there are none."""
    rows: list[Line] = []
    for note in notes:
        code = Styled(note.code, "red" if note.code.leaves_out else "yellow")
        rows.append((code, note.about, note.text))
    if rows:
        yield from ((), (Styled("Notes", "bold"),))
        yield from lay_out(("CODE", "ABOUT", "WHAT"), rows, indent=2)


def _build_row(pool: AdoptedPool, *, wide: bool) -> Line:
    carried = pool.carried
    row = (
        pool.name,
        str(carried.edition),
        str(carried.schedule),
        str(carried.placement or "-"),
        str(len(pool.nodes)),
        _describe_membership(pool.membership),
    )
    return (*row, ", ".join(pool.nodes)) if wide else row


def _describe_membership(nodes: Nodes) -> str:
    """Describe how a pool selects its nodes."""
    parts = []
    if nodes.selector is not None:
        parts += [f"{key}={value}" for key, value in nodes.selector.match_labels.items()]
        for each in nodes.selector.match_expressions:
            parts.append(f"{each.key} {each.operator} {','.join(each.values)}")
    if nodes.names:
        parts.append(f"{len(nodes.names)} by name")
    if nodes.exclude:
        parts.append(f"without {list_names(nodes.exclude)}")
    return ", ".join(parts)


def _count(nodes: Sized) -> str:
    return "1 node" if len(nodes) == 1 else f"{len(nodes)} nodes"


def _tell_labels(change: Simulated) -> str:
    told = []
    for key, (of, to) in change.changed_labels.items():
        new = f"{key}={to}" if to is not None else f"{key} removed"
        told.append(f"{new} (absent)" if of is None else f"{new} (was {of})")
    return ", ".join(told)


def _tell_change(change: Simulated) -> str:
    plan = change.plan
    if not change.changes_mode:
        return "mode unchanged, no restart"
    return f"{plan.kind or plan.message}" + (f"; {plan.reason}" if plan.kind else "")
