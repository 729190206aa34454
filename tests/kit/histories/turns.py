"""Checks the order of nodes' changes, by their records and the oracle."""

from collections.abc import Mapping, Sequence, Set
from datetime import datetime, timedelta
from difflib import unified_diff
from hashlib import sha256

from gpushare import names
from gpushare.api.k8s.node import Node
from gpushare.api.pool import Pool
from gpushare.core.records.change_record import Change, ChangePhase, Failure
from gpushare.core.records.node_records import NodeRecords, parse_records
from gpushare.core.snapshot.actions import ApplyNode
from gpushare.core.snapshot.cluster import ClusterSnapshot
from tests.kit.histories.field_ownership import observe_node
from tests.kit.histories.pool_oracle import find_pool, read_owner
from tests.kit.histories.simulated_cluster import CONFIG_MODES, Cluster
from tests.kit.histories.simulated_operator import MAX_JOINS, Task


def read_change(cluster: Cluster, name: str) -> Change | None:
    """Read the change under way on a node, if there is one."""
    if name not in cluster.nodes:
        return None
    change = parse_records(observe_node(cluster.nodes[name])).change
    return change if change is not None and change.is_under_way else None


def read_phase(cluster: Cluster, name: str) -> str:
    """Read the phase of a node's change, named as in docs/nodes.md."""
    change = read_change(cluster, name)
    if change is None:
        return "Stable"
    return "Failed" if change.failure is not None else change.phase


def read_beginning(action: object, before: Change | None) -> Change | None:
    """Read the change that an action begins, other than the one `before`."""
    if not isinstance(action, ApplyNode) or names.ANNOTATION_CHANGE not in action.annotations:
        return None
    change = Change.model_validate_json(action.annotations[names.ANNOTATION_CHANGE])
    if change.phase is not ChangePhase.CORDONED or change.rolls_back is not None:
        return None
    if before is None or before.since == change.since:
        return change if before is None else None
    # Its deadline runs anew once another controller is done: that begins nothing.
    resumed = before.model_copy(update={"since": change.since, "maintenance": None})
    return None if before.maintenance is not None and resumed == change else change


def expect_turn(
    name: str, pool: Pool, members: set[str], busy: Mapping[str, Task], snapshot: ClusterSnapshot
) -> None:
    """Check that canaries change first, and that nothing begins after a failure."""
    others = {other: parse_records(snapshot.nodes[other]) for other in members if other != name}
    for other, records in others.items():
        failure, attempt = _find_failure(records), _name_attempt(pool, snapshot.nodes[other])
        is_halted = failure is not None and failure.attempt == attempt
        assert not is_halted, f"{name} begins, although {other} failed: {failure}"
    verified = {other for other, records in others.items() if _is_verified(records, pool)}
    changing = {other for other in others if _is_changing(other, busy, snapshot)}
    canary = pool.spec.rollout.canary
    # A node that succeeded counts only while it is ready, which its record does not say.
    is_early = len(verified) < canary <= len(changing)
    assert not is_early, f"{name} begins before {sorted(changing)} succeeded"


def expect_join(
    name: str,
    pool: Pool,
    members: set[str],
    busy: Mapping[str, Task],
    snapshot: ClusterSnapshot,
    blocked: Set[str],
) -> None:
    """Check the limit of joining nodes over all pools, and that none joins after three failures.
    The `blocked` nodes count only in their own pool."""
    every = {other: parse_records(node) for other, node in snapshot.nodes.items()}
    own = {other: every[other] for other in members}
    at_once = {other for other in every if other == name or _is_joining(other, busy, snapshot)}
    acting = at_once - blocked
    assert len(acting) <= MAX_JOINS, f"{name} begins, although {sorted(acting)} join"
    failures = {other: f for other, records in own.items() if (f := _find_failed_join(records))}
    cordoned = {*failures, *(at_once & members)}
    assert len(cordoned) <= MAX_JOINS, f"{name} begins, although {sorted(cordoned)} are cordoned"
    ends = [
        (failure.at, True)
        for other, failure in failures.items()
        if failure.attempt == _name_attempt(pool, snapshot.nodes[other])
    ]
    ends += [
        (records.applied.joined_at, False)
        for records in own.values()
        if records.applied is not None
        and records.applied.joined_at is not None
        and records.applied.pool == pool.name
    ]
    # Of two that ended in one moment, it may be either.
    ends.sort(key=lambda end: (end[0], not end[1]))
    last = [has_failed for _, has_failed in ends[-3:]]
    assert last != [True] * 3, f"{name} begins, although the last joins failed: {ends}"


def _is_joining(name: str, busy: Mapping[str, Task], snapshot: ClusterSnapshot) -> bool:
    """Tell whether a node is cordoned to join, or about to be; a failed one does not count."""
    change = parse_records(snapshot.nodes[name]).change
    if change is not None and change.is_under_way:
        return change.initializing and change.failure is None
    begun = read_beginning(busy[name].decision.plan.action, change) if name in busy else None
    return begun is not None and begun.initializing


def _find_failed_join(records: NodeRecords) -> Failure | None:
    change = records.change
    is_join = change is not None and change.is_under_way and change.initializing
    return change.failure if change is not None and is_join else None


def _name_attempt(pool: Pool, node: Node) -> str:
    """Name the attempt by the spec and users' annotations, which a current failure must have."""
    spec = f"{pool.name}/{pool.generation}"
    if pool.retry == node.retry == "":
        return spec
    retries = f"{pool.retry}\n{node.retry}"
    return f"{spec}/{sha256(retries.encode()).hexdigest()[:8]}"


def find_members(pool: Pool, snapshot: ClusterSnapshot) -> set[str]:
    """Find the nodes that the pool claims and has."""
    return {
        name for name, node in snapshot.nodes.items() if find_pool(node, snapshot.pools) is pool
    }


def find_leaving(pool: Pool, snapshot: ClusterSnapshot) -> set[str]:
    """Find the nodes that no pool claims and this one still has."""
    return {
        name
        for name, node in snapshot.nodes.items()
        if find_pool(node, snapshot.pools) is None and read_owner(node) == pool.name
    }


def _is_changing(name: str, busy: Mapping[str, Task], snapshot: ClusterSnapshot) -> bool:
    change = parse_records(snapshot.nodes[name]).change
    if change is not None and change.is_under_way:
        return not change.initializing
    begun = read_beginning(busy[name].decision.plan.action, change) if name in busy else None
    return begun is not None and not begun.initializing


def is_out(name: str, pool: Pool, busy: Mapping[str, Task], snapshot: ClusterSnapshot) -> bool:
    """Tell whether a node is out of service; a joining node never was in service."""
    if _is_changing(name, busy, snapshot):
        return True
    node = snapshot.nodes[name]
    change = parse_records(node).change
    initializes = change is not None and change.is_under_way
    return not initializes and not pool.deleting and (not node.ready or node.unschedulable)


def _is_verified(records: NodeRecords, pool: Pool) -> bool:
    applied, nvidia = records.applied, pool.spec.nvidia
    wanted = pool.spec.schedule if nvidia is None else CONFIG_MODES[nvidia.config]
    return (
        records.change is None
        and applied is not None
        and applied.from_mode is not None
        and applied.schedule == wanted
    )


def _find_failure(records: NodeRecords) -> Failure | None:
    """Find the last failure of a node, except of joining, which halts no pool."""
    change, applied = records.change, records.applied
    if change is not None and change.is_under_way:
        return None if change.initializing else change.failure or change.rolls_back
    return applied.failure if applied is not None else None


def expect_rate(
    node: str, restarts: list[datetime], now: datetime, hands: Sequence[datetime]
) -> None:
    """Check that a plugin has at most six restarts an hour, whatever is written to pools and node
    labels, and one more for each manual labelling in the middle of a change."""
    restarts.append(now)
    hour_ago = now - timedelta(hours=1)
    recent, excused = (sum(each > hour_ago for each in times) for times in (restarts, hands))
    assert recent <= 6 + excused, f"the plugin of {node} is replaced {recent} times in an hour"


def expect_equal(first: bytes, second: bytes) -> None:
    lines, others = first.decode().splitlines(), second.decode().splitlines()
    assert first == second, "\n".join(unified_diff(lines, others, lineterm="", n=30))
