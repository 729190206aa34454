"""Generates random machines of untidy clusters."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from random import Random

from tests.kit.histories.machine import CARD_LABELS, Machine

OS, ARCH = "kubernetes.io/os", "kubernetes.io/arch"
INSTANCE_TYPE = "node.kubernetes.io/instance-type"
ZONE = "topology.kubernetes.io/zone"
CARD_MODEL, PRODUCT = "aliyun.accelerator/nvidia_name", "nvidia.com/gpu.product"
ZONES = ("cn-hangzhou-h", "cn-hangzhou-i")
MODELS = ("NVIDIA-A10", "Tesla-T4")
_SIGNS: tuple[Mapping[str, str], ...] = (
    CARD_LABELS,
    {"nvidia.com/gpu.present": "true"},
    {"feature.node.kubernetes.io/pci-10de.present": "true"},
    {INSTANCE_TYPE: "ecs.gn7i-c8g1.2xlarge"},
)
"""Labels for cards of the platform, NVIDIA's operator, node feature discovery and the cloud."""
_TAINTS: tuple[Mapping[str, str], ...] = (
    {"key": "dedicated", "value": "batch", "effect": "NoSchedule"},
    {"key": "example.com/gpu-unhealthy", "effect": "NoExecute"},
    {"key": "DeletionCandidateOfClusterAutoscaler", "effect": "PreferNoSchedule"},
)


def generate_machine(chance: Random) -> Machine:
    """Generate a machine of any kind; two thirds have cards."""
    labels = {
        OS: "linux",
        ARCH: "amd64",
        INSTANCE_TYPE: "ecs.g7.xlarge",
        ZONE: chance.choice(ZONES),
    }
    return chance.choice(_KINDS)(chance, Machine("CPU", 0, shows_cards=False, labels=labels))


def _with_cards(chance: Random, bare: Machine) -> Machine:
    sign = chance.choice(_SIGNS)
    model = chance.choice(MODELS)
    labels = {**bare.labels, **sign}
    if chance.random() < 0.7:
        labels |= {CARD_MODEL: model} if chance.random() < 0.6 else {PRODUCT: model}
    cards = chance.choice((1, 1, 2, 4))
    return replace(bare, kind="GPU", cards=cards, shows_cards=True, labels=labels)


def _without_sign(chance: Random, bare: Machine) -> Machine:
    return replace(bare, kind="GPU that nothing shows", cards=chance.choice((1, 2)))


def _with_unhealthy_card(chance: Random, bare: Machine) -> Machine:
    machine = _with_cards(chance, bare)
    return replace(machine, kind="GPU, one card unhealthy", cards=machine.cards + 1, unhealthy=1)


def _slow(chance: Random, bare: Machine) -> Machine:
    machine = _with_cards(chance, bare)
    return replace(machine, kind="slow GPU", returning_seconds=chance.choice((15, 45, 120)))


def _tainted(chance: Random, bare: Machine) -> Machine:
    machine = _with_cards(chance, bare)
    return replace(machine, kind="tainted GPU", taints=(chance.choice(_TAINTS),))


def _windows(chance: Random, bare: Machine) -> Machine:
    labels = {**bare.labels, OS: "windows"}
    if chance.random() < 0.5:
        labels |= chance.choice(_SIGNS)
    return replace(bare, kind="Windows", operating_system="windows", labels=labels)


def _virtual(chance: Random, bare: Machine) -> Machine:
    """Generate a virtual node of Elastic Container Instance, which claims any number of cards."""
    labels = {**bare.labels, "type": "virtual-kubelet"}
    taint = {"key": "virtual-kubelet.io/provider", "value": "alibabacloud", "effect": "NoSchedule"}
    offered = {"nvidia.com/gpu": 1000} if chance.random() < 0.5 else {}
    return replace(
        bare, kind="virtual", is_virtual=True, labels=labels, taints=(taint,), resources=offered
    )


def _arm(chance: Random, bare: Machine) -> Machine:
    return replace(bare, kind="ARM", architecture="arm64", labels={**bare.labels, ARCH: "arm64"})


def _cpu(chance: Random, bare: Machine) -> Machine:
    return bare


_KINDS: tuple[Callable[[Random, Machine], Machine], ...] = (
    *[_with_cards] * 5,
    _without_sign,
    _with_unhealthy_card,
    _slow,
    _tainted,
    *[_cpu] * 2,
    _windows,
    _virtual,
    _arm,
)
