"""Random pools as admission views them, without their free memory, and labels of namespaces."""

from collections.abc import Mapping
from random import Random
from typing import Any

from gpushare.api.nvidia_plugin import NvidiaConfig, SharingStrategy
from gpushare.api.pool import Edition, ModeName, Schedule
from gpushare.api.selector import LabelSelector
from gpushare.core.admission.pool_view import PoolView
from gpushare.names import Reason

Json = dict[str, Any]
NAMES = ("alpha", "beta", "gamma", "delta", "a.b-c", "x" * 63, "1", "zeta", "eta")
ZONE, CARD, COUNT, TEAM, ODD = "zone", "gpu/card", "count", "team", "example.com/odd_.Key"
KEYS = (ZONE, CARD, COUNT, TEAM, ODD)
"""Of nodes: a pool knows some of them, publishes some, and says nothing of others."""
VALUES: Mapping[str, tuple[str, ...]] = {
    ZONE: ("a", "b"),
    CARD: ("t4", "A.1-0"),
    COUNT: ("1", "8", "08", "999999999999999999", "many"),
    TEAM: ("ml", ""),
    ODD: ("true", "1"),
}
TOLERATIONS: tuple[Json, ...] = (
    {"key": "gpu", "operator": "Exists", "effect": "NoSchedule"},
    {"key": "gpu", "operator": "Equal", "value": "yes", "effect": "NoSchedule"},
    {"key": "gpu", "value": "yes"},
    {"operator": "Exists"},
    {"key": "spot", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300},
    {"key": "spot", "operator": "Exists", "effect": "NoExecute"},
)
NAMESPACES: tuple[Mapping[str, str], ...] = (
    *({}, {}, {}),
    {"team": "ml"},
    {"team": "web", "tier": "1"},
    {"gpushare.io/default-pool": "beta"},
    {"gpushare.io/default-pool": "alpha", "team": "ml"},
    {"gpushare.io/default-pool": "nobody", "team": ""},
    {"gpushare.io/default-pool": "x" * 63, "gpushare.io/inject": ""},
    {"gpushare.io/inject": "disabled"},
    {"gpushare.io/on-no-pool": "deny", "gpushare.io/inject": "enabled"},
)
POD_LABELS: Mapping[str, tuple[str, ...]] = {
    "team": ("ml", "web", ""),
    "tier": ("1", "2"),
    "app": ("train",),
}
_MODES: tuple[tuple[Edition, ModeName], ...] = (
    *[(Edition.PROFESSIONAL, Schedule(each)) for each in ("share", "cgpu") * 3],
    *[(Edition.PROFESSIONAL, Schedule(each)) for each in ("mps", "core_mem", "core_mem")],
    *[(Edition.PROFESSIONAL, Schedule(each)) for each in ("default", "topology", "disabled")],
    *[(Edition.BASIC, Schedule(each)) for each in ("default", "share", "cgpu")],
    *[(Edition.OPEN_SOURCE, Schedule(each)) for each in ("default", "share")],
    (Edition.NVIDIA, NvidiaConfig("timed")),
    (Edition.NVIDIA, NvidiaConfig("mps.4", SharingStrategy.MPS, 4, renamed=True)),
)


def draw_pools(chance: Random) -> list[PoolView]:
    """Draw some pools with different names."""
    return [
        _draw_pool(chance, name)
        for name in chance.sample(NAMES, chance.choice((0, 1, 1, 2, 2, 3, 4, 6, 8, 9)))
    ]


def _draw_pool(chance: Random, name: str) -> PoolView:
    edition, schedule = chance.choice(_MODES)
    known = _draw_known(chance)
    keys = tuple(sorted(chance.sample(KEYS, chance.randint(0, 3))))
    combinations = _draw_combinations(chance, keys, known)
    closed = chance.choice((Reason.POOL_DELETING, Reason.POOL_OBSERVES))
    return PoolView(
        name,
        schedule,
        priority=chance.choice((100, 100, 100, 50, 200)),
        edition=edition,
        closed=closed if chance.random() < 0.05 else None,
        on_request=chance.random() < 0.15,
        namespace_selector=_draw_selector(chance) if chance.random() < 0.15 else None,
        pod_selector=_draw_selector(chance) if chance.random() < 0.15 else None,
        selects_mode=chance.random() < 0.25,
        tolerations=tuple(chance.sample(TOLERATIONS, chance.choice((0, 0, 1, 2)))),
        node_labels=known,
        published_keys=keys,
        combinations=combinations,
        is_open=not combinations or chance.random() < 0.5,
        nodes=chance.choice((None, 0, 1, 3)),
    )


def _draw_known(chance: Random) -> dict[str, tuple[str | None, ...]]:
    return {
        key: tuple(chance.sample(VALUES[key], chance.choice((1, 1, 2))))
        for key in chance.sample(KEYS, chance.choice((0, 1, 1, 2)))
    }


def _draw_combinations(
    chance: Random, keys: tuple[str, ...], known: Mapping[str, tuple[str | None, ...]]
) -> tuple[Mapping[str, str], ...]:
    """Draw nodes' values of published keys, which are among those that the pool knows."""
    if not keys:
        return ()
    drawn: list[Mapping[str, str]] = []
    for _ in range(chance.choice((0, 1, 1, 2, 3, 5))):
        values = {key: chance.choice(known.get(key) or (None, None, *VALUES[key])) for key in keys}
        each = {key: value for key, value in values.items() if value is not None}
        if each not in drawn:
            drawn.append(each)
    return tuple(drawn)


def _draw_selector(chance: Random) -> LabelSelector:
    expressions: list[Json] = []
    for _ in range(chance.choice((0, 1, 2))):
        key = chance.choice([*POD_LABELS])
        operator = chance.choice(("In", "NotIn", "Exists", "DoesNotExist"))
        listed = chance.sample(POD_LABELS[key], 1) if operator in ("In", "NotIn") else []
        expressions.append({"key": key, "operator": operator, "values": listed})
    key = chance.choice([*POD_LABELS])
    labels = {key: chance.choice(POD_LABELS[key])} if not expressions else {}
    return LabelSelector.model_validate({"matchLabels": labels, "matchExpressions": expressions})


ODD_MODES = ("Professional/cgpu", "x", "")


def draw_odd_spec(chance: Random) -> Json:
    """Draw a table that the kind's schema allows, and the controller would never write."""
    pools = [_draw_odd_pool(chance) for _ in range(chance.choice((0, 1, 2, 5)))]
    modes = {name: _draw_odd_mode(chance) for name in chance.sample(ODD_MODES, 2)}
    return {"modes": modes, "pools": pools, "count": 0, "omitted": chance.choice((0, 9))}


def _draw_odd_mode(chance: Random) -> Json:
    return {
        "serves": chance.choice(([], [""], ["aliyun.com/gpu-mem"] * 2, ["+", "x"])),
        "isolates": chance.random() < 0.5,
        "isolatesByKernel": chance.random() < 0.5,
        "labels": chance.choice(({}, {"gpushare.io/pool": ""}, {"zone": "a", "a-b.c/d_E": "x"})),
    }


def _draw_odd_pool(chance: Random) -> Json:
    pool: Json = {
        "name": chance.choice(NAMES),
        "mode": chance.choice(ODD_MODES),
        "nodes": [_draw_odd_labels(chance) for _ in range(chance.choice((0, 1, 3)))],
    }
    for field in ("namespaceSelector", "podSelector"):
        if chance.random() < 0.5:
            pool[field] = [_draw_odd_requirement(chance) for _ in range(chance.choice((0, 1, 2)))]
    for field in ("selectsMode", "onRequest", "isEmpty"):
        if chance.random() < 0.5:
            pool[field] = chance.random() < 0.5
    if chance.random() < 0.5:
        pool["tolerations"] = chance.choice(([], [{"operator": "Exists"}] * 2))
    if chance.random() < 0.5:
        pool["labels"] = _draw_odd_labels(chance)
    return pool


def _draw_odd_labels(chance: Random) -> Json:
    return {
        key: chance.choices(VALUES[key], k=chance.choice((0, 1, 2)))
        for key in chance.sample(KEYS, chance.choice((0, 1, 3)))
    }


def _draw_odd_requirement(chance: Random) -> Json:
    operator = chance.choice(("In", "NotIn", "Exists", "DoesNotExist"))
    return {"key": "team", "operator": operator, "values": chance.choice(([], ["ml"], ["", "a"]))}
