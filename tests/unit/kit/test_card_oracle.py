"""The oracle that judges admission, by cases that a person can judge."""

from dataclasses import replace
from typing import Any

import pytest

from tests.kit.histories.card_oracle import End, find_nodes, judge
from tests.kit.histories.gpu_cluster import (
    MODE_LABEL,
    POOL_LABEL,
    Applicant,
    Application,
    GpuNode,
    GpuPool,
    Holder,
)

_HALF_FULL = GpuNode("n1", cards=2, card_memory=15, holders=(Holder("h", {0: 8, 1: 8}),))
_ASKS_8 = Applicant(asks=(8,))


def _pool(name: str = "p", *nodes: GpuNode, **more: Any) -> GpuPool:
    return GpuPool(name, nodes or (_HALF_FULL,), **more)


def _judge(pod: Applicant, *pools: GpuPool, **namespace: str) -> tuple[End, list[str]]:
    verdict = judge(Application(pod, pools, namespace))
    return verdict.end, [pool.name for pool in verdict.eligible]


def _takes(pod: Applicant, pool: GpuPool, **selects: str) -> bool:
    return bool(find_nodes(pod, [pool], {POOL_LABEL: pool.name, **selects}))


def test_a_pod_needs_its_memory_on_one_card() -> None:
    assert _takes(Applicant(asks=(7,)), _pool())
    assert not _takes(_ASKS_8, _pool())


@pytest.mark.parametrize(
    "node",
    [
        replace(_HALF_FULL, is_cordoned=True),
        replace(_HALF_FULL, is_ready=False),
        replace(_HALF_FULL, has_plugin=False),
    ],
    ids=["cordoned", "not ready", "without a plugin"],
)
def test_a_node_out_of_service_takes_nothing(node: GpuNode) -> None:
    assert not _takes(Applicant(asks=(1,)), _pool("p", node))


def test_a_taint_is_kept_out_of_by_those_who_do_not_tolerate_it() -> None:
    tainted = _pool(is_tainted=True)
    toleration = {"key": "example.com/gpu", "operator": "Exists"}
    assert not _takes(Applicant(asks=(1,)), tainted)
    assert find_nodes(Applicant(asks=(1,)), [tainted], {POOL_LABEL: "p"}, [toleration])


def test_a_node_without_the_selected_labels_takes_nothing() -> None:
    pod = Applicant(asks=(1,))
    assert _takes(pod, _pool(), **{MODE_LABEL: "cgpu"})
    assert not _takes(pod, _pool(), **{MODE_LABEL: "share"})
    assert not _takes(replace(pod, terms=(((POOL_LABEL, "NotIn", ("p",)),),)), _pool())
    assert not _takes(pod, _pool(reconcile="Observe"))


def test_isolation_that_nobody_asked_for_is_preferred_and_not_insisted_on() -> None:
    shared, isolated = _pool("shared", schedule="share"), _pool("isolated")
    disabling = Applicant(environment={"CGPU_DISABLE": "true"})
    assert _judge(Applicant(), shared, isolated) == (End.ROUTED, ["isolated"])
    assert _judge(disabling, shared, isolated) == (End.ROUTED, ["shared"])
    assert _judge(Applicant(), shared) == (End.ROUTED, ["shared"])


def test_required_isolation_is_insisted_on() -> None:
    requiring = Applicant(isolation="required")
    assert _judge(requiring, _pool("shared", schedule="share"), _pool("m", schedule="mps")) == (
        End.REFUSED,
        [],
    )
    assert _judge(requiring, _pool("shared", schedule="share"), _pool())[1] == ["p"]


def test_who_asks_for_a_pool_gets_that_one_or_none() -> None:
    on_request = _pool("a", selection="OnRequest")
    assert _judge(Applicant(), on_request) == (End.UNTAKEN, [])
    assert _judge(Applicant(wants_pool="a"), on_request, _pool()) == (End.ROUTED, ["a"])
    assert _judge(Applicant(wants_pool="b"), on_request, _pool()) == (End.UNTAKEN, [])


def test_who_chose_by_himself_is_left_alone_and_who_only_avoids_is_not() -> None:
    a, b = _pool("a"), _pool("b")
    assert _judge(Applicant(selects={POOL_LABEL: "a"}), a, b)[0] is End.LEFT
    avoiding = Applicant(terms=(((POOL_LABEL, "NotIn", ("a",)),),))
    assert _judge(avoiding, a, b) == (End.ROUTED, ["b"])
