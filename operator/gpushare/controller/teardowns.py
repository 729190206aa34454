"""Events on nodes in their teardown: what to type there, and why it failed."""

from gpushare.api.node import Node
from gpushare.core.actions import NodePlan, NodeState
from gpushare.core.records import RecordError, parse_records
from gpushare.core.teardown import MODULE_FAILURES
from gpushare.kube.events import Events, Subject
from gpushare.names import Reason
from gpushare.render.teardown import render_teardown_commands


def tell_teardown(events: Events, pool: str, plan: NodePlan, node: Node) -> None:
    """Post what `plan` asks of a person, once for each attempt at the node's teardown."""
    if (plan.state, plan.reason) == (NodeState.BLOCKED, Reason.MODULE_REMOVAL):
        note = f"pool {pool}; what to type:\n{render_teardown_commands(node.name)}"
    elif plan.state is NodeState.FAILED and plan.reason in MODULE_FAILURES:
        note = f"pool {pool}: {plan.message}"
    else:
        return
    try:
        change = parse_records(node).change
    except RecordError:
        return
    if change is None or change.teardown is None:
        return
    subject = Subject("v1", "Node", node.name, node.uid)
    occasion = f"{change.since.isoformat()}/{change.teardown.attempt}"
    events.post(subject, plan.reason, note, warns=True, once=True, occasion=occasion)
