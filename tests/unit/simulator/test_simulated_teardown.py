"""Teardown Jobs on a node, and kured that reboots it."""

from devcluster import names
from tests.unit.simulator.scene import PLUGIN, Scene, serving

SHARE = {"ack.node.gpu.schedule": "share"}
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


def test_verify_fails_while_the_module_is_loaded_and_says_so() -> None:
    scene = torn_down(reboots=False)
    scene.add_teardown("verify", name="before")
    scene.advance(1)
    assert ended(scene, "before") == ("Failed", 1, "cGPU module is loaded")
    scene.reboot()
    scene.add_teardown("verify", name="after")
    scene.advance(1)
    assert ended(scene, "after") == ("Succeeded", 0, "")


def test_kured_reboots_once_and_all_comes_to_rest() -> None:
    scene = torn_down()
    scene.advance(5)
    boot_id, before = scene.node.boot_id, len(scene.turns)
    scene.advance(3600)
    assert scene.node.boot_id == boot_id
    assert scene.turns[-1].wake_at is None
    assert all(not t.node_patch and not t.pod_writes for t in scene.turns[before:])
    assert (scene.pod(PLUGIN).ready, scene.allocatable()) == (True, "15")
