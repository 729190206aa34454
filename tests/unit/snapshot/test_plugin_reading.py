"""What a node's plugin has read of its labels: what is in force is not always what they say."""

import pytest

from gpushare import names
from gpushare.api.k8s.pod import Pod
from gpushare.core.records.node_records import NodeRecords
from gpushare.core.snapshot.node import NodeSnapshot
from gpushare.core.snapshot.plugin_reading import PluginReading
from tests.kit.values.node_plans import OURS, applied
from tests.kit.values.objects import a_node, a_plugin_pod


def read(schedule: str, plugin: Pod, records: NodeRecords) -> PluginReading:
    node = a_node(labels={names.LABEL_SCHEDULE: schedule, **OURS}, records=records)
    reading = NodeSnapshot(node, (plugin,), records).reading
    assert reading is not None
    return reading


@pytest.mark.parametrize(("phase", "effective"), [("Pending", "share"), ("Running", "default")])
def test_another_modes_plugin_puts_it_in_force_once_it_runs(phase: str, effective: str) -> None:
    """Until then the label is put back at once, and the pod goes with it."""
    foreign = a_plugin_pod("nvidia", daemonset="ack-nvidia-device-plugin", phase=phase)
    assert read("default", foreign, applied("share")).effective_mode == effective


@pytest.mark.parametrize(
    ("theirs", "plugin", "misread"),
    [
        ("SamePlugin", a_plugin_pod("plugin-2"), True),
        ("SamePlugin", a_plugin_pod("plugin-1", restarts=1), True),
        ("OtherPlugin", a_plugin_pod("plugin-2"), False),
        ("OtherPlugin", a_plugin_pod("plugin-1", restarts=1), True),
        ("OtherPlugin", a_plugin_pod("plugin-1"), False),
    ],
)
def test_a_plugin_that_is_told_of_after_a_label_was_put_back_may_have_read_the_other_one(
    theirs: str, plugin: Pod, misread: bool
) -> None:
    """A pod that left with the foreign label, and came back with ours, has read ours."""
    assert read("cgpu", plugin, applied(reverted=theirs)).is_unknown is misread


@pytest.mark.parametrize(("seen_at_once", "misread"), [(True, False), (False, True), (None, True)])
def test_a_removed_label_may_have_been_read_as_another_mode_unless_it_was_seen_at_once(
    seen_at_once: bool | None, misread: bool
) -> None:
    """Basic's cgpu is the same without the label; what that said before, nothing tells."""
    records = applied("cgpu", edition="Basic")
    node = a_node(labels={names.LABEL_CGPU: "true", **OURS}, records=records)
    reading = NodeSnapshot(node, (a_plugin_pod("plugin-1"),), records).reading
    assert reading is not None
    is_brief = None if seen_at_once is None else lambda _: seen_at_once
    assert reading.may_have_misread(is_brief) is misread
