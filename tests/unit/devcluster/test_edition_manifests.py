"""The editions' DaemonSets: real names, and real ways to choose nodes."""

from typing import Any

import pytest

from devcluster.editions import EDITIONS, Edition, load_edition

SCHEDULE = "ack.node.gpu.schedule"

# DaemonSet -> (nodeSelector, required node affinity as (key, operator, values)).
Selection = tuple[dict[str, str], tuple[str, str, list[str]] | None]
GPU_NODE = ("aliyun.accelerator/nvidia_count", "Exists", list[str]())
SELECTIONS: dict[Edition, dict[str, Selection]] = {
    "OpenSource": {
        "gpushare-device-plugin-ds": ({"gpushare": "true"}, None),
        "device-plugin-evict-ds": ({"gpushare": "true"}, None),
        "device-plugin-recover-ds": ({"gpushare": "false"}, GPU_NODE),
    },
    "Basic": {
        "gpushare-device-plugin-ds": ({"cgpu": "true"}, None),
        "cgpu-installer": ({"cgpu": "true"}, None),
        "device-plugin-evict-ds": ({"cgpu": "true"}, None),
        "device-plugin-recover-ds": ({"cgpu": "false"}, GPU_NODE),
    },
    "Professional": {
        "ack-nvidia-device-plugin": ({SCHEDULE: "default"}, None),
        "nvidia-device-plugin-recover": ({SCHEDULE: "default"}, None),
        "gpushare-device-plugin-ds": ({}, (SCHEDULE, "In", ["share", "cgpu"])),
        "cgpu-installer": ({SCHEDULE: "cgpu"}, None),
        "gpushare-core-device-plugin-ds": ({}, (SCHEDULE, "In", ["core_mem"])),
        "cgpu-core-installer": ({SCHEDULE: "core_mem"}, None),
        "gpushare-mps-device-plugin-ds": ({}, (SCHEDULE, "In", ["mps"])),
        "ack-mps-control": ({SCHEDULE: "mps"}, None),
        "gputopo-device-plugin-ds": ({SCHEDULE: "topology"}, None),
    },
}


def selection(manifest: dict[str, Any]) -> Selection:
    spec = manifest["spec"]["template"]["spec"]
    affinity = None
    if "affinity" in spec:
        required = spec["affinity"]["nodeAffinity"]
        terms = required["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
        [expression] = terms[0]["matchExpressions"]
        affinity = (expression["key"], expression["operator"], expression.get("values", []))
    return spec.get("nodeSelector", {}), affinity


def pod_labels(manifest: dict[str, Any]) -> dict[str, str]:
    labels: dict[str, str] = manifest["spec"]["template"]["metadata"]["labels"]
    return labels


@pytest.mark.parametrize("edition", EDITIONS)
def test_an_edition_has_the_vendors_daemonsets_with_their_node_selection(edition: Edition) -> None:
    found = {item["metadata"]["name"]: selection(item) for item in load_edition(edition)}
    assert found == SELECTIONS[edition]


@pytest.mark.parametrize("edition", EDITIONS)
def test_without_the_name_label_each_daemonset_still_selects_its_own_pods_only(
    edition: Edition,
) -> None:
    manifests = load_edition(edition, name_label=False)
    for manifest in manifests:
        assert "name" not in pod_labels(manifest)
        wanted = manifest["spec"]["selector"]["matchLabels"].items()
        selected = [item for item in manifests if wanted <= pod_labels(item).items()]
        assert selected == [manifest]
