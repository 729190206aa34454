"""The manifests of simulated GPU nodes."""

import ipaddress

from devcluster.nodes import build_gpu_node, internal_ip, is_open


def test_a_node_carries_the_card_inventory_that_ack_writes_at_join() -> None:
    labels = build_gpu_node("n", cards=2, card_memory_gib=15)["metadata"]["labels"]
    assert labels["aliyun.accelerator/nvidia_count"] == "2"
    assert labels["aliyun.accelerator/nvidia_mem"] == "16130MiB"
    assert labels["aliyun.accelerator/nvidia_name"] == "Tesla-V100-SXM2-16GB"
    assert labels["kubernetes.io/hostname"] == "n"


def test_a_node_tells_the_simulator_its_cards_and_kwok_that_it_is_fake() -> None:
    annotations = build_gpu_node("n", cards=4, card_memory_gib=80)["metadata"]["annotations"]
    assert annotations["sim.devcluster/cards"] == "4"
    assert annotations["sim.devcluster/card-memory-gib"] == "80"
    assert annotations["kwok.x-k8s.io/node"] == "fake"


def test_a_node_offers_no_gpu_before_a_plugin_has_registered() -> None:
    assert set(build_gpu_node("n")["status"]["capacity"]) == {"cpu", "memory", "pods"}


def test_labels_and_annotations_of_a_test_go_before_the_usual_ones() -> None:
    node = build_gpu_node(
        "n",
        labels={"cgpu": "true", "aliyun.accelerator/nvidia_name": "A10"},
        annotations={"sim.devcluster/fault": "{}"},
    )
    assert node["metadata"]["labels"]["cgpu"] == "true"
    assert node["metadata"]["labels"]["aliyun.accelerator/nvidia_name"] == "A10"
    assert node["metadata"]["annotations"]["sim.devcluster/fault"] == "{}"


def test_the_address_is_the_one_in_an_ack_nodes_name() -> None:
    assert internal_ip("cn-hangzhou.192.168.2.167") == "192.168.2.167"


def test_a_name_without_an_address_always_gets_the_same_private_one() -> None:
    address = internal_ip("gpu-17")
    assert ipaddress.ip_address(address).is_private
    assert address == internal_ip("gpu-17") != internal_ip("gpu-18")


def test_two_nodes_have_boots_of_their_own() -> None:
    boots = {build_gpu_node(name)["status"]["nodeInfo"]["bootID"] for name in ("a", "b")}
    assert len(boots) == 2


def test_a_node_takes_pods_once_it_is_ready_and_its_first_taint_is_gone() -> None:
    node = build_gpu_node("n")
    tainted = {**node, "spec": {"taints": [{"key": "node.kubernetes.io/not-ready"}]}}
    assert is_open(node)
    assert not is_open(tainted)
    assert not is_open({"status": {}})
