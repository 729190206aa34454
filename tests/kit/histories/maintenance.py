"""Another controller that upgrades the driver of nodes, as NVIDIA's GPU Operator does.

The controller's label shows that it is at work. It cordons a node, or leaves an existing cordon
alone. At its end it uncordons nodes that it cordoned; or, as one of NVIDIA's programs does, all
(NVIDIA/k8s-driver-manager, issue 212).
"""

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule

from gpushare.api.k8s.node import Node
from gpushare.core.snapshot.actions import (
    Action,
    CreateJob,
    DeletePlugins,
    EvictPods,
    RecordPlugins,
)
from tests.kit.histories import simulated_cluster as sim
from tests.kit.histories.field_ownership import CORDON, SimulatedNode

STATE, DONE = "nvidia.com/gpu-driver-upgrade-state", "upgrade-done"
_WAS_CORDONED = "nvidia.com/gpu-driver-upgrade.node-initial-state.unschedulable"
_CONTROLLER = "gpu-operator"


def is_maintained(node: SimulatedNode) -> bool:
    return node.labels.get(STATE, DONE) != DONE


class MaintenanceController(RuleBasedStateMachine):
    """Actions of the controller at random moments."""

    NODES = ("n1", "n2", "n3", "n4")
    cluster: sim.Cluster

    @rule(node=st.sampled_from(NODES))
    def begin_maintenance(self, node: str) -> None:
        if (simulated := self.cluster.nodes.get(node)) is None or is_maintained(simulated):
            return
        if CORDON in simulated.fields:
            self._write(node, _WAS_CORDONED, "true")
        self._write(node, STATE, "drain-required")
        self._write(node, CORDON, "true")

    @rule(node=st.sampled_from(NODES), is_unconditional=st.booleans(), is_label_first=st.booleans())
    def end_maintenance(self, node: str, is_unconditional: bool, is_label_first: bool) -> None:
        """End the maintenance; with `is_label_first` the label is removed before the cordon."""
        if (simulated := self.cluster.nodes.get(node)) is None or not is_maintained(simulated):
            return
        if is_label_first:
            self._write(node, STATE, DONE)
        if is_unconditional or _WAS_CORDONED not in simulated.fields:
            self._write(node, CORDON, None)
        self._write(node, STATE, DONE)
        self._write(node, _WAS_CORDONED, None)

    def _write(self, node: str, key: str, value: str | None) -> None:
        self.cluster = sim.write_node(self.cluster, node, key, value, _CONTROLLER)


def expect_maintained(before: SimulatedNode, after: SimulatedNode) -> None:
    """Check that a node under maintenance of another controller is not uncordoned."""
    is_kept = CORDON in after.fields or CORDON not in before.fields
    assert is_kept or not is_maintained(before), f"{before.name} is uncordoned in its maintenance"


def expect_left_alone(node: Node, action: Action | None) -> None:
    """Check that nothing on a node under maintenance is restarted, evicted or removed."""
    ends = isinstance(action, RecordPlugins | DeletePlugins | EvictPods | CreateJob)
    assert not (ends and node.labels.get(STATE, DONE) != DONE), f"{node.name}: {action}"
