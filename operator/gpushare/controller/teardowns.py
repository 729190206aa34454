"""What a person is to type on a node, where people look for it."""

from gpushare.api.node import Node
from gpushare.core.actions import NodePlan, NodeState
from gpushare.core.records import RecordError, parse_records
from gpushare.kube.events import Events, Subject
from gpushare.names import Reason
from gpushare.render.teardown import render_teardown_commands


def tell_commands(events: Events, pool: str, plan: NodePlan, node: Node) -> None:
    """Post how to remove the kernel module where `plan` waits for that, once for each teardown."""
    if (plan.state, plan.reason) != (NodeState.BLOCKED, Reason.MODULE_REMOVAL):
        return
    try:
        change = parse_records(node).change
    except RecordError:
        return
    if change is None or change.teardown is None:
        return
    subject = Subject("v1", "Node", node.name, node.uid)
    note = f"pool {pool}; what to type:\n{render_teardown_commands(node.name)}"
    occasion = f"{change.since.isoformat()}/{change.teardown.attempt}"
    events.post(subject, plan.reason, note, warns=True, once=True, occasion=occasion)
