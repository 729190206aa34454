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
from gpushare.cli.output.tables import build_table

EMPTY = (
    f"The plan is empty: nodes get only the operator's labels and annotations ({names.GROUP}/), no "
    "other label, no cordon, no restart and no reboot"
)
_POOLS = "POOL:name,EDITION:edition,MODE:schedule,PLACEMENT:placement,NODES:count,MEMBERS:selects"
_POOLS_WIDE = f"{_POOLS},NAMES:nodes"
_CHANGES = "NODE:name,POOL:pool,LABELS:labelChanges,CHANGE:does"
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
    document: Json = {
        "pools": {"apiVersion": "v1", "kind": "List", "items": manifests},
        "adopted": [_describe_pool(pool) for pool in described.pools],
        "planIsEmpty": not proof.changes,
        "nodes": [_describe_node(each) for each in proof.simulated],
        "notes": [describe_note(note) for note in notes],
    }
    head = [_conclude(document), *(str(note) for note in notes if not note.is_of_pool)]
    return Answer(
        document,
        _build_page,
        manifests=render_manifests(head, manifests, _build_comments(document, notes)),
        notes=tuple(map(str, notes)),
        exit_code=Exit.CHANGES if proof.changes else Exit.OK,
    )


def _describe_pool(pool: AdoptedPool) -> Json:
    carried = pool.carried
    return {
        "name": pool.name,
        "edition": str(carried.edition),
        "schedule": str(carried.schedule),
        "placement": str(carried.placement or "") or None,
        "selects": _describe_membership(pool.membership),
        "nodes": list(pool.nodes),
    }


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
        "labelChanges": _describe_labels(each),
        "does": _describe_change(each),
    }


def describe_note(note: Note) -> Json:
    """Describe a note as data."""
    return {
        "code": str(note.code),
        "pools" if note.is_of_pool else "nodes": list(note.names),
        "about": note.about,
        "message": note.message,
        "text": note.text,
        "leftOut": note.code.leaves_out,
    }


def _conclude(document: Json) -> str:
    if not document["adopted"]:
        return NOTHING
    changes = _list_changes(document)
    return f"The plan is not empty: {_count(changes)} would change" if changes else EMPTY


def _list_changes(document: Json) -> list[Json]:
    return [node for node in document["nodes"] if not node["planIsEmpty"]]


def _build_page(document: Json, wide: bool) -> Iterator[Line]:
    pools = [{**pool, "count": len(pool["nodes"])} for pool in document["adopted"]]
    if pools:
        yield from build_table(_POOLS_WIDE if wide else _POOLS, pools, indent=0)
        yield ()
    yield (_conclude(document),)
    if changes := build_table(_CHANGES, _list_changes(document)):
        yield ()
        yield from changes
    yield from build_notes(document["notes"])


def _build_comments(document: Json, notes: Sequence[Note]) -> dict[str, list[str]]:
    """Build the comments that stand above each pool."""
    comments = {
        pool["name"]: [f"{_count(pool['nodes'])}: {list_names(tuple(pool['nodes']))}"]
        for pool in document["adopted"]
    }
    for note in notes:
        for name in note.names if note.is_of_pool else ():
            comments[name].append(f"{note.code}: {note.message}")
    for change in _list_changes(document):
        changes = "; ".join(filter(None, (change["labelChanges"], change["does"])))
        comments[change["pool"]].append(f"would change {change['name']}: {changes}")
    return comments


def build_notes(notes: Sequence[Json]) -> Iterator[Line]:
    """Build the table of described notes; nothing where there are none."""
    rows: list[Line] = []
    for note in notes:
        code = Styled(note["code"], "red" if note["leftOut"] else "yellow")
        rows.append((code, note["about"], note["text"]))
    if rows:
        yield from ((), (Styled("Notes", "bold"),))
        yield from lay_out(("CODE", "ABOUT", "WHAT"), rows, indent=2)


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


def _describe_labels(change: Simulated) -> str:
    changes = []
    for key, (of, to) in change.changed_labels.items():
        new = f"{key}={to}" if to is not None else f"{key} removed"
        changes.append(f"{new} (absent)" if of is None else f"{new} (was {of})")
    return ", ".join(changes)


def _describe_change(change: Simulated) -> str:
    plan = change.plan
    if not change.changes_mode:
        return "mode unchanged, no restart"
    return f"{plan.kind or plan.message}" + (f"; {plan.reason}" if plan.kind else "")
