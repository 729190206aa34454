"""The NVIDIA edition: NVIDIA's device plugin with its config-manager, by chart or GPU Operator.

A node label names a key of the plugin's ConfigMap, whose entry says how cards are shared. So a mode
has no fixed name: it is a `NvidiaConfig`, with the key alone as long as nobody has read the entry,
and then with what the entry says, which tells what was loaded also when the entry is edited.

Source: NVIDIA/k8s-device-plugin (api/config/v1, cmd/config-manager, internal/lm).
"""

from collections.abc import Mapping, Sequence
from functools import lru_cache

from gpushare import names
from gpushare.api.k8s.daemonset import (
    GFD_DAEMONSET,
    NVIDIA_DAEMONSET,
    NVIDIA_MPS_DAEMONSET,
)
from gpushare.api.k8s.node import Node
from gpushare.api.k8s.pod import Pod
from gpushare.api.nvidia_plugin import NvidiaConfig, SharingStrategy
from gpushare.api.pool import Edition
from gpushare.editions.edition import EditionDescription, Mode, Outcome, Transition

_CARDS, _RENAMED = names.RESOURCE_WHOLE_GPU, names.RESOURCE_SHARED_GPU
_COUNT, _REPLICAS = f"{_CARDS}.count", names.LABEL_REPLICAS
_STRATEGY = f"{_CARDS}.sharing-strategy"
"""Labels of GPU feature discovery, which reads the configuration by itself."""


@lru_cache(maxsize=4096)
def build_mode(config: NvidiaConfig) -> Mode:
    """Build the mode of a node that has loaded `config`."""
    is_mps = config.strategy is SharingStrategy.MPS
    resource, other = (_RENAMED, _CARDS) if config.renamed else (_CARDS, _RENAMED)
    return Mode(
        Edition.NVIDIA,
        config,
        {names.LABEL_NVIDIA_CONFIG: config.key} if config.key else {},
        resource,
        NVIDIA_DAEMONSET,
        (GFD_DAEMONSET, NVIDIA_MPS_DAEMONSET) if is_mps else (GFD_DAEMONSET,),
        also_used=(other,),
        config=config.key,
        restarts_components=True,
        # It follows its label while it runs, so that nobody has to restart it when that is put
        # back; and a restart of the MPS daemon ends its clients.
        reads_label=False,
        is_resolved=config.strategy is not None,
    )


def find_expected_state(node: Node, mode: Mode) -> tuple[Mapping[str, str], Mapping[str, int]]:
    """Find what a node shows that has loaded the mode: labels of GPU feature discovery, and amounts
    of resources, where that says how many cards there are.

    The plugin is the first witness, discovery the second: 4 time slices and 4 MPS clients are
    offered alike. Each reads the configuration by itself.
    """
    config, count = mode.schedule, node.labels.get(_COUNT, "")
    if not isinstance(config, NvidiaConfig) or config.strategy is None:
        return {}, {}
    labels = {_STRATEGY: str(config.strategy), _REPLICAS: str(config.replicas)}
    amounts = {mode.resource: int(count) * config.replicas} if count.isdecimal() else {}
    return labels, {**amounts, **dict.fromkeys(mode.also_used, 0)}


def count_lacking_cards(node: Node) -> int:
    """Count the cards of which the plugin offers nothing, or not all; 0 where it offers none."""
    count, replicas = node.labels.get(_COUNT, ""), node.labels.get(_REPLICAS, "")
    if not (count.isdecimal() and replicas.isdecimal()):
        return 0
    offered = sum(node.allocatable.get(resource, 0) for resource in (_CARDS, _RENAMED))
    cards = offered // max(int(replicas), 1)
    return max(int(count) - cards, 0) if cards else 0


def _is_healthy_part(node: Node, resource: str, amount: int, lacking_cards: int) -> bool:
    """Tell whether less than `amount` is offered because cards are unhealthy, or gone.

    What the plugin calls unhealthy stays in the kubelet's capacity, so all of it there shows that
    the mode is loaded, whatever is left: of an unhealthy card it may call only one slice that
    (NVIDIA/k8s-device-plugin, issue 1929). A plugin that lists fewer cards may still find them,
    unless they were lacking before.
    """
    offered, count = node.allocatable.get(resource, 0), int(node.labels[_COUNT])
    listed = max(node.capacity.get(resource, 0), offered)
    if not 0 < offered < amount or listed > amount:
        return False
    replicas = amount // count
    return listed % replicas == 0 and amount - listed <= lacking_cards * replicas


def find_difference(node: Node, pods: Sequence[Pod], mode: Mode, lacking_cards: int = 0) -> str:
    """Find what shows that the mode is not loaded; empty where nothing does, though the node may
    offer nothing of cards that are unhealthy or of so many that it lacked before."""
    labels, amounts = find_expected_state(node, mode)
    plugins = sorted(p.name for p in pods if p.daemonset == mode.plugin and p.phase == "Running")
    if len(plugins) > 1:
        return f"{' and '.join(plugins)} both run NVIDIA's device plugin on the node"
    if labels and mode.resource not in amounts:
        return f"GPU feature discovery has not written the label {_COUNT}"
    for resource, amount in amounts.items():
        offered = node.allocatable.get(resource, 0)
        if offered != amount and not _is_healthy_part(node, resource, amount, lacking_cards):
            return f"The node offers {offered} {resource}, {amount} are expected for its cards"
    for key, value in labels.items():
        if node.labels.get(key) != value:
            return f"Label {key} is {node.labels.get(key, 'missing')}, {value} is expected"
    if labels and NVIDIA_MPS_DAEMONSET not in mode.components:
        left = [pod.name for pod in pods if pod.daemonset == NVIDIA_MPS_DAEMONSET]
        return f"Pod {left[0]} of the MPS daemon is still on the node" if left else ""
    return ""


NVIDIA = EditionDescription(
    edition=Edition.NVIDIA,
    switch=names.LABEL_NVIDIA_CONFIG,
    find_schedule=lambda labels: NvidiaConfig(labels.get(names.LABEL_NVIDIA_CONFIG, "")),
    modes=(),
    build_mode=build_mode,
    find_expected_state=find_expected_state,
    find_difference=find_difference,
    count_lacking_cards=count_lacking_cards,
    needs={
        "reload": Transition(
            Outcome.APPLY_AND_RESTART,
            "The plugin loads the configuration that the label names when it starts. The IDs of "
            "its devices change, so the cards of pods that still run would be allocated again",
            "NVIDIA/k8s-device-plugin: cmd/config-manager, internal/rm",
        )
    },
    matrix="""
        of   any
        any  reload
    """,
    every_change="reload",
    namespace_value="nvidia.namespace",
    installed_by="NVIDIA's GPU Operator, or the chart nvidia-device-plugin",
    has_scheduler_extender=False,
    card_annotation="",
)
