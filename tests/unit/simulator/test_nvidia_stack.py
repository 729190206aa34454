"""NVIDIA's plugin with its config-manager, GPU feature discovery and the MPS daemon, played."""

import json
from typing import Any

import pytest

from devcluster import names
from devcluster.nvidia import CONFIG_MAP, DISCOVERY, MPS_DAEMONS, NVIDIA_CHART, load_nvidia
from devcluster.simulator.components import NO_CONFIG
from tests.unit.simulator.scene import Scene

CONFIGS = f"{names.NVIDIA_NAMESPACE}/{CONFIG_MAP}"
MANIFESTS = {(each["kind"], each["metadata"]["name"]): each for each in load_nvidia()}
GPU, SHARED = names.WHOLE_CARD, names.SHARED_CARD
PRODUCT = {names.NVIDIA_NAME: "Tesla-T4"}
BROKEN = "sharing: {timeSlicing: {resources: [{name: nvidia.com/gpu, replicas: 1}]}}"


def stack(key: str | None, *daemonsets: str, cards: int = 2) -> Scene:
    """A node with so many cards and this label, on which pods of these DaemonSets have started."""
    scene = Scene(PRODUCT, cards=cards)
    scene.configs[CONFIGS] = dict(MANIFESTS["ConfigMap", CONFIG_MAP]["data"])
    label(scene, key)
    for name in daemonsets or (NVIDIA_CHART,):
        scene.add_pod_of(MANIFESTS["DaemonSet", name])
    scene.advance(3)
    return scene


def label(scene: Scene, key: str | None) -> None:
    scene.label_node(names.DEVICE_PLUGIN_CONFIG, key)


def restart_pod(scene: Scene, name: str = NVIDIA_CHART) -> None:
    """The DaemonSet controller replaces the pod that somebody has deleted."""
    scene.delete(name)
    scene.advance(0.1)
    scene.add_pod_of(MANIFESTS["DaemonSet", name])
    scene.advance(3)


def offered(scene: Scene, resource: str = GPU) -> str | None:
    return scene.node.allocatable.get(resource)


def state(scene: Scene, suffix: str, field: str = "containerStatuses") -> Any:
    """The state of the plugin's container whose name ends so."""
    (one,) = [each for each in scene.status(NVIDIA_CHART)[field] if each["name"].endswith(suffix)]
    return one["state"]


def found(scene: Scene) -> tuple[str | None, ...]:
    """What GPU feature discovery says: count, replicas, strategy, product, MPS."""
    keys = (
        names.GPUS,
        names.GPU_REPLICAS,
        names.SHARING_STRATEGY,
        names.GPU_PRODUCT,
        names.MPS_CAPABLE,
    )
    return tuple(scene.node.labels.get(key) for key in keys)


@pytest.mark.parametrize(("key", "units"), [("whole", "2"), ("slices-4", "8"), (None, "2")])
def test_the_plugin_registers_each_card_as_often_as_the_labels_configuration_says(
    key: str | None, units: str
) -> None:
    scene = stack(key)

    assert (offered(scene), scene.pod(NVIDIA_CHART).ready) == (units, True)


def test_without_a_label_the_default_counts_else_the_only_key() -> None:
    scene = stack("whole")
    label(scene, None)
    slices = scene.configs[CONFIGS]["slices-8"]

    for data in ({"default": slices, "other": ""}, {"only": slices}):
        scene.configs[CONFIGS] = data
        restart_pod(scene)
        assert offered(scene) == "16"


def test_a_plugin_without_config_manager_shares_nothing_whatever_the_label_says() -> None:
    scene = Scene({names.DEVICE_PLUGIN_CONFIG: "slices-4"}, cards=2)
    scene.add_component(names.NVIDIA_PLUGIN)
    scene.advance(1)

    assert offered(scene) == "2"


def test_where_init_sees_the_label_a_plugin_that_starts_with_an_unknown_key_hangs_in_it() -> None:
    scene = stack("whole")
    scene.annotate_node(names.SEES_LABEL, "true")
    label(scene, "nonsense")
    restart_pod(scene)

    assert (scene.pod(NVIDIA_CHART).phase, offered(scene)) == ("Pending", "0")
    init = state(scene, "-init", "initContainerStatuses")["waiting"]
    assert init["reason"] == "CrashLoopBackOff"
    assert state(scene, "-ctr")["waiting"]["reason"] == "PodInitializing"
    initialized, *_ = scene.status(NVIDIA_CHART)["conditions"]
    assert initialized["status"] == "False"

    label(scene, "slices-4")
    scene.advance(1)

    assert (scene.pod(NVIDIA_CHART).ready, offered(scene)) == (True, "8")
    assert "terminated" in state(scene, "-init", "initContainerStatuses")


def test_init_misses_the_label_and_the_default_counts_until_the_sidecar_follows() -> None:
    scene = stack("nonsense")

    assert (offered(scene), scene.pod(NVIDIA_CHART).ready) == ("2", False)
    assert state(scene, "-sidecar")["waiting"]["reason"] == "CrashLoopBackOff"

    label(scene, "slices-4")
    scene.advance(1)
    assert (offered(scene), scene.pod(NVIDIA_CHART).ready) == ("8", True)

    label(scene, "nonsense")
    scene.advance(1)
    assert (offered(scene), scene.pod(NVIDIA_CHART).ready) == ("2", False)


def test_a_new_label_is_taken_in_place_and_the_resource_is_gone_meanwhile() -> None:
    scene = stack("whole")
    scene.fault(resource_delay_seconds=5)

    label(scene, "slices-4")
    scene.advance(1)
    assert (offered(scene), scene.node.capacity[GPU]) == ("0", "2")
    scene.advance(5)

    pod = scene.pod(NVIDIA_CHART)
    assert (offered(scene), pod.ready) == ("8", True)
    assert {shown.restarts for shown in pod.shown.values()} == {0}


def test_where_init_sees_the_label_the_old_configuration_serves_on_at_an_unknown_key() -> None:
    scene = stack("slices-4")
    scene.annotate_node(names.SEES_LABEL, "true")

    label(scene, "nonsense")
    scene.advance(1)
    assert (offered(scene), scene.pod(NVIDIA_CHART).ready) == ("8", False)
    (sidecar,) = [
        each
        for each in scene.status(NVIDIA_CHART)["containerStatuses"]
        if each["name"].endswith("-sidecar")
    ]
    assert sidecar["lastState"]["terminated"]["message"] == NO_CONFIG

    label(scene, "slices-4")
    scene.advance(0.1)
    assert (offered(scene), scene.pod(NVIDIA_CHART).ready) == ("8", True)


@pytest.mark.parametrize("way", ["pod", "signal"])
def test_an_edited_configuration_is_unseen_until_the_plugin_reads_again(way: str) -> None:
    scene = stack("slices-4")

    scene.configs[CONFIGS]["slices-4"] = scene.configs[CONFIGS]["slices-8"]
    scene.advance(3)
    assert offered(scene) == "8"
    if way == "pod":
        restart_pod(scene)
    else:
        scene.annotate_pod(NVIDIA_CHART, names.SIGNAL, "1")
        scene.advance(1)

    assert offered(scene) == "16"


def test_a_configuration_that_cannot_be_read_ends_the_plugin_until_it_is_mended() -> None:
    scene = stack("whole")
    scene.configs[CONFIGS]["slices-4"] = BROKEN

    label(scene, "slices-4")
    scene.advance(1)
    assert (offered(scene), scene.pod(NVIDIA_CHART).ready) == ("0", False)
    assert state(scene, "-ctr")["waiting"]["reason"] == "CrashLoopBackOff"

    scene.configs[CONFIGS]["slices-4"] = scene.configs[CONFIGS]["slices-8"]
    scene.advance(1)
    assert (offered(scene), scene.pod(NVIDIA_CHART).ready) == ("16", True)


def test_renamed_slices_leave_zero_under_the_name_that_was_served_before() -> None:
    scene = stack("whole")

    label(scene, "shared-4")
    scene.advance(1)

    assert (offered(scene), offered(scene, SHARED)) == ("0", "8")
    assert offered(stack("shared-4")) is None


def test_feature_discovery_tells_the_configuration_later_and_by_itself() -> None:
    scene = stack("whole", NVIDIA_CHART, DISCOVERY)
    assert found(scene) == ("2", "1", "none", "Tesla-T4", "false")
    scene.fault(discovery_delay_seconds=5)

    label(scene, "slices-4")
    scene.advance(1)
    assert (offered(scene), found(scene)[1]) == ("8", "1")
    scene.advance(5)
    assert found(scene) == ("2", "4", "time-slicing", "Tesla-T4-SHARED", "false")

    for key, replicas, strategy, product, mps in (
        ("shared-4", "4", "time-slicing", "Tesla-T4", "false"),
        ("mps-8", "8", "mps", "Tesla-T4-SHARED", "true"),
    ):
        label(scene, key)
        scene.advance(6)
        assert found(scene) == ("2", replicas, strategy, product, mps)


def test_with_mps_nothing_is_served_until_a_daemon_answers() -> None:
    scene = stack("mps-8")
    assert (offered(scene), scene.pod(NVIDIA_CHART).ready) == (None, True)

    scene.add_pod_of(MANIFESTS["DaemonSet", MPS_DAEMONS])
    scene.advance(3)

    assert offered(scene) == "16"


def test_the_mps_daemon_keeps_its_configuration_until_its_pod_restarts() -> None:
    scene = stack("mps-8", NVIDIA_CHART, MPS_DAEMONS)
    scene.configs[CONFIGS]["mps-4"] = scene.configs[CONFIGS]["mps-8"].replace("8", "4")

    def split() -> int:
        read = json.loads(scene.pod(MPS_DAEMONS).annotations[names.READ])
        replicas: int = read["config"]["replicas"]
        return replicas

    label(scene, "mps-4")
    scene.advance(3)
    assert (offered(scene), split()) == ("8", 8)

    restart_pod(scene, MPS_DAEMONS)
    assert split() == 4


@pytest.mark.parametrize(("default_key", "is_ready"), [("whole", False), ("mps-8", True)])
def test_the_mps_daemon_is_ready_with_its_key_as_the_default_alone(
    default_key: str, is_ready: bool
) -> None:
    scene = stack("mps-8")
    (daemons,) = [
        each for each in load_nvidia(default_key) if each["metadata"]["name"] == MPS_DAEMONS
    ]
    scene.add_pod_of(daemons)
    scene.advance(3)

    assert (offered(scene), scene.pod(MPS_DAEMONS).ready) == ("16", is_ready)


def test_a_plugin_that_is_gone_leaves_zero() -> None:
    scene = stack("slices-4")

    scene.delete(NVIDIA_CHART)
    scene.advance(1)

    assert (offered(scene), scene.node.capacity[GPU]) == ("0", "8")


@pytest.mark.parametrize(("key", "resource"), [("slices-4", GPU), ("shared-4", SHARED)])
def test_pods_share_the_cards_evenly_and_one_too_many_is_refused(key: str, resource: str) -> None:
    scene = stack(key)

    for number in range(9):
        scene.add_pod(f"p{number}", {resource: 1})
        scene.play()

    cards = [scene.got(f"p{number}")["card"] for number in range(8)]
    assert (cards.count(0), cards.count(1)) == (4, 4)
    assert scene.status("p8")["reason"] == "UnexpectedAdmissionError"


@pytest.mark.parametrize(
    ("key", "more", "outcome"),
    [
        ("slices-8", "", None),
        ("slices-8", "failRequestsGreaterThanOne: true, ", "UnexpectedAdmissionError"),
        ("mps-8", "", "UnexpectedAdmissionError"),
        ("mps-8", "failRequestsGreaterThanOne: false, ", None),
    ],
)
def test_a_container_gets_several_replicas_unless_the_configuration_refuses_that(
    key: str, more: str, outcome: str | None
) -> None:
    scene = stack("whole", NVIDIA_CHART, MPS_DAEMONS)
    section = "mps" if key == "mps-8" else "timeSlicing"
    entry = f"sharing: {{{section}: {{{more}resources: [{{name: {GPU}, replicas: 8}}]}}}}"
    scene.configs[CONFIGS][key] = entry
    label(scene, key)
    restart_pod(scene, MPS_DAEMONS)
    assert offered(scene) == "16"

    scene.add_pod("two", {GPU: 2})
    scene.play()

    assert scene.status("two").get("reason") == outcome
