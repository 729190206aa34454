"""`gpushare adopt`: the pools that describe a cluster as it is, proved by the planner."""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

from gpushare import names
from gpushare.api.manifest import parse_manifest
from gpushare.api.pool import Nodes
from gpushare.api.selector import LabelSelector
from gpushare.cli.cluster.access import Access
from gpushare.cli.cluster.snapshot import PLANNED, observe_cluster, with_pools
from gpushare.cli.exit_codes import Exit
from gpushare.cli.output.answer import Answer, Line, Styled, lay_out
from gpushare.cli.output.data import Json, render_manifests
from gpushare.core.analysis.adoption.adopt import describe_snapshot, prove
from gpushare.core.analysis.adoption.grouping import AdoptedPool, build_manifest
from gpushare.core.analysis.adoption.notes import Note, gather, list_names
from gpushare.core.analysis.adoption.simulation import Simulated

EMPTY = (
    f"The plan is empty: nodes get the operator's own labels and annotations ({names.GROUP}/), "
    "and nothing else happens to them: no other label, no cordon, no restart, no reboot."
)
NOTHING = "There is nothing to adopt: no node outside a pool carries a mode's label."


def adopt(access: Access, *, node_pool_label: str, observe: bool) -> Answer:
    """The pools of all nodes that carry a mode's label and are in no pool.

    `observe`: pools that only say what they would do; the proof is of pools that act.
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
    page = _Page(described.pools, proof.changes, notes)
    return Answer(
        _build_document(page, manifests, proof.simulated),
        page.build,
        manifests=render_manifests(page.build_head(), manifests, page.build_comments()),
        notes=tuple(map(str, notes)),
        exit_code=Exit.CHANGES if proof.changes else Exit.OK,
    )


# As data.


def _build_document(page: "_Page", manifests: list[Json], simulated: tuple[Simulated, ...]) -> Json:
    return {
        "pools": {"apiVersion": "v1", "kind": "List", "items": manifests},
        "planIsEmpty": not page.changes,
        "nodes": [_describe_node(each) for each in simulated],
        "notes": [describe_note(note) for note in page.notes],
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
    }


def describe_note(note: Note) -> Json:
    """A note as data."""
    return {
        "code": str(note.code),
        "pools" if note.is_of_pool else "nodes": list(note.names),
        "message": note.message,
        "leftOut": note.leaves_out,
    }


# For people.


@dataclass(frozen=True, slots=True)
class _Page:
    pools: tuple[AdoptedPool, ...]
    changes: tuple[Simulated, ...]
    notes: tuple[Note, ...]

    def build(self, wide: bool) -> Iterator[Line]:
        if self.pools:
            header = ["POOL", "EDITION", "MODE", "PLACEMENT", "NODES", "MEMBERS"]
            rows: list[Line] = [_build_row(pool, wide=wide) for pool in self.pools]
            yield from lay_out([*header, "NAMES"] if wide else header, rows)
            yield ()
        yield (self._conclude(),)
        if self.changes:
            yield ()
            told = [(c.node, c.pool, _tell_labels(c) or "-", _tell_change(c)) for c in self.changes]
            yield from lay_out(("NODE", "POOL", "LABELS", "CHANGE"), told, indent=2)
        if self.notes:
            yield ()
            yield from build_notes(self.notes)

    def build_head(self) -> Iterator[str]:
        """What stands above all pools, in comments."""
        yield self._conclude()
        yield from (str(note) for note in self.notes if not note.is_of_pool)

    def build_comments(self) -> dict[str, list[str]]:
        """What stands above each pool."""
        comments: defaultdict[str, list[str]] = defaultdict(list)
        for pool in self.pools:
            comments[pool.name].append(f"{_count(pool)}: {list_names(pool.nodes)}")
        for note in self.notes:
            for name in note.names if note.is_of_pool else ():
                comments[name].append(f"{note.code}: {note.message}")
        for change in self.changes:
            told = "; ".join(filter(None, (_tell_labels(change), _tell_change(change))))
            comments[change.pool].append(f"it would change {change.node}: {told}")
        return dict(comments)

    def _conclude(self) -> str:
        if not self.pools:
            return NOTHING
        if not self.changes:
            return EMPTY
        nodes = "1 node" if len(self.changes) == 1 else f"{len(self.changes)} nodes"
        return f"The plan is not empty: {nodes} would be changed."


def build_notes(notes: tuple[Note, ...]) -> Iterator[Line]:
    """What is to be said, as a table."""
    yield (Styled("Remarks", "bold"),)
    rows: list[Line] = [
        (
            Styled(str(note.code), "red" if note.leaves_out else "yellow"),
            note.about,
            f"{note.message}; left out" if note.leaves_out else note.message,
        )
        for note in notes
    ]
    yield from lay_out(("CODE", "ABOUT", "WHAT"), rows, indent=2)


def _build_row(pool: AdoptedPool, *, wide: bool) -> Line:
    carried = pool.carried
    row = (
        pool.name,
        str(carried.edition),
        str(carried.schedule),
        str(carried.placement or "-"),
        str(len(pool.nodes)),
        describe_membership(pool.membership),
    )
    return (*row, ", ".join(pool.nodes)) if wide else row


def describe_membership(nodes: Nodes) -> str:
    """By what a pool has its nodes."""
    parts = [_describe_selector(nodes.selector)] if nodes.selector is not None else []
    if nodes.names:
        parts.append(f"{len(nodes.names)} by name")
    if nodes.exclude:
        parts.append(f"without {list_names(nodes.exclude)}")
    return ", ".join(parts)


def _describe_selector(selector: LabelSelector) -> str:
    exact = [f"{key}={value}" for key, value in selector.match_labels.items()]
    further = [f"{e.key} {e.operator} {','.join(e.values)}" for e in selector.match_expressions]
    return ", ".join([*exact, *further])


def _count(pool: AdoptedPool) -> str:
    return "1 node" if len(pool.nodes) == 1 else f"{len(pool.nodes)} nodes"


def _tell_labels(change: Simulated) -> str:
    told = []
    for key, (of, to) in change.changed_labels.items():
        new = f"{key}={to}" if to is not None else f"{key} removed"
        told.append(f"{new} (absent)" if of is None else f"{new} (was {of})")
    return ", ".join(told)


def _tell_change(change: Simulated) -> str:
    plan = change.plan
    if not change.changes_mode:
        return "the mode stays, no restart"
    return f"{plan.kind or plan.message}" + (f"; {plan.reason}" if plan.kind else "")
