"""Faults and open facts: each switch does what it says, and lets go when it is cleared."""

import pytest

from devcluster import names
from devcluster.simulator.faults import NO_FAULTS, FaultError, Faults, parse_faults
from tests.unit.simulator.scene import PLUGIN, Scene, serving

SHARE = {"ack.node.gpu.schedule": "share"}
MEM3 = {names.GPU_MEM: 3}


def test_a_plugin_that_is_never_ready_registers_nothing_until_cleared() -> None:
    scene = Scene(SHARE)
    scene.fault(plugin_never_ready=True)
    scene.add_component()
    scene.advance(60)
    assert scene.pod(PLUGIN).phase == "Running"
    assert not scene.pod(PLUGIN).ready
    assert scene.allocatable() is None
    scene.fault()
    scene.advance(1)
    assert scene.allocatable() == "15"


def test_a_ready_plugin_can_stay_silently_at_zero_until_cleared() -> None:
    scene = Scene(SHARE)
    scene.fault(resource_zero=True)
    scene.add_component()
    scene.advance(60)
    assert scene.pod(PLUGIN).ready
    assert (scene.capacity(), scene.allocatable()) == ("0", "0")
    scene.fault()
    scene.advance(1)
    assert scene.allocatable() == "15"


def test_a_failing_installer_crash_loops_and_loads_nothing_until_cleared() -> None:
    scene = Scene(SHARE)
    scene.fault(installer_fails=True)
    scene.add_component("cgpu-installer")
    scene.advance(60)
    assert scene.pod("cgpu-installer").shown["main"].waiting == "CrashLoopBackOff"
    assert names.MODULE not in scene.node.annotations
    scene.fault()
    scene.advance(1)
    assert scene.pod("cgpu-installer").ready
    assert scene.node.annotations[names.MODULE] == "cgpu"


def test_what_a_nodes_annotation_does_not_mention_is_as_usual() -> None:
    usual = Faults(report_period_seconds=0.5)
    assert parse_faults(None) == NO_FAULTS
    assert parse_faults(None, usual) == usual
    assert parse_faults('{"no_cards": true}', usual) == Faults(
        no_cards=True, report_period_seconds=0.5
    )


def test_a_node_that_is_not_ready_starts_nothing_until_cleared() -> None:
    scene = serving(SHARE)
    scene.fault(not_ready=True)
    scene.add_pod("a", MEM3)
    scene.add_component("cgpu-installer")
    scene.advance(60)
    assert scene.node.ready == "False"
    assert scene.pod("a").phase == "Pending"
    assert not scene.pod("cgpu-installer").ready
    scene.fault()
    scene.advance(1)
    assert scene.node.ready == "True"
    assert scene.pod("a").phase == "Running"
    assert scene.pod("cgpu-installer").ready


def test_the_resource_of_the_mode_before_can_be_left_over_until_cleared() -> None:
    scene = serving(SHARE)
    scene.fault(keeps_old_resource=True)
    scene.label(ack__node__gpu__schedule="default")
    scene.remove(PLUGIN)
    scene.add_component("ack-nvidia-device-plugin")
    scene.advance(60)
    assert (scene.capacity(), scene.allocatable()) == ("15", "15")
    assert scene.allocatable(names.WHOLE_CARD) == "1"
    scene.add_pod("a", MEM3)
    scene.advance(1)
    assert scene.pod("a").phase == "Failed"
    scene.fault()
    scene.advance(1)
    assert scene.allocatable() == "0"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "expected a JSON object"),
        ("[]", "expected a JSON object"),
        ('{"plugin_is_ready": true}', "unknown key 'plugin_is_ready'"),
        ('{"not_ready": 1}', "not_ready cannot be 1"),
        ('{"bind_delay_seconds": "2"}', "bind_delay_seconds cannot be '2'"),
        ('{"bind_delay_seconds": -1}', "bind_delay_seconds cannot be -1"),
        ('{"bind_delay_seconds": null}', "bind_delay_seconds cannot be None"),
        ('{"bind_delay_seconds": true}', "bind_delay_seconds cannot be True"),
        ('{"memory_unit": "KiB"}', "memory_unit cannot be 'KiB'"),
    ],
)
def test_a_fault_annotation_that_cannot_be_used_is_refused_whole(text: str, message: str) -> None:
    with pytest.raises(FaultError, match=message):
        parse_faults(text)
