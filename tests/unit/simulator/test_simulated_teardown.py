"""Teardown Jobs on a node, and kured that reboots it."""

import pytest

from devcluster import names
from tests.unit.simulator.scene import PLUGIN, Scene, serving

SHARE = {"ack.node.gpu.schedule": "share"}
CGPU = {"ack.node.gpu.schedule": "cgpu"}
MEM3 = {names.GPU_MEM: 3}


def ended(scene: Scene, name: str) -> tuple[str, int, str]:
    """Phase, exit code and last words of a teardown's pod."""
    status = scene.status(name)
    state = status["containerStatuses"][0]["state"]["terminated"]
    return status["phase"], state["exitCode"], state["message"]


def torn_down(*, reboots: bool = True) -> Scene:
    """A share node with the module's files gone and the sentinel left; kured may reboot it."""
    scene = serving(SHARE)
    if reboots:
        scene.annotate_node(names.KURED, "true")
    scene.add_teardown("uninstall", "sentinel")
    scene.advance(0.3)
    return scene


def test_an_uninstall_runs_for_a_while_and_leaves_the_module_loaded() -> None:
    scene = serving(SHARE)
    scene.add_teardown("uninstall")
    scene.advance(0.1)
    assert scene.pod("uninstall").phase == "Running"
    assert names.UNINSTALL not in scene.node.annotations
    scene.advance(0.2)
    assert ended(scene, "uninstall") == ("Succeeded", 0, "")
    assert scene.node.annotations[names.UNINSTALL] == "true"
    assert scene.node.annotations[names.MODULE] == "cgpu"
    assert names.SENTINEL not in scene.node.annotations


def test_an_uninstall_without_the_module_succeeds_as_well() -> None:
    scene = serving(SHARE, module=False)
    scene.add_teardown("uninstall")
    scene.advance(1)
    assert ended(scene, "uninstall")[0] == "Succeeded"


def test_an_uninstall_leaves_the_sentinel_where_it_is_told_to() -> None:
    scene = torn_down(reboots=False)
    assert scene.node.annotations[names.SENTINEL] == "true"
    boot_id = scene.node.boot_id
    scene.advance(60)
    assert scene.node.boot_id == boot_id


def test_an_uninstall_refuses_while_a_gpu_workload_runs() -> None:
    scene = serving(SHARE)
    scene.add_pod("a", MEM3)
    scene.advance(1)
    scene.add_teardown("uninstall", "sentinel")
    scene.advance(1)
    assert ended(scene, "uninstall-sentinel") == (
        "Failed",
        1,
        "GPU workloads still run on this node",
    )
    assert not {names.UNINSTALL, names.SENTINEL} & scene.node.annotations.keys()


def test_a_gpu_workload_that_terminates_still_runs() -> None:
    scene = serving(SHARE)
    scene.add_pod("a", MEM3)
    scene.advance(1)
    scene.terminate("a")
    scene.add_teardown("uninstall")
    scene.advance(1)
    assert ended(scene, "uninstall")[0] == "Failed"


def test_a_refused_pod_and_one_without_a_gpu_are_in_nobodys_way() -> None:
    scene = serving(SHARE)
    scene.add_pod("without", {})
    scene.add_pod("refused", {names.GPU_MEM: 99})
    scene.advance(1)
    scene.add_teardown("uninstall")
    scene.advance(1)
    assert ended(scene, "uninstall")[0] == "Succeeded"


def test_where_the_label_still_isolates_the_installer_puts_the_files_back_at_once() -> None:
    scene = serving(CGPU)
    scene.add_component("cgpu-installer")
    scene.advance(1)
    scene.add_teardown("uninstall")
    scene.advance(1)
    assert ended(scene, "uninstall")[0] == "Succeeded"
    assert names.UNINSTALL not in scene.node.annotations
    scene.reboot()
    scene.advance(1)
    assert scene.node.annotations[names.MODULE] == "cgpu"


def test_verify_fails_while_the_module_is_loaded_and_says_so() -> None:
    scene = torn_down(reboots=False)
    scene.add_teardown("verify", name="before")
    scene.advance(1)
    assert ended(scene, "before") == ("Failed", 1, "cGPU module is loaded")
    scene.reboot()
    scene.add_teardown("verify", name="after")
    scene.advance(1)
    assert ended(scene, "after") == ("Succeeded", 0, "")


@pytest.mark.parametrize("args", [(), ("remove",), ("uninstall", "now"), ("verify", "sentinel")])
def test_arguments_that_no_teardown_has_fail(args: tuple[str, ...]) -> None:
    scene = serving(SHARE)
    scene.add_teardown(*args, name="wrong")
    scene.advance(1)
    assert ended(scene, "wrong")[:2] == ("Failed", 1)
    assert names.UNINSTALL not in scene.node.annotations


def test_a_teardowns_pod_gets_no_gpu() -> None:
    scene = serving(SHARE)
    scene.add_teardown("verify")
    scene.advance(1)
    assert names.CONTAINERS not in scene.pod("verify").annotations


def test_an_uninstall_that_fails_removes_nothing() -> None:
    scene = serving(SHARE)
    scene.fault(uninstall_fails=True)
    scene.add_teardown("uninstall")
    scene.advance(1)
    assert ended(scene, "uninstall")[:2] == ("Failed", 1)
    assert names.UNINSTALL not in scene.node.annotations


def test_a_job_that_hangs_ends_when_that_is_cleared() -> None:
    scene = serving(SHARE)
    scene.fault(job_hangs=True)
    scene.add_teardown("uninstall")
    scene.advance(3600)
    assert scene.pod("uninstall").phase == "Running"
    scene.fault()
    scene.advance(1)
    assert ended(scene, "uninstall")[0] == "Succeeded"


def test_a_slow_job_takes_as_long_as_it_is_told() -> None:
    scene = serving(SHARE)
    scene.fault(job_delay_seconds=30)
    scene.add_teardown("uninstall")
    scene.advance(29)
    assert scene.pod("uninstall").phase == "Running"
    scene.advance(2)
    assert scene.pod("uninstall").phase == "Succeeded"


def test_a_reboot_kills_a_job_that_runs() -> None:
    scene = serving(SHARE)
    scene.fault(job_hangs=True)
    scene.add_teardown("uninstall")
    scene.advance(1)
    scene.reboot()
    scene.advance(1)
    assert ended(scene, "uninstall") == ("Failed", 137, "killed by a reboot")
    assert names.UNINSTALL not in scene.node.annotations


def test_a_module_can_be_there_again_after_the_reboot_although_its_files_are_gone() -> None:
    scene = torn_down()
    scene.fault(module_survives_reboot=True)
    scene.advance(5)
    assert scene.node.annotations[names.MODULE] == "cgpu"
    assert names.UNINSTALL in scene.node.annotations
    scene.add_teardown("verify")
    scene.advance(1)
    assert ended(scene, "verify")[0] == "Failed"


def test_kured_reboots_a_node_with_the_sentinel_which_is_away_meanwhile() -> None:
    scene = torn_down()
    boot_id = scene.node.boot_id
    scene.advance(0.5)
    assert (scene.node.ready, scene.node.boot_id) == ("False", boot_id)
    scene.advance(1)
    assert scene.node.ready == "True"
    assert scene.node.boot_id != boot_id
    assert not {names.SENTINEL, names.MODULE} & scene.node.annotations.keys()
    assert scene.pod("uninstall-sentinel").phase == "Succeeded"


def test_kured_reboots_once_and_all_comes_to_rest() -> None:
    scene = torn_down()
    scene.advance(5)
    boot_id, before = scene.node.boot_id, len(scene.turns)
    scene.advance(3600)
    assert scene.node.boot_id == boot_id
    assert scene.turns[-1].wake_at is None
    assert all(not t.node_patch and not t.pod_writes for t in scene.turns[before:])
    assert (scene.pod(PLUGIN).ready, scene.allocatable()) == (True, "15")


def test_each_boot_has_an_id_of_its_own() -> None:
    scene = torn_down()
    boots = {scene.node.boot_id}
    for _ in range(3):
        scene.annotate_node(names.SENTINEL, "true")
        scene.advance(5)
        boots.add(scene.node.boot_id)
    assert len(boots) == 4


def test_a_sentinel_waits_for_kured() -> None:
    scene = torn_down(reboots=False)
    scene.advance(60)
    scene.annotate_node(names.KURED, "true")
    scene.advance(5)
    assert names.MODULE not in scene.node.annotations


def test_a_node_can_stay_away_after_kureds_reboot_until_that_is_cleared() -> None:
    scene = torn_down()
    boot_id = scene.node.boot_id
    scene.fault(never_boots=True)
    scene.advance(3600)
    assert (scene.node.ready, scene.node.boot_id) == ("False", boot_id)
    scene.fault()
    scene.advance(1)
    assert scene.node.ready == "True"
    assert scene.node.boot_id != boot_id


def test_the_whole_way_from_cgpu_to_share_ends_isolation() -> None:
    scene = serving(CGPU)
    scene.annotate_node(names.KURED, "true")
    scene.label(ack__node__gpu__schedule="share")
    scene.remove(PLUGIN)
    scene.add_component(name="second")
    scene.advance(1)
    scene.add_pod("before", MEM3)
    scene.advance(1)
    assert scene.got("before")["isolated"]
    scene.remove("before")
    scene.add_teardown("uninstall", "sentinel")
    scene.advance(5)
    scene.add_pod("after", MEM3)
    scene.advance(1)
    assert not scene.got("after")["isolated"]
