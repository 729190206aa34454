"""What a Pod shows of cards that it may hold, or give out, although nobody counts them."""

from typing import Any

import pytest

from gpushare.api.k8s.gpu_request import ALL_DEVICES
from gpushare.api.k8s.pod import NO_CARD, Pod, parse_pod
from gpushare.api.pruned.cluster import Kind, keep_object
from tests.kit.values.manifests import build_pod

PLUGINS_FOLDER = "/var/lib/kubelet/device-plugins"
CGPU_OFF = [{"name": "CGPU_DISABLE", "value": "true"}]


def visible(value: str | None) -> list[dict[str, Any]]:
    """NVIDIA_VISIBLE_DEVICES with this value; None: from a ConfigMap."""
    name = {"name": "NVIDIA_VISIBLE_DEVICES"}
    source = {"configMapKeyRef": {"name": "gpu", "key": "devices"}}
    return [{**name, "valueFrom": source} if value is None else {**name, "value": value}]


def a_pod(
    *containers: dict[str, Any], paths: tuple[str, ...] = (), owner: str = "", **spec: Any
) -> dict[str, Any]:
    """A pod on node gpu-1 that asks for no GPU, with these containers."""
    pod = build_pod("notebook", gib=None, nodeName="gpu-1", **spec)
    found = [{"name": f"c{number}", **each} for number, each in enumerate(containers)]
    pod["spec"]["containers"] = found or pod["spec"]["containers"]
    pod["spec"]["volumes"] = [{"name": f"v{path}", "hostPath": {"path": path}} for path in paths]
    pod["metadata"] |= {"namespace": "team", "uid": "1"}
    if owner:
        reference = {"kind": "DaemonSet", "name": owner, "uid": "d", "controller": True}
        pod["metadata"]["ownerReferences"] = [reference]
    return pod


def parse(pod: dict[str, Any], *, for_users: bool = False) -> Pod | None:
    return parse_pod(pod, plugin_namespaces=("kube-system",), for_users=for_users)


ALL = {"env": visible("all")}
PRIVILEGED = {"securityContext": {"privileged": True}}
SIGNS = {
    "a runtime class": (a_pod(runtimeClassName="nvidia"), "runtimeClassName nvidia"),
    "another of the GPU Operator": (
        a_pod(runtimeClassName="nvidia-cdi"),
        "runtimeClassName nvidia-cdi",
    ),
    "a variable": (a_pod({}, ALL), "NVIDIA_VISIBLE_DEVICES of container c1"),
    "a variable from elsewhere": (
        a_pod({"env": visible(None)}),
        "NVIDIA_VISIBLE_DEVICES of container c0",
    ),
    "a device": (a_pod(paths=("/tmp", "/dev/nvidia0")), "hostPath /dev/nvidia0"),
    "a mount that names a card": (
        a_pod(
            {"volumeMounts": [{"name": "v", "mountPath": "/var/run/nvidia-container-devices/all"}]},
            paths=("/dev/null",),
        ),
        "a mount below /var/run/nvidia-container-devices of container c0",
    ),
    "Koordinator's GPUs": (
        a_pod({}, {"resources": {"limits": {"koordinator.sh/gpu-core": "50"}}}),
        "koordinator.sh/gpu-core of container c1",
    ),
    "Volcano's memory": (
        a_pod({"resources": {"limits": {"volcano.sh/gpu-memory": "1024"}}}),
        "volcano.sh/gpu-memory of container c0",
    ),
    "Volcano's vGPUs, whatever else shows cards": (
        a_pod({**ALL, "resources": {"limits": {"volcano.sh/vgpu-number": "1"}}}),
        "volcano.sh/vgpu-number of container c0",
    ),
    "one container of two hides them": (
        a_pod({"env": visible("void")}, {}, runtimeClassName="nvidia"),
        "runtimeClassName nvidia",
    ),
}


@pytest.mark.parametrize(("raw", "sign"), SIGNS.values(), ids=SIGNS)
def test_what_shows_that_a_pod_may_hold_cards_is_read_also_from_a_snapshot(
    raw: dict[str, Any], sign: str
) -> None:
    for each in (raw, keep_object(Kind.PODS, raw)):
        assert each is not None
        pod = parse(each)
        assert pod is not None
        assert (pod.unrequested, pod.may_hold_cards) == (sign, True)


NO_SIGNS = {
    "nothing": a_pod(),
    "another runtime": a_pod(runtimeClassName="gvisor"),
    "no card": a_pod({"env": visible("none")}),
    "void": a_pod({"env": visible("void")}, runtimeClassName="nvidia"),
    "empty": a_pod({"env": visible("")}, runtimeClassName="nvidia"),
    "isolation alone": a_pod({"env": CGPU_OFF}),
    "another device": a_pod(paths=("/dev/sda",)),
    "/dev without the right to use it": a_pod(paths=("/dev",)),
    "privileged alone": a_pod(PRIVILEGED),
    "a slice by its own name": a_pod(
        {"resources": {"limits": {"nvidia.com/mig-1g.5gb": "1"}}}, runtimeClassName="nvidia"
    ),
    "none of Volcano's vGPUs": a_pod({"resources": {"limits": {"volcano.sh/vgpu-number": "0"}}}),
    "Koordinator's CPUs": a_pod({"resources": {"limits": {"koordinator.sh/batch-cpu": "500"}}}),
    "an init container, which ends": a_pod(initContainers=[{"name": "init", **ALL}]),
    "a DaemonSet's": a_pod(ALL, owner="dcgm-exporter", runtimeClassName="nvidia"),
}


@pytest.mark.parametrize("raw", NO_SIGNS.values(), ids=NO_SIGNS)
def test_other_pods_without_a_request_are_not_kept(raw: dict[str, Any]) -> None:
    assert parse(raw) is None


def test_a_pod_that_is_not_bound_holds_nothing() -> None:
    raw = a_pod(ALL)
    del raw["spec"]["nodeName"]
    assert parse(raw) is None


def test_a_pod_that_requests_gpus_is_counted_whatever_it_shows() -> None:
    raw = a_pod({**ALL, "resources": {"limits": {"aliyun.com/gpu-mem": "1"}}})
    pod = parse(raw)
    assert pod is not None
    assert not pod.may_hold_cards


@pytest.mark.parametrize("path", ["/dev", "/dev/", "/"])
def test_a_privileged_pod_with_all_devices_is_kept_for_users_alone(path: str) -> None:
    raw = a_pod({}, PRIVILEGED, paths=(path,))
    kept = keep_object(Kind.PODS, raw)
    assert kept is not None
    pod = parse(kept, for_users=True)
    assert pod is not None
    assert (pod.unrequested, pod.may_hold_cards) == (ALL_DEVICES, False)
    assert parse(raw) is None


GPUSHARE = {"image": "registry.example.com/acs/k8s-gpushare-plugin:v2@sha256:1f"}


@pytest.mark.parametrize(
    ("raw", "daemonset"),
    [
        (a_pod(GPUSHARE, paths=(PLUGINS_FOLDER,)), "another gpushare-device-plugin-ds"),
        (a_pod(GPUSHARE, paths=("/var/lib/kubelet",)), "another gpushare-device-plugin-ds"),
        (a_pod(GPUSHARE, paths=("/",), owner="x"), None),
        (a_pod(paths=(f"{PLUGINS_FOLDER}/",), owner="mine"), "unknown device plugin"),
        (a_pod(paths=("/var/lib/kubelet",), owner="csi-plugin"), None),
        (a_pod(paths=(PLUGINS_FOLDER,), owner="kube-sriov-device-plugin"), None),
        (a_pod({"name": "k8s-rdma-shared-dp"}, paths=(PLUGINS_FOLDER,)), None),
        (a_pod(GPUSHARE, paths=("/tmp",)), None),
        (a_pod(GPUSHARE), None),
    ],
    ids=[
        *("a copy of gpushare's", "with the folder above", "with the whole host"),
        *("an unknown plugin", "a storage driver", "SR-IOV", "RDMA"),
        *("the image, elsewhere", "the image alone"),
    ],
)
def test_a_pod_that_can_register_with_the_kubelet_is_known_by_what_it_mounts(
    raw: dict[str, Any], daemonset: str | None
) -> None:
    kept = keep_object(Kind.PODS, raw)
    pod = None if kept is None else parse(kept, for_users=True)
    assert (None if pod is None else pod.daemonset) == daemonset


@pytest.mark.parametrize("name", ["gpushare-device-plugin-ds", "cgpu-installer", "renamed"])
def test_a_daemonset_that_is_known_is_no_copy(name: str) -> None:
    raw = a_pod(GPUSHARE, paths=(PLUGINS_FOLDER,), owner=name)
    raw["metadata"]["namespace"] = "kube-system"
    names = {"renamed": "gpushare-device-plugin-ds"}
    pod = parse_pod(raw, plugin_namespaces=("kube-system",), standard_names=names)
    assert pod is not None
    assert pod.daemonset == names.get(name, name)


def test_an_unknown_plugin_costs_the_controller_no_memory() -> None:
    raw = a_pod(paths=(PLUGINS_FOLDER,), owner="mine")
    assert parse(raw) is None
    raw["metadata"]["namespace"] = "kube-system"
    assert parse(raw) is None


@pytest.mark.parametrize("state", ["waiting", "terminated"])
def test_a_container_that_was_given_no_card_is_known_by_its_runtimes_message(state: str) -> None:
    said = f"nvidia-container-cli: device error: {NO_CARD}4MiB-to-run: unknown device"
    where = {"state": {"waiting": {"message": said}}}
    if state == "terminated":
        ended = {"reason": "StartError", "message": said}
        where = {"state": {"running": {}}, "lastState": {"terminated": ended}}
    raw = a_pod({"resources": {"limits": {"aliyun.com/gpu-mem": "4"}}})
    raw["status"] = {"phase": "Running", "containerStatuses": [{"name": "c0", **where}]}
    kept = keep_object(Kind.PODS, raw)
    assert kept is not None
    assert "nvidia-container-cli" not in str(kept)
    for each in (raw, kept):
        pod = parse(each)
        assert pod is not None
        assert pod.has_card is False


def test_what_a_program_wrote_when_it_ended_says_nothing_of_its_card() -> None:
    ended = {"reason": "Error", "message": f"{NO_CARD}4MiB-to-run"}
    raw = a_pod({"resources": {"limits": {"aliyun.com/gpu-mem": "4"}}})
    states = {"state": {"running": {}}, "lastState": {"terminated": ended}}
    raw["status"] = {"phase": "Running", "containerStatuses": [{"name": "c0", **states}]}
    pod = parse(raw)
    assert pod is not None
    assert pod.has_card is True


@pytest.mark.parametrize(("assigned", "has_card"), [("true", True), ("false", None), (None, True)])
def test_whether_the_plugin_gave_the_ledgers_card_is_read(
    assigned: str | None, has_card: bool | None
) -> None:
    raw = a_pod({"resources": {"limits": {"aliyun.com/gpu-mem": "4"}}})
    raw["metadata"]["annotations"] = {"ALIYUN_COM_GPU_MEM_ASSIGNED": assigned} if assigned else {}
    for each in (raw, keep_object(Kind.PODS, raw)):
        assert each is not None
        pod = parse(each)
        assert pod is not None
        assert pod.has_card is has_card
