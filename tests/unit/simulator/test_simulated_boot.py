"""What a reboot and a teardown's Jobs end, and what they keep."""

from devcluster import names
from tests.unit.simulator.scene import CGPU, MEM3, ON, PLUGIN, SHARE, Scene, serving


def test_an_installer_that_runs_puts_removed_files_back_at_once() -> None:
    scene = serving(CGPU)
    scene.add_component("cgpu-installer")
    scene.advance(1)
    scene.annotate_node(names.UNINSTALL, "true")
    scene.play()
    assert names.UNINSTALL not in scene.node.annotations
    scene.reboot()
    scene.advance(1)
    assert scene.node.annotations[names.MODULE] == "cgpu"


def test_a_kubelet_that_is_held_back_judges_nobody_and_reports_nothing_until_it_starts() -> None:
    scene = serving(ON)
    scene.add_pod("a", MEM3)
    scene.advance(1)
    scene.fault(not_ready=True)
    scene.reboot()
    scene.advance(60)
    assert (scene.pod("a").phase, scene.allocatable()) == ("Running", "15")
    scene.fault()
    scene.play()
    assert (scene.pod("a").phase, scene.allocatable()) == ("Failed", "0")


def run_teardown(scene: Scene, *args: str, name: str = "") -> tuple[str, int, str]:
    """Phase, exit code and last words of a teardown's pod."""
    scene.add_teardown(*args, name=name)
    scene.advance(1)
    status = scene.status(name or "-".join(args))
    state = status["containerStatuses"][0]["state"]["terminated"]
    return status["phase"], state["exitCode"], state["message"]


def test_an_uninstall_refuses_while_a_gpu_workload_runs() -> None:
    scene = serving(SHARE)
    scene.add_pod("a", MEM3)
    scene.advance(1)
    refused = ("Failed", 1, "GPU workloads still run on this node")
    assert run_teardown(scene, "uninstall", "sentinel") == refused
    assert not {names.UNINSTALL, names.SENTINEL} & scene.node.annotations.keys()


def test_the_module_leaves_with_the_reboot_after_its_removal_and_verify_says_so() -> None:
    scene = serving(SHARE)
    scene.reboot()
    scene.advance(1)
    assert run_teardown(scene, "uninstall") == ("Succeeded", 0, "")
    assert scene.node.annotations[names.MODULE] == "cgpu"
    loaded = ("Failed", 1, "cGPU module is loaded")
    assert run_teardown(scene, "verify", name="before") == loaded
    scene.reboot()
    assert run_teardown(scene, "verify", name="after") == ("Succeeded", 0, "")
    assert names.MODULE not in scene.node.annotations


def test_kured_reboots_once_and_all_comes_to_rest() -> None:
    scene = serving(SHARE)
    scene.annotate_node(names.KURED, "true")
    scene.add_teardown("uninstall", "sentinel")
    scene.advance(5.3)
    boot_id, before = scene.node.boot_id, len(scene.turns)
    scene.advance(3600)
    assert boot_id != "first"
    assert scene.node.boot_id == boot_id
    assert scene.turns[-1].due_at is None
    assert all(not t.node_patch and not t.pod_writes for t in scene.turns[before:])
    assert (scene.pod(PLUGIN).ready, scene.allocatable()) == (True, "15")
