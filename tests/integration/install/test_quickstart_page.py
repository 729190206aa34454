"""The commands of the quick start, typed one after the other into a cluster without any GPU.

Its nodes are as kind makes them: a control plane and a worker, without a device plugin.
"""

from collections.abc import Iterator, Mapping

import pytest

from devcluster.cluster import Cluster
from devcluster.names import NVIDIA_COUNT, NVIDIA_MEM, NVIDIA_NAME
from devcluster.nodes import add_nodes, build_gpu_node
from tests.integration.install.page_terminal import Terminal, start_operator
from tests.kit.bench import PODS
from tests.kit.values.doc_pages import DOCS, Page
from tests.kit.values.manifests import build_pod

QUICKSTART = Page(DOCS / "quickstart-kind.md")
NOT_TYPED: Mapping[str, str] = {
    "kind ": "no container engine",
    "minikube ": "no container engine",
    "make image ": "no container engine; tests/release builds it and looks into it",
    "python3 -m venv ": "the program under test is on PATH; tests/image installs it",
}
"""Beginnings of commands that are not typed, each with the reason."""


def await_status(terminal: Terminal) -> None:
    """Until the pool says what it lacks, and pods are sent to it."""

    def is_open() -> bool:
        pod = terminal.cluster.api.call("POST", f"{PODS}?dryRun=All", build_pod("probe"))
        return "samples" in terminal.pool("laptop").get("status", {}) and (
            "nodeSelector" in pod["spec"]
        )

    terminal.wait("the pool has a status, and takes pods", is_open)


_LOOKS = {"helm upgrade --install ": start_operator, "kubectl apply -f laptop-pool": await_status}


@pytest.fixture(scope="module")
def terminal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Terminal]:
    """After all commands."""
    folder = tmp_path_factory.mktemp("quickstart")
    cluster = Cluster("quickstart", folder / "cluster")
    cluster.up()
    try:
        control_plane = {"node-role.kubernetes.io/control-plane": ""}
        nodes = [
            build_gpu_node("gpushare-control-plane", cards=0, labels=control_plane),
            build_gpu_node("gpushare-worker", cards=0),
        ]
        for node in nodes:
            for label in (NVIDIA_COUNT, NVIDIA_MEM, NVIDIA_NAME):
                del node["metadata"]["labels"][label]
        add_nodes(cluster, nodes)
        terminal = Terminal(cluster, folder, _LOOKS)
        terminal.save_files(QUICKSTART)
        for command in QUICKSTART.commands:
            if not command.startswith(tuple(NOT_TYPED)):
                # Its hook is a pod, which nobody runs here.
                hooks = " --no-hooks" if command.startswith("helm uninstall ") else ""
                terminal.type(command + hooks)
        yield terminal
    finally:
        cluster.down()


def test_every_command_says_what_the_page_says(terminal: Terminal) -> None:
    assert terminal.list_unseen(QUICKSTART) == []


def test_nothing_is_written_on_a_node_whose_device_plugin_is_missing(terminal: Terminal) -> None:
    (node,) = (
        node
        for node in terminal.cluster.api.call("GET", "/api/v1/nodes")["items"]
        if node["metadata"]["name"] == "gpushare-worker"
    )
    assert [key for key in node["metadata"]["labels"] if "gpushare" in key] == []
    assert "unschedulable" not in node["spec"]


def test_no_command_is_left_out_without_need() -> None:
    for beginning in NOT_TYPED:
        assert [command for command in QUICKSTART.commands if command.startswith(beginning)]
