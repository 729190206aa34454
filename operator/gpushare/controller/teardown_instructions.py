"""What a person is to type on a node, where people look for it."""

from gpushare.api.k8s.node import Node
from gpushare.core.nodechange.teardown import asks_for_commands
from gpushare.core.records.node_records import parse_records
from gpushare.core.records.record import RecordError
from gpushare.core.snapshot.actions import StepResult
from gpushare.kube.events import Events, Subject
from gpushare.render.teardown import render_teardown_commands


class Instructions:
    """Posts how to remove the kernel module, once for each teardown that waits for a person."""

    def __init__(self, events: Events):
        self._events = events
        self._told: dict[str, str] = {}
        """By the node's UID, for which teardown: plans are made anew at each event."""

    def tell(self, pool: str, plan: StepResult, node: Node) -> None:
        """Tell it where `plan`, which is that of `node`, waits for that."""
        if not asks_for_commands(plan):
            self._told.pop(node.uid, None)
            return
        try:
            change = parse_records(node).change
        except RecordError:
            return
        if change is None or change.teardown is None:
            return
        occasion = f"{change.since.isoformat()}/{change.teardown.attempt}"
        if self._told.get(node.uid) == occasion:
            return
        self._told[node.uid] = occasion
        subject = Subject("v1", "Node", node.name, node.uid)
        commands = render_teardown_commands(node.name, node.container_runtime)
        note = f"pool {pool}; what to type:\n{commands}"
        # A process that ended may have told it too.
        self._events.post(subject, plan.reason, note, warns=True, once=True, occasion=occasion)
