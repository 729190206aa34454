"""Admission, what containers get, isolation; and faults, each until it is cleared."""

import pytest

from devcluster import names
from devcluster.simulator.faults import FaultError, parse_faults
from tests.unit.simulator.scene import CGPU, MEM3, ON, PLUGIN, SHARE, Scene, assumed, serving

OFF = {"cgpu": "true", "cgpu.disable.isolation": "true"}


def test_a_pod_that_does_not_select_this_node_any_more_is_refused() -> None:
    scene = serving(ON)
    scene.add_pod("a", MEM3, nodeSelector={"cgpu.disable.isolation": "true"})
    scene.advance(1)
    assert (scene.pod("a").phase, scene.status("a")["reason"]) == ("Failed", "NodeAffinity")


def test_more_than_the_free_devices_is_refused() -> None:
    scene = serving(ON)
    scene.add_pod("a", {names.GPU_MEM: 10})
    scene.add_pod("b", {names.GPU_MEM: 6})
    scene.advance(1)
    assert scene.pod("a").phase == "Running"
    assert "Requested: 6, Available: 5" in scene.status("b")["message"]


def test_allocate_marks_the_pod_assigned_and_gives_its_environment() -> None:
    scene = serving(ON, cards=2)
    scene.add_pod("a", MEM3, annotations=assumed(1, 3))
    scene.advance(1)
    notes = scene.pod("a").annotations
    assert notes[names.MEM_ASSIGNED] == "true"
    assert int(notes[names.MEM_ASSUME_TIME]) > 1
    assert scene.got("a") == {
        "isolated": True,
        "card": 1,
        "cards": [1],
        "plugin": f"{PLUGIN}-uid",
        "boot_id": "first",
        "visible_memory_mib": 3226,
        "env": {
            names.VISIBLE_DEVICES: "1",
            names.MEM_IDX: "1",
            names.MEM_POD: "3",
            names.MEM_CONTAINER: "3",
            names.MEM_DEV: "15",
        },
    }


def test_the_oldest_assumed_pod_of_the_size_is_served_so_two_can_swap_cards() -> None:
    scene = serving(ON, cards=2)
    scene.add_pod("bound-first", MEM3, annotations=assumed(0, 3, time=2))
    scene.add_pod("assumed-first", MEM3, annotations=assumed(1, 3, time=1))
    scene.advance(1)
    assert scene.got("bound-first")["card"] == 1
    assert scene.got("assumed-first")["card"] == 0
    assert scene.pod("bound-first").annotations[names.MEM_ASSIGNED] == "true"
    assert scene.pod("assumed-first").annotations[names.MEM_ASSIGNED] == "true"


def test_without_an_assumed_pod_one_card_is_given_and_two_let_the_container_fail() -> None:
    one, two = serving(ON), serving(ON, cards=2)
    for scene in (one, two):
        scene.add_pod("a", MEM3)
        scene.advance(1)
    assert one.got("a")["card"] == 0
    assert two.got("a")["env"][names.VISIBLE_DEVICES] == "no-gpu-has-3GiB-to-run"
    state = two.status("a")["containerStatuses"][0]["state"]
    assert state["waiting"]["message"] == "unknown device id: no-gpu-has-3GiB-to-run"
    assert two.pod("a").phase == "Pending"


@pytest.mark.parametrize(
    ("labels", "module", "env", "isolated"),
    [
        (ON, True, {}, True),
        (ON, False, {}, False),
        (OFF, True, {}, False),
        ({"cgpu": "true"}, True, {}, True),
        ({"cgpu": "true", "cgpu.disable.isolation": "True"}, True, {}, True),
        ({"gpushare": "true"}, True, {}, False),
        (CGPU, True, {}, True),
        (CGPU, False, {}, False),
        (CGPU, True, {"CGPU_DISABLE": "true"}, False),
        (CGPU, True, {"CGPU_DISABLE": "1"}, False),
        (CGPU, True, {"CGPU_DISABLE": "false"}, True),
        (CGPU | OFF, True, {}, True),
        (SHARE, False, {}, False),
        (SHARE, True, {}, True),
        (SHARE | ON, True, {}, True),
    ],
)
def test_isolation_follows_from_what_was_read_the_module_and_the_environment(
    labels: dict[str, str], module: bool, env: dict[str, str], isolated: bool
) -> None:
    scene = serving(labels, module=module)
    scene.add_pod("a", MEM3, env=env)
    scene.advance(1)
    assert scene.got("a")["isolated"] is isolated


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
