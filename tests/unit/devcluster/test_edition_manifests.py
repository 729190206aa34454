"""The editions' DaemonSets: those that the modes need, on nodes with the modes' labels."""

from typing import Any

import pytest

from devcluster.editions import EDITIONS, Edition, load_edition
from devcluster.simulator.affinity import selects
from devcluster.simulator.objects import Node, parse_pod
from gpushare.editions.edition import Mode
from gpushare.editions.registry import MODES

INVENTORY = {"aliyun.accelerator/nvidia_count": "1"}


def pod_labels(manifest: dict[str, Any]) -> dict[str, str]:
    labels: dict[str, str] = manifest["spec"]["template"]["metadata"]["labels"]
    return labels


def list_selecting(mode: Mode) -> set[str]:
    """The edition's DaemonSets whose pods come to a node in that mode."""
    node = Node("n1", labels={**INVENTORY, **mode.labels})
    (edition,) = (each for each in EDITIONS if each == mode.edition)
    return {
        manifest["metadata"]["name"]
        for manifest in load_edition(edition)
        if selects(parse_pod(manifest["spec"]["template"]), node)
    }


@pytest.mark.parametrize("mode", MODES.values(), ids=lambda m: f"{m.edition} {m.schedule}")
def test_a_nodes_labels_bring_the_daemonsets_of_its_mode_and_of_no_other(mode: Mode) -> None:
    of_edition = [each for each in MODES.values() if each.edition == mode.edition]
    needed = {name for each in of_edition for name in each.daemonsets}
    assert list_selecting(mode) & needed == set(mode.daemonsets)


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
