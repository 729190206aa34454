"""When the API server hears of what a kubelet knows, and what a restarted kubelet does."""

import json

import pytest

from devcluster import names
from devcluster.simulator.objects import Pod
from tests.unit.simulator.scene import PLUGIN, Scene, serving

ON = {"cgpu": "true", "cgpu.disable.isolation": "false"}
MEM3 = {names.GPU_MEM: 3}


def read_labels(pod: Pod) -> dict[str, str]:
    """What the plugin has read of its node last."""
    labels: dict[str, str] = json.loads(pod.annotations[names.READ])["labels"]
    return labels


def test_a_plugin_that_registers_shows_with_the_kubelets_next_report() -> None:
    scene = Scene(ON, period=10)
    scene.advance(7)
    scene.add_component()
    scene.advance(1)
    assert scene.pod(PLUGIN).ready
    assert scene.allocatable() is None
    scene.advance(2)
    assert (scene.capacity(), scene.allocatable()) == ("15", "15")


def test_a_lost_plugin_shows_with_the_kubelets_next_report() -> None:
    scene = serving(ON, period=10)
    scene.advance(3)
    scene.remove(PLUGIN)
    scene.advance(6.9)
    assert scene.allocatable() == "15"
    scene.advance(0.2)
    assert (scene.capacity(), scene.allocatable()) == ("15", "0")


def test_a_restart_between_two_reports_is_never_seen() -> None:
    scene = serving(ON, period=10)
    before = len(scene.turns)
    scene.advance(3)
    scene.remove(PLUGIN)
    scene.add_component(name="next")
    scene.advance(60)
    assert scene.allocatable() == "15"
    assert all("status" not in (turn.node_patch or {}) for turn in scene.turns[before:])


@pytest.mark.parametrize("again", ["kubelet", "signal"])
def test_a_plugin_reads_again_in_place_when_its_kubelet_restarts_and_on_a_signal(
    again: str,
) -> None:
    scene = serving(ON, period=10)
    scene.add_pod("before", MEM3)
    scene.advance(1)
    before = len(scene.turns)
    scene.label(cgpu__disable__isolation="true")
    scene.advance(1)
    assert read_labels(scene.pod(PLUGIN))[names.DISABLE_ISOLATION] == "false"
    if again == "kubelet":
        scene.annotate_node(names.RESTART_KUBELET, "1")
    else:
        scene.annotate_pod(PLUGIN, names.SIGNAL, "1")
    scene.advance(20)
    scene.add_pod("after", MEM3)
    scene.advance(1)

    assert read_labels(scene.pod(PLUGIN))[names.DISABLE_ISOLATION] == "true"
    assert scene.pod(PLUGIN).ready
    assert scene.pod(PLUGIN).shown["main"].restarts == 0
    assert (scene.got("before")["isolated"], scene.got("after")["isolated"]) == (True, False)
    assert scene.pod("before").ready
    assert all("status" not in (turn.node_patch or {}) for turn in scene.turns[before:])
