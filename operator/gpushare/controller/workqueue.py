"""The nodes that have to be written to, as names: what is planned for one takes memory, and grows
old while thousands of others are written to."""

from itertools import islice

from gpushare.core.snapshot.actions import ApplyNode, ReleaseNode, StepResult


class WorkQueue:
    """At most `limit` nodes whose write is in flight or next, and the names of all others.

    By its turn a node is decided about anew. Those that rest after a write, or whose change takes
    several calls, are not counted: they must not hold up the others.
    """

    def __init__(self, limit: int):
        self._limit = limit
        self._processing: set[str] = set()
        self._queue: dict[str, None] = {}
        """A set that keeps its order."""
        self._due: set[str] = set()

    def get(self) -> set[str]:
        """Remove and return the nodes whose turn it is in this pass."""
        self._due = set(islice(self._queue, max(0, self._limit - len(self._processing))))
        for node in self._due:
            del self._queue[node]
        return self._due

    def is_due(self, plan: StepResult) -> bool:
        """Tell whether it is the node's turn in this pass. Its plan must be started before others:
        nodes that change all the time would take its place."""
        return plan.node in self._due

    def start(self, plan: StepResult) -> bool:
        """Tell whether `plan` may be carried out now; else its node waits for its turn.

        A change that was admitted, or is under way, does not wait: the budget counts it already,
        and limits the number of such nodes.
        """
        if isinstance(plan.action, ApplyNode | ReleaseNode):
            must_wait = len(self._processing) >= self._limit
            if must_wait and not (plan.under_way or plan.uses_budget):
                self._queue.setdefault(plan.node)
                return False
            self._processing.add(plan.node)
        self._queue.pop(plan.node, None)
        return True

    def done(self, node: str) -> None:
        """Note that the node's write was answered, or given up."""
        self._processing.discard(node)

    @property
    def has_due(self) -> bool:
        """Whether `get` would return a node."""
        return bool(self._queue) and len(self._processing) < self._limit
