"""Builds the answer of `gpushare simulate`: what would run in each pool, and what would not."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from shlex import quote
from typing import Any

from gpushare.analysis.effective_settings import ROUTED_BY
from gpushare.analysis.observed_cluster import ObservedCluster
from gpushare.analysis.placement.pending import PendingCause
from gpushare.analysis.placement.place import (
    PlacementResult,
    PodOrigin,
    PodPlacement,
    PoolPlacement,
)
from gpushare.analysis.placement.what_if import Observed, WhatIf, ask_what_if, read_shapes
from gpushare.api.k8s.namespace import parse_namespace
from gpushare.api.pruned.cluster import STATE_KINDS, Cluster, Kind
from gpushare.cli.cluster.access import Access
from gpushare.cli.cluster.basis import OF_STACKS, Lacks, build_answer
from gpushare.cli.cluster.snapshot import observe_cluster, observe_pools, with_pools
from gpushare.cli.errors.failures import build_unknown
from gpushare.cli.input.manifests import Given
from gpushare.cli.input.pools import GivenPools, find_pools
from gpushare.cli.output.answer import Answer, Line, Styled
from gpushare.cli.output.facts import describe_capacity
from gpushare.cli.output.tables import build_section, build_table
from gpushare.cli.plan.view import build_forecast, check_updates, describe_forecast
from gpushare.cli.simulate.queue import NOTHING_WANTED, Wanted, WantedPods, list_wanted
from gpushare.core.snapshot.cluster import ClusterSnapshot
from gpushare.workload_kinds import merge_kinds

Json = dict[str, Any]

_ARROW = " -> "
_POOLS = (
    "POOL:name,MODE:mode,NODES:nodes,CARDS:cards,ALLOCATED:allocated,PLACED:placed,"
    "PENDING:pending,LARGEST FREE:largest,STRANDED:stranded"
)
_PENDING = "NAMESPACE:namespace,POD:name,PODS:pods,POOL:pool,REASON:reason,WHY:message"
_PLACED = "NAMESPACE:namespace,POD:name,POOL:pool,NODE:node,GPU:gpus"


@dataclass(frozen=True, slots=True)
class SimulateInput:
    """A cluster, with pools and pods that a user gave."""

    cluster: Cluster
    seen: ObservedCluster
    observed: Observed
    given: GivenPools | None
    """None without manifests of pools."""
    new: WantedPods
    files: tuple[str, ...]

    @property
    def snapshot(self) -> ClusterSnapshot:
        """The cluster with the given pools."""
        snapshot = self.seen.snapshot
        return with_pools(snapshot, self.given.pools) if self.given is not None else snapshot

    def check_pool(self, name: str) -> None:
        """Raise `CommandError` for a pool that is neither in the cluster nor given."""
        known = [pool.name for pool in self.snapshot.pools]
        if name not in known:
            raise build_unknown("pool", name, known)

    def build_answer(
        self,
        document: Json,
        build_page: Callable[[Json, bool], Iterable[Line]],
        lacks: Lacks = OF_STACKS,
    ) -> Answer:
        """Build the answer with this document and its page."""
        return build_answer(document, build_page, self.cluster, lacks, self.seen.known, ROUTED_BY)


def ask(access: Access, pools: Sequence[Given], wanted: Wanted, *more: Kind) -> SimulateInput:
    """Read the cluster, with `more` kinds, and what a user gave. Raises `CommandError`, and what
    `errors_as_sentences` knows."""
    namespace = access.find_namespace(wanted.namespace) if wanted.objects else ""
    return build_input(access.read(*STATE_KINDS, *more), pools, wanted, namespace)


def build_input(
    cluster: Cluster,
    pools: Sequence[Given] = (),
    wanted: Wanted = NOTHING_WANTED,
    namespace: str = "",
) -> SimulateInput:
    """Build the input from a cluster that was read; raises what `ask` does."""
    given = find_pools(pools, cluster.pools or (), cluster.taken_at) if pools else None
    seen = observe_cluster(cluster) if pools else observe_pools(cluster)
    if given is not None:
        check_updates(given, {pool.name: pool for pool in seen.snapshot.pools})
    observed = Observed(
        seen.snapshot,
        read_shapes(cluster.pods),
        seen.unbound,
        tuple(map(parse_namespace, cluster.namespaces)),
        seen.known.setup,
        cluster.taken_at,
    )
    files = tuple(sorted({each.source for each in pools}))
    new = list_wanted(wanted, namespace, merge_kinds(seen.known.setup.workload_kinds))
    return SimulateInput(cluster, seen, observed, given, new, files)


def simulate_pods(access: Access, pools: Sequence[Given], wanted: Wanted) -> Answer:
    """Simulate what waits and what is `wanted`, on the pools as they are and as `pools` says.

    Raises `CommandError`, and what `errors_as_sentences` knows.
    """
    asked = ask(access, pools, wanted)
    given = {pool.name for pool in asked.given.pools} if asked.given is not None else set()
    changed = asked.snapshot if asked.given is not None else None
    answer = ask_what_if(asked.observed, asked.new.pods, changed, given)
    return asked.build_answer(describe_what_if(answer, asked), build_what_if)


def describe_what_if(answer: WhatIf, asked: SimulateInput) -> Json:
    """Describe the answer to a question."""
    result = answer.split or answer.today
    queue = [each for each in result.pods if each.pod.origin is not PodOrigin.DISPLACED]
    displaced = [each for each in result.pods if each.pod.origin is PodOrigin.DISPLACED]
    given = asked.given
    kept = given.kept if given is not None else {}
    present = {pool.name for pool in answer.before.pools}
    return {
        "pods": len(queue),
        "placed": _count_placed(queue),
        "fewest": result.fewest - _count_placed(displaced),
        "most": result.most - _count_placed(displaced),
        "placedToday": answer.today.placed if answer.split else None,
        "pools": list(_describe_pools(answer)),
        "pending": list(_describe_pending(result)),
        "placements": [describe_placement(each) for each in result.pods if each.node],
        "displaced": {
            "pods": len(displaced),
            "placed": _count_placed(displaced),
            "withoutController": [
                f"{each.pod.namespace}/{each.pod.name}"
                for each in displaced
                if not each.pod.has_controller
            ],
        },
        "unknownNodes": list(answer.unknown),
        "leftOut": [{"why": why, "pods": n} for why, n in sorted(answer.left_out.items())],
        "plan": [
            {"new": each.pool.name not in present, "fromFile": True}
            | describe_forecast(each, kept.get(each.pool.name, ()))
            for each in answer.forecasts
        ],
        "files": list(asked.files),
        "skipped": [*asked.new.skipped, *(given.skipped if given is not None else ())],
    }


def _count_placed(pods: Sequence[PodPlacement]) -> int:
    return sum(bool(each.node) for each in pods)


def _describe_pools(answer: WhatIf) -> Iterator[Json]:
    """Describe each pool with the figures to compare: without the queue, on the pools of today and
    on others."""
    results = {"before": answer.before, "today": answer.today, "split": answer.split}
    found: dict[str, Json] = {}
    for when, result in results.items():
        for pool in result.pools if result is not None else ():
            known = found.setdefault(pool.name, dict.fromkeys(results))
            known[when] = _describe_pool(pool)
    for name, figures in sorted(found.items()):
        yield {"name": name, **figures}


def _describe_pool(pool: PoolPlacement) -> Json:
    return {
        "schedule": str(pool.schedule),
        "nodes": pool.nodes,
        "placed": pool.placed,
        "pending": pool.pending,
        **describe_capacity(pool.capacity),
        "resources": [
            {"name": name, "requested": used, "allocatable": offered}
            for name, (used, offered) in pool.resources.items()
        ],
    }


def _describe_pending(result: PlacementResult) -> Iterator[Json]:
    """Describe the pods that stay pending; those that are alike and have one cause together."""
    groups: dict[tuple[object, ...], list[PodPlacement]] = {}
    for each in result.pods:
        if each.cause is not None:
            key = (each.pod.origin, each.pod.namespace, each.pool, each.cause)
            groups.setdefault(key, []).append(each)
    for (origin, namespace, pool, cause), alike in groups.items():
        assert isinstance(cause, PendingCause)
        yield {
            "origin": str(origin),
            "namespace": namespace,
            "name": alike[0].pod.name,
            "pods": len(alike),
            "pool": pool,
            "reason": str(cause.reason),
            "message": cause.message,
            "remedy": cause.remedy,
        }


def describe_placement(each: PodPlacement) -> Json:
    """Describe where a pod would run."""
    return {
        "origin": str(each.pod.origin),
        "namespace": each.pod.namespace,
        "name": each.pod.name,
        "pool": each.pool,
        "node": each.node,
        "cards": [{"index": index, "units": units} for index, units in each.cards.items()],
    }


def list_gpus(placements: Sequence[Json]) -> list[Json]:
    """List these placements with the indexes of the cards, for a table."""
    return [{**each, "gpus": [card["index"] for card in each["cards"]]} for each in placements]


def build_what_if(document: Json, wide: bool) -> Iterator[Line]:
    """Build the page of the answer."""
    yield (Styled(_summarize(document), "bold"),)
    has_split = document["placedToday"] is not None
    rows = [_build_pool_row(pool, has_split=has_split) for pool in document["pools"]]
    if table := build_table(_POOLS, rows):
        yield ()
        yield from table
        if any(_ARROW in cell for row in rows for cell in row.values()):
            told = "the same pods as it is today" if has_split else "without these pods"
            yield (Styled(f"  Before an arrow: {told}", "dim"),)
    yield from _build_notes(document)
    columns = f"{_PENDING},SMALLEST CHANGE:remedy" if wide else _PENDING
    pending = document["pending"]
    yield from build_section("Pods that stay pending", columns, pending, {"reason": "yellow"})
    if wide:
        yield from build_section("Pods that run", _PLACED, list_gpus(document["placements"]))
    if document["plan"]:
        yield ()
        yield (Styled("What the pools change", "bold"),)
        for pool in document["plan"]:
            yield from build_forecast(pool, wide=wide)
        if document["files"]:
            files = " ".join(f"-f {quote(file)}" for file in document["files"])
            yield (f"  to change them so, run: kubectl apply {files}",)
    yield ()
    told = "Simulated is how many pods run, not where. docs/simulate.md lists what is not modelled"
    yield (Styled(told, "dim"),)


def _summarize(document: Json) -> str:
    pods, placed, today = document["pods"], document["placed"], document["placedToday"]
    if not pods:
        return "No pod waits"
    told = f"{placed} of {pods} pod{'s' if pods > 1 else ''} would run"
    if document["fewest"] < document["most"]:
        told += f" ({document['fewest']} to {document['most']}, by which of equal nodes are taken)"
    return told if today is None else f"{told}, {today} as it is today"


def _build_notes(document: Json) -> Iterator[Line]:
    displaced = document["displaced"]
    if displaced["pods"]:
        told = f"{displaced['pods']} running pods must go first; {displaced['placed']} of them"
        yield (Styled(f"  {told} would run again", "yellow"),)
    if alone := displaced["withoutController"]:
        told = f"no controller creates them again: {', '.join(alone)}"
        yield (Styled(f"  {told}", "yellow"),)
    for each in document["leftOut"]:
        yield (f"  left out: {each['pods']} waiting pods, because {each['why']}",)
    if unknown := document["unknownNodes"]:
        told = f"unknown what these nodes will offer, counted as nothing: {', '.join(unknown)}"
        yield (Styled(f"  {told}", "yellow"),)
    if document["skipped"]:
        yield (f"  skipped: {', '.join(document['skipped'])}",)


def _build_pool_row(pool: Json, *, has_split: bool) -> Json:
    first, then = ("today", "split") if has_split else ("before", "today")
    cells = [_build_cells(pool[when]) if pool[when] else {} for when in (first, then)]
    if not has_split:
        # Without the queue none is placed, and none waits.
        cells[0] |= {key: cells[1][key] for key in ("placed", "pending")}
    row = {"name": pool["name"]}
    for key in cells[1] or cells[0]:
        before, after = (each.get(key, "-") for each in cells)
        row[key] = after if before == after else f"{before}{_ARROW}{after}"
    return row


def _build_cells(figures: Json) -> Json:
    held = [f"{figures['memoryAllocatedGiB']}/{figures['memoryTotalGiB']} GiB"]
    if not figures["memoryTotalGiB"]:
        amounts = figures["resources"]
        held = [f"{each['requested']}/{each['allocatable']} {each['name']}" for each in amounts]
    return {
        "mode": figures["schedule"],
        "nodes": str(figures["nodes"]),
        "cards": str(figures["gpus"]),
        "allocated": ", ".join(held) or "0",
        "placed": str(figures["placed"]),
        "pending": str(figures["pending"]),
        "largest": f"{figures['largestFreeBlockGiB']} GiB",
        "stranded": f"{figures['strandedMemoryGiB']} GiB",
    }
