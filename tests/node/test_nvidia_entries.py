"""The table of what NVIDIA's plugin loads is what the plugin does: it is asked on a node."""

import json
from pathlib import Path

import pytest

from devcluster import names
from devcluster.node.cluster import NodeCluster
from devcluster.node.nvidia import lay_out_root
from tests.kit.values.nvidia_entries import ENTRIES, WHOLE, Loaded

pytestmark = pytest.mark.long

LOAD = """
mount -t tmpfs tmpfs /var/lib/kubelet/device-plugins
cat > {root}/entry.yaml
CONFIG_FILE={root}/entry.yaml MPS_ROOT=/mps LD_LIBRARY_PATH={libraries} \
    {root}/bin/nvidia-device-plugin --kubelet-socket= 2>&1 | sed '/Retrieving plugins/q'
"""


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What is in the plugin's image."""
    root = tmp_path_factory.mktemp("root")
    lay_out_root(root)
    return root


def load(cluster: NodeCluster, root: Path, text: str) -> Loaded:
    """Let the plugin load an entry, on the node, where no kubelet meets it."""
    (nvml,) = root.rglob("libnvidia-ml.so.1")
    (node,) = cluster.nodes.values()
    script = LOAD.format(root=root, libraries=nvml.parent)
    said = node.namespaces.run("unshare", "--mount", "bash", "-c", script, stdin=text)
    _, found, config = said.partition("Running with config:\n")
    if not found:
        assert "unable to load config" in said
        return None
    sharing = json.JSONDecoder().raw_decode(config)[0]["sharing"]
    is_mps = "mps" in sharing
    resources = (sharing["mps"] if is_mps else sharing["timeSlicing"]).get("resources", [])
    of_cards = [each for each in resources if each["name"] == names.WHOLE_CARD]
    if not of_cards:
        return WHOLE
    replicas = max(each["replicas"] for each in of_cards)
    resource = of_cards[0].get("rename", names.WHOLE_CARD)
    return "mps" if is_mps else "time-slicing", resource, replicas


@pytest.mark.parametrize("text", ENTRIES)
def test_nvidias_plugin_loads_an_entry_as_the_table_says(
    cluster: NodeCluster, root: Path, text: str
) -> None:
    assert load(cluster, root, text) == ENTRIES[text]
