"""Adoption of random labelled clusters: each node is in a pool or named, and each plan is right.

What must happen to a node is written down a second time here, from the labels alone.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from random import Random

from hypothesis import event, given
from hypothesis import strategies as st

from gpushare.analysis.adoption.adopt import Description, prove
from gpushare.analysis.adoption.grouping import AdoptedPool
from gpushare.api.k8s.node import Node
from gpushare.core.ownership.claims import is_member
from gpushare.core.planner.planner import Planner
from gpushare.core.snapshot.actions import ApplyNode
from gpushare.core.snapshot.node import Timing
from tests.kit.histories.gpu_cluster import (
    MODE_LABEL,
    PLACEMENT_LABEL,
    POOL_LABEL,
    VERIFIED_LABEL,
)
from tests.kit.histories.labelled_cluster import CONTROL_PLANE, LabelledNode
from tests.kit.values.found_clusters import READ_AT
from tests.unit.adoption.test_adopt import EVERY_MODE, adopt, describe, observe

_NODE_POOLS = ("np1", "np2", "NP_3.x", "")
_ODDITIES: Sequence[Mapping[str, str | None]] = (
    *({},) * 4,
    {MODE_LABEL: "egpu"},
    {MODE_LABEL: "mig"},
    {MODE_LABEL: "share", "cgpu": "true"},
    {"gpushare": "true"},
    {"gpushare": "false"},
    {"cgpu": "yes"},
    {"cgpu.disable.isolation": None},
    {"cgpu.disable.isolation": "maybe"},
    {MODE_LABEL: None, "cgpu": None, "gpushare": None},
    {PLACEMENT_LABEL: "binpack"},
    {PLACEMENT_LABEL: "spread"},
    {PLACEMENT_LABEL: "sideways"},
    {POOL_LABEL: "retained"},
    {POOL_LABEL: "retained.pool"},
    CONTROL_PLANE,
)


@st.composite
def labelled_nodes(draw: st.DrawFn) -> tuple[LabelledNode, ...]:
    """Up to nine nodes, most of which are like others of their node pool."""
    usual = {node_pool: draw(st.sampled_from(EVERY_MODE)) for node_pool in _NODE_POOLS}
    nodes = []
    for index in range(draw(st.integers(0, 9))):
        node_pool = draw(st.sampled_from(_NODE_POOLS))
        is_usual = draw(st.integers(0, 3)) > 0
        edition, schedule = usual[node_pool] if is_usual else draw(st.sampled_from(EVERY_MODE))
        nodes.append(
            LabelledNode(
                name=f"n{index}",
                edition=edition,
                schedule=schedule,
                node_pool=node_pool,
                labels=draw(st.sampled_from(_ODDITIES)),
                extra_plugins=draw(
                    st.sampled_from(
                        ((), (), (), ("cgpu-installer",), ("ack-nvidia-device-plugin",))
                    )
                ),
                offers=draw(st.sampled_from(({}, {}, {}, {}, {"nvidia.com/mig-1g.5gb": "7"}))),
                has_plugins=draw(st.integers(0, 5)) > 0,
            )
        )
    return tuple(nodes)


def find_claimants(described: Description, node: Node) -> list[str]:
    return [pool.name for pool in described.pools if is_member(pool.membership, node)]


def expect_change(node: LabelledNode, pool: AdoptedPool) -> bool:
    """Whether anything but a pool's label is to happen to a node of the pool."""
    labels = node.all_labels
    if labels.get(POOL_LABEL, pool.name) != pool.name:
        return True
    if labels.get(MODE_LABEL) in (None, "default") and labels.get("cgpu") == "true":
        return "cgpu.disable.isolation" not in labels
    # The cGPU kernel module outlives its mode.
    return labels.get(MODE_LABEL) == "share" and "cgpu-installer" in node.plugins


@given(labelled_nodes())
def test_each_labelled_node_is_in_one_pool_or_named_as_left_out(
    nodes: tuple[LabelledNode, ...],
) -> None:
    described = describe(*nodes)
    snapshot = observe(*nodes)
    left_out = [name for each in described.notes if each.code.leaves_out for name in each.names]
    assert len(left_out) == len(set(left_out))
    for name, node in snapshot.nodes.items():
        claimants = find_claimants(described, node)
        members = [pool.name for pool in described.pools if name in pool.nodes]
        assert claimants == members
        assert len(claimants) == (name not in left_out)
    event(f"{len(described.pools)} pools")


@given(labelled_nodes())
def test_a_plan_is_empty_but_for_what_labels_can_t_say(nodes: tuple[LabelledNode, ...]) -> None:
    snapshot, described = observe(*nodes), describe(*nodes)
    proof = prove(adopt(snapshot, described), described.pools, READ_AT)
    pools = {name: pool for pool in described.pools for name in pool.nodes}
    expected = {n.name for n in nodes if n.name in pools and expect_change(n, pools[n.name])}
    assert {change.node for change in proof.changes} == expected
    assert [each.node for each in proof.simulated] == sorted(pools)
    event("empty" if not proof.changes else "not empty")


@given(labelled_nodes())
def test_what_is_called_empty_the_controller_only_labels(nodes: tuple[LabelledNode, ...]) -> None:
    snapshot, described = observe(*nodes), describe(*nodes)
    adopted = adopt(snapshot, described)
    changes = {each.node for each in prove(adopted, described.pools, READ_AT).changes}
    for decision in Planner(Timing()).update(adopted, None, READ_AT).decisions:
        plan, action = decision.plan, decision.plan.action
        if plan.node in changes:
            continue
        assert isinstance(action, ApplyNode)
        assert not action.cordon
        before = snapshot.nodes[plan.node].labels
        written = {key for key, value in action.labels.items() if before.get(key) != value}
        assert written <= {POOL_LABEL, VERIFIED_LABEL}


@given(labelled_nodes(), st.randoms(use_true_random=False))
def test_pools_are_the_same_whatever_the_order_of_nodes(
    nodes: tuple[LabelledNode, ...], random: Random
) -> None:
    shuffled = list(nodes)
    random.shuffle(shuffled)
    assert describe(*nodes) == describe(*shuffled)


@given(labelled_nodes())
def test_a_node_that_comes_later_is_in_the_pool_of_its_like_or_in_none(
    nodes: tuple[LabelledNode, ...],
) -> None:
    described = describe(*nodes)
    for of in nodes:
        new = replace(of, name="new", labels={**of.labels, POOL_LABEL: None})
        claimants = find_claimants(described, observe(new).nodes["new"])
        like = [pool for pool in described.pools if of.name in pool.nodes]
        if like and of.name not in like[0].membership.named:
            assert claimants == [like[0].name]
        elif like:
            assert claimants == []
        else:
            assert len(claimants) <= 1
