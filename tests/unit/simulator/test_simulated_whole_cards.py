"""Whole-card plugins beside the editions' own: a static pod, and one that nobody asked for."""

from typing import Any

import pytest

from devcluster import names
from devcluster.plugins import build_nvidia_plugin, build_static_plugin
from devcluster.simulator.objects import parse_pod
from tests.unit.simulator.scene import PLUGIN, Scene, serving

MIRROR = "nvidia-device-plugin-n1"
NVIDIA = "nvidia-device-plugin-daemonset"
SHARE = {"ack.node.gpu.schedule": "share"}
CARD = {names.WHOLE_CARD: 1}


def with_static_plugin(*labels: dict[str, str], cards: int = 1) -> Scene:
    """A node whose kubelet has the static plugin's manifest."""
    scene = Scene(*labels, cards=cards)
    scene.annotate_node(names.STATIC_MANIFEST, "true")
    scene.advance(1)
    return scene


@pytest.mark.parametrize("labels", [{}, {"ack.node.gpu.schedule": "default"}])
def test_the_static_plugin_serves_whole_cards_in_the_whole_card_mode(
    labels: dict[str, str],
) -> None:
    scene = with_static_plugin(labels, cards=2)
    assert scene.pod(MIRROR).ready
    assert scene.allocatable(names.WHOLE_CARD) == "2"
    scene.add_pod("a", CARD)
    scene.advance(1)
    assert scene.pod("a").ready


def test_the_static_plugin_serves_nothing_in_any_other_mode_and_again_after_it() -> None:
    scene = with_static_plugin()
    scene.label(ack__node__gpu__schedule="share")
    scene.advance(1)
    assert scene.pod(MIRROR).ready
    assert scene.allocatable(names.WHOLE_CARD) == "0"
    scene.label(ack__node__gpu__schedule="default")
    scene.advance(1)
    assert scene.allocatable(names.WHOLE_CARD) == "1"


def test_a_deleted_mirror_pod_is_made_anew_and_the_plugin_runs_on() -> None:
    scene = with_static_plugin()
    before, turns = scene.pod(MIRROR), len(scene.turns)
    scene.remove(MIRROR)
    scene.advance(1)
    assert scene.pod(MIRROR).ready
    assert scene.pod(MIRROR).uid != before.uid
    assert all("status" not in (turn.node_patch or {}) for turn in scene.turns[turns:])


def test_without_its_manifest_the_plugin_ends_with_its_pod() -> None:
    scene = with_static_plugin()
    scene.annotate_node(names.STATIC_MANIFEST, "false")
    scene.remove(MIRROR)
    scene.advance(1)
    assert scene.allocatable(names.WHOLE_CARD) == "0"
    scene.annotate_node(names.STATIC_MANIFEST, "true")
    scene.advance(1)
    assert scene.allocatable(names.WHOLE_CARD) == "1"


def test_a_mirror_pod_that_a_test_made_is_played_without_a_manifest() -> None:
    scene = Scene()
    scene.create(build_static_plugin("n1", "node-uid"))
    scene.advance(1)
    assert scene.allocatable(names.WHOLE_CARD) == "1"


def test_a_node_that_is_not_ready_makes_no_mirror_pod() -> None:
    scene = with_static_plugin()
    scene.fault(not_ready=True)
    scene.remove(MIRROR)
    scene.advance(1)
    with pytest.raises(KeyError):
        scene.pod(MIRROR)
    scene.fault()
    scene.advance(1)
    assert scene.pod(MIRROR).ready


def test_a_restarted_simulator_takes_the_static_plugin_up_again() -> None:
    scene = with_static_plugin()
    scene.restart_simulator()
    before = len(scene.turns)
    scene.advance(60)
    assert all(not t.node_patch and not t.pod_writes for t in scene.turns[before:])


def test_the_mirror_pod_looks_as_a_kubelet_makes_it() -> None:
    raw: dict[str, Any] = build_static_plugin("n1", "node-uid")
    notes = raw["metadata"]["annotations"]
    assert raw["metadata"]["name"] == MIRROR
    assert raw["metadata"]["labels"] == {"component": "nvidia-device-plugin"}
    assert raw["metadata"]["ownerReferences"][0]["kind"] == "Node"
    assert notes["kubernetes.io/config.source"] == "file"
    assert notes["kubernetes.io/config.mirror"] == notes["kubernetes.io/config.hash"]
    assert build_static_plugin("n2", "uid")["metadata"]["annotations"] != notes


def test_nvidias_plugin_serves_whole_cards_beside_a_sharing_one_and_zeroes_nothing() -> None:
    scene = serving(SHARE)
    scene.add_component(NVIDIA)
    scene.advance(1)
    assert (scene.allocatable(names.WHOLE_CARD), scene.allocatable()) == ("1", "15")


def test_nvidias_plugin_beside_the_vendors_takes_the_resource_and_leaves_it_empty() -> None:
    scene = Scene({"ack.node.gpu.schedule": "default"})
    scene.add_component("ack-nvidia-device-plugin")
    scene.advance(1)
    scene.add_component(NVIDIA)
    scene.advance(1)
    scene.add_pod("a", CARD)
    scene.advance(1)
    assert scene.got("a")["plugin"] == f"{NVIDIA}-uid"
    scene.remove(NVIDIA)
    scene.advance(1)
    assert scene.pod("ack-nvidia-device-plugin").ready
    assert scene.allocatable(names.WHOLE_CARD) == "0"


def test_nvidias_daemonset_makes_pods_that_the_simulator_plays() -> None:
    manifest = build_nvidia_plugin({"gpu": "yes"})
    template = manifest["spec"]["template"]
    owner = {"kind": "DaemonSet", "name": manifest["metadata"]["name"]}
    meta = {**template["metadata"], "namespace": "kube-system", "ownerReferences": [owner]}
    pod = parse_pod({"metadata": meta, "spec": template["spec"]})
    assert pod.is_component
    assert pod.component == NVIDIA
    assert pod.node_selector == {"gpu": "yes"}
    wanted = manifest["spec"]["selector"]["matchLabels"]
    assert wanted.items() <= template["metadata"]["labels"].items()


def test_a_mode_change_takes_the_static_plugins_cards_away_for_good() -> None:
    scene = with_static_plugin()
    scene.label(ack__node__gpu__schedule="share")
    scene.add_component(PLUGIN)
    scene.advance(1)
    assert (scene.capacity(names.WHOLE_CARD), scene.allocatable()) == ("0", "15")
