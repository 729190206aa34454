"""The manifests of simulated GPU nodes."""

import ipaddress

from devcluster.nodes import build_gpu_node, internal_ip


def test_a_node_carries_the_card_inventory_that_ack_writes_at_join() -> None:
    labels = build_gpu_node("n", cards=2, card_memory_gib=15)["metadata"]["labels"]
    assert labels["aliyun.accelerator/nvidia_count"] == "2"
    assert labels["aliyun.accelerator/nvidia_mem"] == "16130MiB"
    assert labels["aliyun.accelerator/nvidia_name"] == "Tesla-V100-SXM2-16GB"
    assert labels["kubernetes.io/hostname"] == "n"


def test_the_address_is_the_one_in_an_ack_nodes_name() -> None:
    assert internal_ip("cn-hangzhou.192.168.2.167") == "192.168.2.167"


def test_a_name_without_an_address_always_gets_the_same_private_one() -> None:
    address = internal_ip("gpu-17")
    assert ipaddress.ip_address(address).is_private
    assert address == internal_ip("gpu-17") != internal_ip("gpu-18")
