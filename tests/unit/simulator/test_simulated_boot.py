"""What a reboot ends, what it keeps, and who is admitted anew after it."""

import json
from collections.abc import Mapping

from devcluster import names
from tests.unit.simulator.scene import PLUGIN, Scene, assumed, serving

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


def test_a_reboot_lets_the_plugin_read_again() -> None:
    scene = serving(ON)
    scene.label(cgpu__disable__isolation="true")
    scene.reboot()
    scene.advance(0.1)
    assert scene.allocatable() == "0"
    scene.advance(1)
    assert scene.allocatable() == "15"
    read = json.loads(scene.pod(PLUGIN).annotations[names.READ])
    assert read["labels"][names.DISABLE_ISOLATION] == "true"


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


def test_an_installer_that_comes_after_the_reboot_installs_again() -> None:
    scene = serving(SHARE)
    scene.annotate_node(names.UNINSTALL, "true")
    scene.reboot()
    scene.advance(1)
    scene.add_component("cgpu-installer")
    scene.advance(1)
    assert scene.node.annotations[names.MODULE] == "cgpu"
    assert names.UNINSTALL not in scene.node.annotations


def test_a_pod_is_admitted_anew_by_what_holds_in_the_new_boot() -> None:
    scene = running(serving(ON))
    assert scene.got("a")["isolated"]
    scene.label(cgpu__disable__isolation="true")
    scene.advance(60)
    assert scene.got("a")["isolated"]
    scene.reboot()
    scene.advance(1)
    assert scene.pod("a").ready
    assert not scene.got("a")["isolated"]
    assert scene.got("a")["env"][names.CGPU_DISABLE] == "true"


def test_a_pod_names_the_plugin_that_serves_it_after_the_reboot() -> None:
    scene = running(serving(ON))
    scene.remove(PLUGIN)
    scene.add_component(name="second")
    scene.advance(1)
    assert scene.got("a")["plugin"] == f"{PLUGIN}-uid"
    scene.reboot()
    scene.advance(1)
    assert scene.got("a")["plugin"] == "second-uid"


def test_share_isolates_after_a_reboot_too_while_the_module_is_there_and_not_without_it() -> None:
    scene = running(serving(CGPU))
    scene.label(ack__node__gpu__schedule="share")
    scene.reboot()
    scene.advance(1)
    assert scene.got("a")["isolated"]
    scene.annotate_node(names.UNINSTALL, "true")
    scene.reboot()
    scene.advance(1)
    assert not scene.got("a")["isolated"]


def test_a_pod_waits_for_its_plugin_in_the_new_boot_and_holds_nothing_meanwhile() -> None:
    scene = running(serving(ON))
    scene.fault(start_delay_seconds=30)
    scene.reboot()
    scene.advance(29)
    assert (scene.pod("a").phase, scene.pod("a").ready) == ("Running", False)
    assert scene.pod("a").shown["main"].waiting == "ContainerCreating"
    assert names.CONTAINERS not in scene.pod("a").annotations
    scene.advance(2)
    assert scene.pod("a").ready
    assert scene.got("a")["isolated"]


def test_a_pod_that_comes_before_the_plugin_is_back_is_refused_beside_one_that_waits() -> None:
    scene = running(serving(ON))
    scene.fault(start_delay_seconds=30)
    scene.reboot()
    scene.advance(1)
    scene.add_pod("late", MEM3)
    scene.advance(60)
    assert (scene.pod("a").phase, scene.pod("late").phase) == ("Running", "Failed")


def test_a_pod_that_does_not_select_the_node_any_more_does_not_survive_the_reboot() -> None:
    scene = running(serving(ON), selects={names.DISABLE_ISOLATION: "false"})
    scene.label(cgpu__disable__isolation="true")
    scene.advance(1)
    assert scene.pod("a").ready
    scene.reboot()
    scene.advance(1)
    assert (scene.pod("a").phase, scene.status("a")["reason"]) == ("Failed", "NodeAffinity")


def test_a_pod_keeps_its_cards_and_its_entry_in_the_ledger_over_a_reboot() -> None:
    scene = running(serving(ON, cards=2), annotations=assumed(1, 3))
    entry = {k: v for k, v in scene.pod("a").annotations.items() if k != names.CONTAINERS}
    scene.reboot()
    scene.advance(1)
    assert scene.got("a")["card"] == 1
    assert entry.items() <= scene.pod("a").annotations.items()


def test_a_pod_that_ends_before_its_plugin_is_back_frees_its_devices() -> None:
    scene = running(serving(ON))
    scene.reboot()
    scene.play()
    scene.remove("a")
    scene.advance(1)
    scene.add_pod("b", {names.GPU_MEM: 15})
    scene.advance(1)
    assert scene.pod("b").ready


def test_a_simulator_that_restarts_amid_a_boot_lets_the_pod_wait_on() -> None:
    scene = running(serving(ON))
    scene.fault(start_delay_seconds=30)
    scene.reboot()
    scene.advance(1)
    scene.restart_simulator()
    scene.advance(60)
    assert scene.pod("a").ready


def test_a_node_that_is_not_ready_admits_nobody_anew_until_it_is() -> None:
    scene = running(serving(ON))
    scene.fault(not_ready=True)
    scene.reboot()
    scene.label(cgpu__disable__isolation="true")
    scene.advance(60)
    assert scene.got("a")["isolated"]
    scene.fault()
    scene.advance(1)
    assert not scene.got("a")["isolated"]


def test_after_a_reboot_all_comes_to_rest() -> None:
    scene = running(serving(ON))
    scene.reboot()
    scene.advance(5)
    before = len(scene.turns)
    scene.advance(3600)
    assert scene.turns[-1].wake_at is None
    assert all(not t.node_patch and not t.pod_writes for t in scene.turns[before:])
