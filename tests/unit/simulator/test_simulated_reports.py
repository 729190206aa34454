"""When the API server hears of what a kubelet knows, and what a restarted kubelet does."""

from tests.unit.simulator.scene import PLUGIN, Scene, serving

ON = {"cgpu": "true", "cgpu.disable.isolation": "false"}


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
