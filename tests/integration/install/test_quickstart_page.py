"""The commands of the quick start, typed one after the other into a cluster without any GPU.

Its nodes are as kind makes them: a control plane and a worker, without a device plugin.
"""

from collections.abc import Iterator

import pytest

from devcluster.names import NVIDIA_COUNT, NVIDIA_MEM, NVIDIA_NAME
from devcluster.nodes import build_gpu_node
from tests.integration.install.page_terminal import Terminal, typed_pages
from tests.kit.bench import NODES
from tests.kit.values.doc_pages import DOCS, Page

QUICKSTART = Page(DOCS / "quickstart-kind.md")
NOT_TYPED = ("kind ", "minikube ", "make image ", "python3 -m venv ")
"""What needs a container engine, and what tests/image does."""


def is_open(terminal: Terminal) -> bool:
    """Whether the pool says what it lacks, and pods are sent to it."""
    return "samples" in terminal.pool("laptop").get("status", {}) and terminal.is_pod_routed()


@pytest.fixture(scope="module")
def terminal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Terminal]:
    """After all commands."""
    control_plane = {"node-role.kubernetes.io/control-plane": ""}
    nodes = [
        build_gpu_node("gpushare-control-plane", cards=0, labels=control_plane),
        build_gpu_node("gpushare-worker", cards=0),
    ]
    for node in nodes:
        for label in (NVIDIA_COUNT, NVIDIA_MEM, NVIDIA_NAME):
            del node["metadata"]["labels"][label]
    folder, looks = tmp_path_factory.mktemp("quickstart"), {"kubectl apply -f laptop-pool": is_open}
    with typed_pages(folder, nodes, [QUICKSTART], without=NOT_TYPED, looks=looks) as terminal:
        yield terminal


def test_every_command_says_what_the_page_says(terminal: Terminal) -> None:
    assert terminal.list_unseen(QUICKSTART) == []


def test_nothing_is_written_on_a_node_whose_device_plugin_is_missing(terminal: Terminal) -> None:
    node = terminal.get(f"{NODES}/gpushare-worker")
    assert [key for key in node["metadata"]["labels"] if "gpushare" in key] == []
    assert "unschedulable" not in node["spec"]
