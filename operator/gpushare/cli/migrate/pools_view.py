"""Builds the answer of `gpushare migrate pools`: a plan, and the pools for Professional."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from shlex import quote

from gpushare import names
from gpushare.analysis.adoption.existing_labels import Carried
from gpushare.analysis.adoption.grouping import build_manifest, wrap_spec
from gpushare.analysis.adoption.manual_steps import list_steps
from gpushare.analysis.adoption.notes import list_names
from gpushare.analysis.adoption.upgrade import (
    Upgrade,
    UpgradedPools,
    plan_nodes,
    plan_upgrade,
    selects_old_labels,
)
from gpushare.api.k8s.pod import Pod
from gpushare.api.manifest import parse_manifest
from gpushare.api.pool import Schedule
from gpushare.api.pruned.cluster import Cluster
from gpushare.cli.adopt.view import build_notes, describe_note
from gpushare.cli.cluster.access import Access
from gpushare.cli.cluster.snapshot import PLANNED, observe_cluster, with_pools
from gpushare.cli.output.answer import Answer, Line, Styled, lay_out
from gpushare.cli.output.data import Json, render_manifests
from gpushare.core.snapshot.cluster import ClusterSnapshot

NOTHING = "Nothing to migrate: no node carries a label of another edition"


def migrate_pools(access: Access, *, node_pool_label: str, unisolated: Schedule) -> Answer:
    """Plan the pools of the Professional edition, and the upgrade of each node.

    `unisolated`: the mode of Basic nodes with isolation off.
    """
    cluster = access.read(*PLANNED)
    seen = observe_cluster(cluster)
    upgraded = plan_upgrade(seen.snapshot, node_pool_label, unisolated)
    manifests = [*map(build_manifest, upgraded.adopted), *_follow(cluster, upgraded)]
    manifests.sort(key=lambda manifest: str(manifest["metadata"]["name"]))
    new = (parse_manifest(manifest, cluster.taken_at) for manifest in manifests)
    pools = with_pools(ClusterSnapshot(), new).pools
    upgrades = plan_nodes(seen.snapshot, upgraded, pools, cluster.taken_at)
    waiting = sum(selects_old_labels(pod) for pod in seen.unbound)
    replaced = [pool for pool in seen.snapshot.pools if pool.name in upgraded.followed]
    chosen = "" if unisolated is Schedule.CGPU else f" --unisolated {unisolated}"
    is_usual = node_pool_label == names.LABEL_NODE_POOL
    by = "" if is_usual else f" --node-pool-label {quote(node_pool_label)}"
    steps = list_steps(upgrades, replaced, waiting=waiting, chosen=chosen, by=by)
    document: Json = {
        "pools": {"apiVersion": "v1", "kind": "List", "items": manifests},
        "nodes": [_describe_node(upgrade) for upgrade in upgrades],
        "byHand": [{"what": s.what, "commands": list(s.commands)} for s in steps],
        "notes": [describe_note(note) for note in upgraded.notes],
    }
    head = [*_tell_steps(document["byHand"]), *map(str, upgraded.notes)]
    return Answer(
        document,
        _build_page,
        manifests=render_manifests(head, manifests, _build_comments(document["nodes"])),
        notes=tuple(map(str, upgraded.notes)),
    )


def _follow(cluster: Cluster, upgraded: UpgradedPools) -> Iterator[Json]:
    """Yield the existing pools with the Professional edition; all else in them stays."""
    for raw in cluster.pools or ():
        to = upgraded.followed.get(raw["metadata"]["name"])
        if to is not None:
            spec = {**raw["spec"], "edition": str(to.edition), "schedule": str(to.schedule)}
            yield wrap_spec(raw["metadata"]["name"], spec)


def _describe_node(upgrade: Upgrade) -> Json:
    return {
        "name": upgrade.node,
        "pool": upgrade.pool,
        "from": _describe_carried(upgrade.from_mode),
        "to": _describe_carried(upgrade.to),
        "removesLabels": list(upgrade.remove),
        "restartsPlugin": upgrade.restarts,
        "beginsToIsolate": upgrade.begins_to_isolate,
        "reboots": upgrade.reboots,
        "podsToFinish": _name_pods(upgrade.pods),
        "podsThatSelectOldLabels": _name_pods(upgrade.selecting),
    }


def _describe_carried(carried: Carried) -> Json:
    return {"edition": str(carried.edition), "schedule": str(carried.schedule)}


def _name_pods(pods: Sequence[Pod]) -> list[str]:
    return sorted(f"{pod.namespace}/{pod.name}" for pod in pods)


def _build_page(document: Json, wide: bool) -> Iterator[Line]:
    if document["nodes"]:
        header = ["NODE", "POOL", "FROM", "TO", "PODS", "WHAT IT GOES THROUGH"]
        rows = [_build_row(node, wide=wide) for node in document["nodes"]]
        yield from lay_out([*header, "POD NAMES"] if wide else header, rows)
    for line in _tell_steps(document["byHand"]):
        if not line.startswith(" ") and document["byHand"]:
            yield ()
        yield (line,)
    yield from build_notes(document["notes"])


def _tell_steps(steps: Sequence[Json]) -> Iterator[str]:
    """Yield each step, and below it its commands."""
    if not steps:
        yield NOTHING
    for number, step in enumerate(steps, start=1):
        yield f"{number}. {step['what']}"
        yield from (f"   {command}" for command in step["commands"])


def _build_comments(nodes: Sequence[Json]) -> dict[str, list[str]]:
    """Build the comments above each pool: its nodes, grouped by what the upgrade does to them."""
    alike: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
    for node in nodes:
        told = f"{_name_mode(node['from'])}: {_tell_cost(node)}"
        alike[node["pool"], told].append(node["name"])
    comments: defaultdict[str, list[str]] = defaultdict(list)
    for (pool, told), named in alike.items():
        comments[pool].append(f"{list_names(tuple(named))}: {told}")
    return comments


def _build_row(node: Json, *, wide: bool) -> Line:
    row = (
        node["name"],
        node["pool"],
        _name_mode(node["from"]),
        _name_mode(node["to"]),
        str(len(node["podsToFinish"])),
        Styled(_tell_cost(node), "red" if node["reboots"] else ""),
    )
    return (*row, ", ".join(node["podsToFinish"]) or "-") if wide else row


def _name_mode(mode: Json) -> str:
    return f"{mode['edition']} {mode['schedule']}"


def _tell_cost(node: Json) -> str:
    told = ["plugin replaced" if node["restartsPlugin"] else "labels only"]
    if node["beginsToIsolate"]:
        told.append("isolation begins for later pods")
    if node["reboots"]:
        told.append("kernel module removed, node reboots")
    return ", ".join(told)
