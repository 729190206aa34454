"""Whole-card plugins beside the editions' own: a static pod, and one that nobody asked for."""

from devcluster import names
from tests.unit.simulator.scene import SHARE, Scene, serving

MIRROR = "nvidia-device-plugin-n1"
NVIDIA = "nvidia-device-plugin-daemonset"
CARD = {names.WHOLE_CARD: 1}


def with_static_plugin(*labels: dict[str, str], cards: int = 1) -> Scene:
    """A node whose kubelet has the static plugin's manifest."""
    scene = Scene(*labels, cards=cards)
    scene.annotate_node(names.STATIC_MANIFEST, "true")
    scene.advance(1)
    return scene


def test_the_static_plugin_serves_nothing_in_any_other_mode_and_again_after_it() -> None:
    scene = with_static_plugin()
    scene.label(ack__node__gpu__schedule="share")
    scene.advance(1)
    assert scene.pod(MIRROR).ready
    assert scene.allocatable(names.WHOLE_CARD) == "0"
    scene.label(ack__node__gpu__schedule="default")
    scene.advance(1)
    assert scene.allocatable(names.WHOLE_CARD) == "1"


def test_nvidias_plugin_serves_whole_cards_beside_a_sharing_one_and_zeroes_nothing() -> None:
    scene = serving(SHARE)
    scene.add_component(NVIDIA)
    scene.advance(1)
    assert (scene.allocatable(names.WHOLE_CARD), scene.allocatable()) == ("1", "15")
