"""Faults and open facts: each switch does what it says, and lets go when it is cleared."""

import pytest

from devcluster import names
from devcluster.simulator.faults import FaultError, parse_faults
from tests.unit.simulator.scene import SHARE, Scene


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


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "expected a JSON object"),
        ('{"plugin_is_ready": true}', "unknown key 'plugin_is_ready'"),
        ('{"not_ready": 1}', "not_ready cannot be 1"),
        ('{"bind_delay_seconds": "2"}', "bind_delay_seconds cannot be '2'"),
        ('{"bind_delay_seconds": -1}', "bind_delay_seconds cannot be -1"),
        ('{"memory_unit": "KiB"}', "memory_unit cannot be 'KiB'"),
    ],
)
def test_a_fault_annotation_that_cannot_be_used_is_refused_whole(text: str, message: str) -> None:
    with pytest.raises(FaultError, match=message):
        parse_faults(text)
