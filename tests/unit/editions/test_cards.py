"""What shows that a node has cards, and which nodes are never changed."""

from collections.abc import Mapping
from typing import Any

import pytest

from gpushare import names
from gpushare.api.k8s.node import Node, parse_node
from gpushare.api.k8s.taint import Taint
from gpushare.editions.cards import describe_unfit, find_card_sign, may_show_card
from tests.kit.values.objects import a_node

TYPE = "node.kubernetes.io/instance-type"
NFD = "feature.node.kubernetes.io"
AWS, GCE, AZURE = "aws:///us-west-2a/i-0", "gce://project/zone/vm", "azure:///subscriptions/x/vm-0"
ACK = "cn-beijing.i-2ze1"
SIGNS: list[dict[str, str]] = [
    {"aliyun.accelerator/nvidia_count": "8"},
    {"aliyun.accelerator/nvidia_name": "Tesla-T4"},
    {"nvidia.com/gpu.present": "true"},
    {"nvidia.com/gpu.count": "1"},
    {f"{NFD}/pci-10de.present": "true"},
    {f"{NFD}/pci-0302_10de.present": "true"},
    {f"{NFD}/pci-0300_10de.present": "true"},
    {"cloud.google.com/gke-accelerator": "nvidia-tesla-t4"},
    {"k8s.amazonaws.com/accelerator": "nvidia-tesla-v100"},
    {"karpenter.k8s.aws/instance-gpu-manufacturer": "nvidia"},
    {"eks.amazonaws.com/instance-gpu-manufacturer": "nvidia"},
    {"kubernetes.azure.com/accelerator": "nvidia"},
    {"karpenter.azure.com/sku-gpu-manufacturer": "NVIDIA"},
    {"accelerator": "nvidia-t4"},
]


def _bare(
    labels: Mapping[str, str] | None = None, *, owned: frozenset[str] = frozenset(), **more: Any
) -> Node:
    """A node on which no device plugin has ever registered."""
    return a_node(labels=labels, owned=owned, capacity={}, **more)


@pytest.mark.parametrize("labels", SIGNS, ids=str)
def test_a_label_of_a_cloud_or_of_feature_discovery_shows_a_card(labels: dict[str, str]) -> None:
    (key,) = labels
    assert find_card_sign(_bare(labels)).startswith(f"label {key}=")


@pytest.mark.parametrize(
    "part", ["pci-10de_1eb8", "pci-0302_10de_1eb8", "pci-0302_10de_1eb8_10de_12a2"]
)
def test_of_discovered_devices_any_fields_may_be_in_the_label(part: str) -> None:
    """As NVIDIA/gpu-operator#1469 and #114, where other fields were configured than expected."""
    assert find_card_sign(_bare({f"{NFD}/{part}.present": "true"}))


@pytest.mark.parametrize(
    "labels",
    [
        {"aliyun.accelerator/nvidia_count": "0"},
        # As in NVIDIA/gpu-operator#580.
        {"nvidia.com/gpu.present": "false"},
        {"nvidia.com/gpu.count": "0"},
        {"nvidia.com/gpu.deploy.operands": "true"},
        {f"{NFD}/pci-0300_1a03.present": "true"},
        {f"{NFD}/pci-0200_15b3.present": "true"},
        {f"{NFD}/pci-1002.present": "true"},
        {f"{NFD}/pci-0200_10de.present": "true"},
        {f"{NFD}/pci-10de.sriov.capable": "true"},
        {"cloud.google.com/gke-tpu-accelerator": "tpu-v5-lite-podslice"},
        {"karpenter.k8s.aws/instance-gpu-manufacturer": "amd"},
        {"k8s.amazonaws.com/accelerator": "amd-radeon-pro-v520"},
        {"accelerator": "huawei-npu"},
        {"gpu": "false"},
        {"team": "nvidia"},
        {names.LABEL_POOL: "training"},
    ],
    ids=str,
)
def test_no_other_label_and_no_other_value_does(labels: dict[str, str]) -> None:
    assert find_card_sign(_bare(labels)) == ""


@pytest.mark.parametrize(
    "resource",
    ["aliyun.com/gpu-mem", "nvidia.com/gpu", "nvidia.com/gpu.shared", "nvidia.com/mig-1g.5gb"],
)
def test_a_resource_in_capacity_shows_a_card_also_while_it_is_0(resource: str) -> None:
    status = {"capacity": {"cpu": "4", resource: "0"}}
    node = parse_node({"metadata": {"name": "gpu-1", "uid": "1"}, "status": status})
    assert find_card_sign(node) == f"resource {resource}"


@pytest.mark.parametrize("resource", ["cpu", "nvidia.com/hostdev", "amd.com/gpu", "aliyun.com/eni"])
def test_another_resource_shows_none(resource: str) -> None:
    node = parse_node(
        {"metadata": {"name": "cpu-1", "uid": "1"}, "status": {"capacity": {resource: "4"}}}
    )
    assert find_card_sign(node) == ""


@pytest.mark.parametrize(
    ("provider", "instance_types"),
    [
        (ACK, "ecs.gn6i-c4g1.xlarge ecs.gn7i-c8g1.2xlarge ecs.gn8v.4xlarge ecs.ebmgn7e.32xlarge"),
        (ACK, "ecs.vgn6i-m4.xlarge ecs.sgn7i-vws-m2.xlarge ecs.sccgn7ex.32xlarge"),
        (AWS, "p3.2xlarge p4d.24xlarge p5en.48xlarge p6-b200.48xlarge p6e-gb200.36xlarge"),
        (AWS, "g3s.xlarge g4dn.xlarge g5.xlarge g5g.xlarge g6e.12xlarge gr6.4xlarge"),
        (
            GCE,
            "a2-highgpu-1g a3-megagpu-8g a4-highgpu-8g a4x-highgpu-4g g2-standard-4 g4-standard-48",
        ),
        (AZURE, "Standard_NC6s_v3 Standard_NC24ads_A100_v4 Standard_NV36ads_A10_v5"),
        (AZURE, "Standard_ND96isr_H100_v5 Standard_NV6"),
    ],
)
def test_a_gpu_instance_type_shows_a_card(provider: str, instance_types: str) -> None:
    unknown = [
        each
        for each in instance_types.split()
        if not find_card_sign(_bare({TYPE: each}, provider_id=provider))
    ]
    assert unknown == []


@pytest.mark.parametrize(
    ("provider", "instance_types"),
    [
        # General purpose, AMD's cards, and none at all.
        (ACK, "ecs.g7.xlarge ecs.g7ne.large ecs.gi6s.4xlarge ecs.ebmg7.32xlarge ecs.ga1.2xlarge"),
        (AWS, "m5.large c7g.xlarge g4ad.xlarge inf2.xlarge trn1.2xlarge r6g.large t3.micro"),
        (GCE, "n1-standard-4 e2-medium a1-custom c3-standard-4 g1-small"),
        (AZURE, "Standard_D4s_v5 Standard_NV4as_v4 Standard_ND96isr_MI300X_v5 Standard_NP10s"),
        (AZURE, "Standard_NV4ads_V710_v5"),
        # Of other clouds, the names mean something else.
        ("linode://1", "g6-standard-2 g6-nanode-1"),
        ("openstack:///1", "p2.large g4.medium a2-standard g5.xlarge"),
    ],
)
def test_another_instance_type_shows_none(provider: str, instance_types: str) -> None:
    taken = [
        each
        for each in instance_types.split()
        if find_card_sign(_bare({TYPE: each}, provider_id=provider))
    ]
    assert taken == []


@pytest.mark.parametrize(
    ("labels", "shows"),
    [
        ({names.LABEL_SCHEDULE: "share"}, True),
        ({names.LABEL_CGPU: "true"}, True),
        ({names.LABEL_GPUSHARE: "true"}, True),
        ({names.LABEL_GPUSHARE: "false"}, False),
        ({names.LABEL_CGPU: "False"}, False),
        ({names.LABEL_SCHEDULE: ""}, False),
        ({names.LABEL_SCHEDULE: "none"}, False),
    ],
    ids=str,
)
def test_a_mode_that_a_person_wrote_shows_a_card(labels: dict[str, str], shows: bool) -> None:
    assert bool(find_card_sign(_bare(labels))) is shows


@pytest.mark.parametrize(
    ("initial", "managers", "shows"),
    [
        (None, {}, False),
        ({names.LABEL_SCHEDULE: None}, {}, False),
        ({names.LABEL_SCHEDULE: "false"}, {}, False),
        # A person had written another value before, or writes the same.
        ({names.LABEL_SCHEDULE: "cgpu"}, {}, True),
        ({names.LABEL_SCHEDULE: None}, {names.LABEL_SCHEDULE: "kubectl"}, True),
    ],
)
def test_a_mode_that_the_operator_wrote_shows_none(
    initial: dict[str, str | None] | None, managers: dict[str, str], shows: bool
) -> None:
    ours = frozenset({names.LABEL_SCHEDULE})
    node = _bare({names.LABEL_SCHEDULE: "share"}, owned=ours, managers=managers)
    assert bool(find_card_sign(node, initial)) is shows


@pytest.mark.parametrize(
    ("node", "why"),
    [
        (_bare({names.LABEL_OS: "windows"}), "windows"),
        (_bare(operating_system="windows"), "windows"),
        (_bare({"type": "virtual-kubelet"}), "virtual"),
        (_bare({"eks.amazonaws.com/compute-type": "fargate"}), "virtual"),
        (_bare(taints=(Taint("virtual-kubelet.io/provider", value="alibabacloud"),)), "virtual"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_node_that_is_not_linux_or_is_virtual_is_unfit(node: Node, why: str) -> None:
    assert why in describe_unfit(node)


@pytest.mark.parametrize(
    "node",
    [
        _bare(),
        _bare({names.LABEL_OS: "linux"}, operating_system="linux"),
        _bare({"type": "gpu"}, taints=(Taint("nvidia.com/gpu"),)),
    ],
)
def test_any_other_node_is_fit(node: Node) -> None:
    assert describe_unfit(node) == ""


def test_each_label_that_may_decide_wakes_the_planner() -> None:
    keys = [*(key for sign in SIGNS for key in sign), TYPE, names.LABEL_OS, "type"]
    # Every label of NVIDIA's wakes it anyway.
    asleep = [key for key in keys if not may_show_card(key)]
    assert [key for key in asleep if not key.startswith(names.NVIDIA_PREFIX)] == []
    assert not may_show_card(f"{NFD}/cpu-hardware_multithreading")
