"""What a reboot ends, and what it keeps."""

from collections.abc import Mapping

from devcluster import names
from tests.unit.simulator.scene import Scene, serving

ON = {"cgpu": "true", "cgpu.disable.isolation": "false"}
SHARE = {"ack.node.gpu.schedule": "share"}
CGPU = {"ack.node.gpu.schedule": "cgpu"}
MEM3 = {names.GPU_MEM: 3}


def running(
    scene: Scene,
    *,
    annotations: Mapping[str, str] | None = None,
    selects: Mapping[str, str] | None = None,
) -> Scene:
    """The same node with a pod `a` that runs on it."""
    scene.add_pod("a", MEM3, annotations=annotations, nodeSelector=selects)
    scene.advance(1)
    assert scene.pod("a").ready
    return scene


def test_the_module_leaves_only_with_a_reboot_after_its_removal() -> None:
    scene = serving(SHARE)
    scene.reboot()
    scene.advance(1)
    assert names.MODULE in scene.node.annotations
    scene.annotate_node(names.UNINSTALL, "true")
    scene.advance(1)
    assert names.MODULE in scene.node.annotations
    scene.reboot()
    scene.advance(1)
    assert names.MODULE not in scene.node.annotations
    assert names.UNINSTALL in scene.node.annotations


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


def test_the_plugins_resources_are_zero_from_the_kubelets_start_until_it_registers() -> None:
    scene = serving(ON, period=10)
    scene.fault(start_delay_seconds=5)
    scene.reboot()
    scene.play()
    assert (scene.capacity(), scene.allocatable()) == ("0", "0")
    scene.advance(9)
    assert (scene.capacity(), scene.allocatable()) == ("0", "0")
    scene.advance(1)
    assert (scene.capacity(), scene.allocatable()) == ("15", "15")


def test_a_kubelet_that_is_held_back_judges_nobody_and_reports_nothing_until_it_starts() -> None:
    scene = running(serving(ON))
    scene.fault(not_ready=True)
    scene.reboot()
    scene.advance(60)
    assert (scene.pod("a").phase, scene.allocatable()) == ("Running", "15")
    scene.fault()
    scene.play()
    assert (scene.pod("a").phase, scene.allocatable()) == ("Failed", "0")
