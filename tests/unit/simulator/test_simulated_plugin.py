"""The device plugin and the components around it, as the node shows them."""

import pytest

from devcluster import names
from devcluster.simulator.plugin import Edition, find_edition
from tests.unit.simulator.scene import MEM3, ON, PLUGIN, SHARE, Scene, serving


def test_a_plugin_that_starts_offers_its_memory_after_ready_and_a_delay() -> None:
    scene = Scene(ON)
    scene.add_component()
    scene.advance(0.1)
    assert not scene.pod(PLUGIN).ready
    assert scene.allocatable() is None
    scene.advance(0.15)
    assert scene.pod(PLUGIN).ready
    assert scene.allocatable() is None
    scene.advance(0.2)
    assert (scene.capacity(), scene.allocatable()) == ("15", "15")
    assert scene.allocatable(names.GPU_COUNT) == "1"


@pytest.mark.parametrize(("edition", "cards"), [("Basic", "2"), ("Professional", None)])
def test_a_node_without_labels_offers_whole_cards_in_basic_only(
    edition: Edition, cards: str | None
) -> None:
    scene = Scene(cards=2, edition=edition)
    scene.advance(1)
    assert scene.allocatable(names.WHOLE_CARD) == cards


def test_a_restarted_simulator_takes_up_where_it_was() -> None:
    scene = serving(ON)
    scene.add_pod("a", MEM3)
    scene.advance(1)
    read, got = scene.pod(PLUGIN).annotations[names.READ], scene.got("a")
    scene.label(cgpu__disable__isolation="true")
    scene.restart_simulator()
    before = len(scene.turns)
    scene.advance(5)
    assert all(not t.node_patch and not t.pod_writes for t in scene.turns[before:])
    assert (scene.pod(PLUGIN).annotations[names.READ], scene.got("a")) == (read, got)


@pytest.mark.parametrize(
    ("daemonsets", "before", "edition"),
    [
        ([], None, None),
        (["gpushare-device-plugin-ds", "device-plugin-recover-ds"], None, "OpenSource"),
        (["cgpu-installer", "device-plugin-recover-ds"], None, "Basic"),
        (["ack-nvidia-device-plugin", "cgpu-installer"], "Basic", "Professional"),
        (["cgpu-installer"], "Professional", "Professional"),
        ([], "Basic", "Basic"),
    ],
)
def test_the_edition_is_told_by_its_daemonsets_and_kept_while_they_are_replaced(
    daemonsets: list[str], before: Edition | None, edition: Edition | None
) -> None:
    assert find_edition(daemonsets, before) == edition


def test_a_restart_between_two_reports_is_never_seen() -> None:
    scene = serving(ON, period=10)
    before = len(scene.turns)
    scene.advance(3)
    scene.remove(PLUGIN)
    scene.add_component(name="next")
    scene.advance(60)
    assert scene.allocatable() == "15"
    assert all("status" not in (turn.node_patch or {}) for turn in scene.turns[before:])


def test_enabling_a_professional_mode_sets_the_other_modes_resources_to_zero() -> None:
    scene = serving(SHARE)
    scene.label(ack__node__gpu__schedule="default")
    scene.remove(PLUGIN)
    scene.add_component("ack-nvidia-device-plugin")
    scene.advance(1)
    assert (scene.capacity(names.WHOLE_CARD), scene.allocatable(names.WHOLE_CARD)) == ("1", "1")
    assert (scene.capacity(), scene.allocatable()) == ("0", "0")


def test_the_static_plugin_serves_whole_cards_in_the_whole_card_mode_alone() -> None:
    scene = Scene()
    scene.annotate_node(names.STATIC_MANIFEST, "true")
    scene.advance(1)
    scene.add_pod("a", {names.WHOLE_CARD: 1})
    scene.advance(1)
    assert scene.pod("a").ready
    scene.label(ack__node__gpu__schedule="share")
    scene.advance(1)
    assert scene.pod("nvidia-device-plugin-n1").ready
    assert scene.allocatable(names.WHOLE_CARD) == "0"
    scene.label(ack__node__gpu__schedule="default")
    scene.advance(1)
    assert scene.allocatable(names.WHOLE_CARD) == "1"


def test_nvidias_plugin_serves_whole_cards_beside_a_sharing_one_and_zeroes_nothing() -> None:
    scene = serving(SHARE)
    scene.add_component("nvidia-device-plugin-daemonset")
    scene.advance(1)
    assert (scene.allocatable(names.WHOLE_CARD), scene.allocatable()) == ("1", "15")
