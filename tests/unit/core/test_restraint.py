"""What a pool that does not act says it would do."""

from gpushare import names
from gpushare.core.actions import NodePlan, NodeState
from gpushare.core.observed import Observed
from gpushare.core.records import parse_records
from gpushare.core.restraint import hold_back
from gpushare.core.world import Judged
from tests.kit.values.node_plans import OURS, SHARE, applied, plan_of
from tests.kit.values.objects import a_node, a_pool


def test_the_labels_that_would_come_and_those_that_would_go_are_named() -> None:
    labels = {**SHARE, **OURS, names.LABEL_PLACEMENT: "binpack"}
    node = a_node(labels=labels, records=applied("share"))
    pool = a_pool(schedule="cgpu", reconcile="Observe")
    plan: NodePlan = plan_of(node, pool)
    assert plan.action is not None

    held = hold_back(plan, Judged(Observed(node, (), parse_records(node)), is_busy=False), pool)

    assert (held.state, held.action) == (NodeState.WAITING, None)
    assert held.message == (
        "reconcile is Observe; it would: share -> cgpu; labels to be written: "
        "ack.node.gpu.schedule=cgpu, gpushare.io/isolation-verified=true; "
        "to be removed: ack.node.gpu.placement"
    )
