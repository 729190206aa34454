"""Fights over labels: what a plugin may have read meanwhile is never taken for right."""

from datetime import timedelta
from typing import Any

from gpushare import names
from gpushare.api.node import Node
from gpushare.api.pool import Pool
from gpushare.core.actions import ApplyNode, NodeState
from gpushare.core.blockers import Blocker
from gpushare.core.records import Applied, Change, Drift, NodeRecords, Repair, Rival, Step
from gpushare.core.world import World
from gpushare.names import Reason
from tests.kit.values.node_plans import (
    CGPU,
    INSTALLER,
    OURS,
    SHARE,
    applied,
    plan_of,
    plan_once_noted,
)
from tests.kit.values.objects import MEMORY, NOW, PRO_INSTALLED, a_node, a_plugin_pod, a_pool
from tests.unit.core.planner_output import plan_world

FOUND: dict[str, str | None] = {names.LABEL_SCHEDULE: None, names.LABEL_POOL: None}
NEW_PLUGIN = a_plugin_pod("plugin-2")
FORCE = a_pool(conflicts="Force")


def _node(labels: dict[str, str], records: NodeRecords, *lost: str, **more: Any) -> Node:
    """A node with our records; the keys `lost` are a rival's."""
    annotations = records.annotations()
    ours = (names.NODE_LABELS & labels.keys()) - {*lost}
    managers = {key: "sync" for key in lost if key in labels}
    owned = frozenset(ours | annotations.keys())
    node: dict[str, Any] = {"allocatable": {MEMORY: 15}, **more}
    return a_node(labels=labels, records=records, owned=owned, managers=managers, **node)


def _rival(key: str = names.LABEL_SCHEDULE, ours: str = "cgpu") -> Drift:
    rival = Rival(key=key, manager="sync", ours=ours, theirs="x", since=NOW)
    return Drift(claim="training/1", rivals=(rival,))


def _repairs(key: str, count: int = 3) -> Drift:
    at = [NOW - timedelta(seconds=30 * index) for index in range(count)]
    return Drift(
        claim="training/1",
        repairs=tuple(Repair(key=key, manager="sync", theirs="x", at=moment) for moment in at),
        writes=tuple(at),
    )


def _restarting(drift: Drift | None = None) -> NodeRecords:
    change = Change.model_validate(
        {
            "pool": "training", "edition": "Professional", "from": "share", "to": "cgpu",
            "step": Step.RESTARTING, "since": NOW, "labelledAt": NOW, "restart": True,
            "plugins": [{"name": "p", "uid": "plugin-1"}],
        }
    )  # fmt: skip
    return applied("share").model_copy(update={"found": FOUND, "drift": drift, "change": change})


def _read(action: object) -> NodeRecords:
    assert isinstance(action, ApplyNode)
    change = action.annotations.get(names.ANNOTATION_CHANGE)
    last = action.annotations.get(names.ANNOTATION_APPLIED)
    return NodeRecords(
        change=Change.model_validate_json(change) if change else None,
        applied=Applied.model_validate_json(last) if last else None,
    )


def test_a_label_that_was_taken_away_and_put_back_in_a_change_restarts_the_plugin_again() -> None:
    node = _node({**CGPU, **OURS}, _restarting(_rival()), names.LABEL_SCHEDULE, unschedulable=True)
    plan = plan_of(node, a_pool(), NEW_PLUGIN, INSTALLER)
    change = _read(plan.action).change
    assert change is not None
    assert (change.step, change.restart, change.plugins) == (Step.LABELLED, True, ())


def test_a_plugin_that_started_under_a_rivals_value_is_restarted_after_the_fight() -> None:
    records = applied().model_copy(update={"found": FOUND, "drift": _repairs(names.LABEL_SCHEDULE)})
    node = _node({**SHARE, **OURS}, records, names.LABEL_SCHEDULE)
    during = plan_of(node, FORCE, NEW_PLUGIN, INSTALLER)
    assert during.reason is Reason.LABEL_CONFLICT
    written = _read(during.action).applied
    assert written is not None
    assert written.mode_unknown
    calm = records.model_copy(update={"applied": written})
    node, then = _node({**CGPU, **OURS}, calm), NOW + timedelta(hours=1)
    later = plan_once_noted(node, FORCE, NEW_PLUGIN, INSTALLER, now=then)
    assert later.reason is Reason.CORDONED


def test_a_fight_over_the_pool_label_does_not_stop_a_change() -> None:
    drift = _rival(names.LABEL_POOL, "training")
    labels = {**CGPU, names.LABEL_POOL: "theirs"}
    node = _node(labels, _restarting(drift), names.LABEL_POOL, unschedulable=True)
    plan = plan_of(node, a_pool(), NEW_PLUGIN, INSTALLER, now=NOW + timedelta(seconds=20))
    assert isinstance(plan.action, ApplyNode)
    assert names.LABEL_POOL not in plan.action.labels
    assert not plan.action.cordon


def test_while_force_fights_for_placement_it_says_so_all_the_time() -> None:
    pool = a_pool("training", "share", placement="spread", conflicts="Force")
    found = {**FOUND, names.LABEL_PLACEMENT: None}
    drift = _repairs(names.LABEL_PLACEMENT)
    records = applied("share").model_copy(update={"found": found, "drift": drift})
    plugin = a_plugin_pod()
    placements = ("binpack", "spread")
    seen = [
        plan_of(
            _node(
                {**SHARE, **OURS, names.LABEL_PLACEMENT: value},
                records,
                *([names.LABEL_PLACEMENT] if value == "binpack" else []),
            ),
            pool,
            plugin,
            now=NOW + timedelta(seconds=1),
        )
        for value in placements
    ]
    assert [(p.state, p.reason, bool(p.rivals)) for p in seen] == [
        (NodeState.BLOCKED, Reason.LABEL_CONFLICT, True)
    ] * 2
    assert all(plan.wake_after_seconds for plan in seen)


def test_a_rival_on_a_node_that_is_not_verified_yet_is_counted_too() -> None:
    records = NodeRecords(found=FOUND, drift=_repairs(names.LABEL_POOL, 2))
    labels = {**CGPU, names.LABEL_POOL: "theirs"}
    plan = plan_of(_node(labels, records, names.LABEL_POOL, allocatable={}), a_pool())
    assert [rival.key for rival in plan.rivals] == [names.LABEL_POOL]


def _plan(pools: tuple[Pool, ...], node: Node) -> Any:
    return plan_world(World(pools=pools, nodes={"gpu-1": node}, plugin_daemonsets=PRO_INSTALLED))


def test_a_pool_that_turned_to_observing_keeps_its_nodes() -> None:
    node = _node({**CGPU, **OURS}, applied().model_copy(update={"found": FOUND}))
    observing = a_pool(reconcile="Observe", priority=200)
    plan = _plan((observing, a_pool("fallback", "default", priority=1)), node)
    assert plan.decided["gpu-1"].action is None
    assert plan.members["fallback"][0].reason is Reason.OWNED_BY_OTHER_POOL


def test_a_node_that_is_refused_takes_nobodys_turn() -> None:
    records = applied("share").model_copy(update={"found": FOUND})
    nodes = {
        name: Node(**{**_fields(_node({**SHARE, **OURS}, records)), "name": name})
        for name in ("a", "b")
    }
    world = World(
        pools=(a_pool(),),
        nodes=nodes,
        plugin_daemonsets=PRO_INSTALLED,
        refusals={"a": Blocker(Reason.WRITE_REFUSED, "denied")},
    )
    plan = plan_world(world)
    assert [node for node, decided in plan.decided.items() if decided.takes_slot] == ["b"]


def _fields(node: Node) -> dict[str, Any]:
    return {name: getattr(node, name) for name in Node.__slots__}
