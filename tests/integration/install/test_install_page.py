"""The commands of the pages for administrators, typed one after the other into a new cluster.

Nothing is left out but what is listed below, each with its reason. The cluster has nodes as ACK
joins them. What the README shows is seen there, too.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping

import pytest

from devcluster.cluster import Cluster
from devcluster.editions import install_edition
from devcluster.installation import NAMESPACE
from devcluster.names import NVIDIA_COUNT, SCHEDULE
from devcluster.nodes import add_nodes, build_gpu_node
from tests.integration.install.page_terminal import CONFIGURATION, Terminal, start_operator, tell
from tests.kit.bench import PODS
from tests.kit.cluster.operator_processes import KUBELET_PERIOD_SECONDS
from tests.kit.values.doc_pages import DOCS, PROJECT, Page
from tests.kit.values.manifests import NODE_POOL_LABEL, build_pod, build_workload

README = Page(PROJECT / "README.md")
INSTALL = Page(DOCS / "install.md")
PAGES = (INSTALL, Page(DOCS / "security-questions.md"), Page(DOCS / "autoscaling.md"))
NOT_TYPED: Mapping[str, str] = {
    "make image ": "no container engine; tests/release builds it and looks into it",
    "docker push ": "no registry",
    "docker save ": "no container engine",
    "ctr ": "no container engine",
    "cosign verify ": "nothing has been released, and so signed",
    "helm upgrade --install gpushare oci://": "the same; tests/release installs from a registry",
    "python3 -m venv ": "the program under test is on PATH; tests/image installs it",
    "kubectl wait pod ": "a simulated pod runs on",
    "kubectl logs ": "a simulated kubelet has no logs",
    "helm uninstall ": "its hook is a pod, which nobody runs here; typed at the end without it",
}
"""Beginnings of commands that are not typed as they stand, each with the reason."""
NODE_POOL = "np1234"
"""The one that the page names."""


def await_plan(terminal: Terminal) -> None:
    """Until the pool has said what it would do."""
    terminal.wait("the pool has a plan", lambda: terminal.pool().get("status", {}).get("plan"))


def await_routes(terminal: Terminal) -> None:
    """Until the pool shows its memory, and pods are sent there."""

    def is_open() -> bool:
        pod = terminal.cluster.api.call("POST", f"{PODS}?dryRun=All", build_pod("probe"))
        has_memory = terminal.pool()["status"].get("capacity", {}).get("memoryTotal") == 30
        return has_memory and "nodeSelector" in pod["spec"]

    terminal.wait("the pool is open", is_open)


def await_placement(terminal: Terminal) -> None:
    """Until the pod has a node."""
    path = f"{PODS}/first-pod"
    terminal.wait("it runs", lambda: terminal.cluster.api.call("GET", path)["spec"].get("nodeName"))


def await_account(terminal: Terminal) -> None:
    """Until pods can be made in the new namespace."""
    account = "/api/v1/namespaces/gpushare-probe/serviceaccounts/default"
    terminal.wait("it has its account", lambda: terminal.cluster.api.exists(account))


def await_trainer(terminal: Terminal) -> None:
    """Until each of its pods has a node, which is another for each: two do not fit on one card."""

    def is_placed() -> bool:
        pods = terminal.cluster.api.call("GET", f"{PODS}?labelSelector=app=trainer")["items"]
        return [pod["spec"].get("nodeName", "") > "" for pod in pods] == [True, True]

    terminal.wait("the trainer's pods run", is_placed)


_LOOKS: Mapping[str, Callable[[Terminal], None]] = {
    "helm upgrade --install ": start_operator,
    "kubectl create namespace gpushare-probe": await_account,
    "kubectl apply -f first-pool.yaml": await_plan,
    "kubectl wait gsp/training ": await_routes,
    "kubectl apply -f first-pod.yaml": await_placement,
    "kubectl apply -f trainer.yaml": await_trainer,
}


@pytest.fixture(scope="module")
def terminal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Terminal]:
    """After all commands but the last, on a cluster of its own: Helm takes no object that another
    installation made."""
    folder = tmp_path_factory.mktemp("page")
    cluster = Cluster(
        "install-page", folder / "cluster", kubelet_period_seconds=KUBELET_PERIOD_SECONDS
    )
    cluster.up()
    try:
        install_edition(cluster, "Professional")
        joined = {NODE_POOL_LABEL: NODE_POOL, SCHEDULE: "default"}
        plain = build_gpu_node("worker-1", labels={NVIDIA_COUNT: "0"})
        add_nodes(cluster, [plain, *(build_gpu_node(f"gpu-{n}", labels=joined) for n in (1, 2))])
        terminal = Terminal(cluster, folder, _LOOKS)
        terminal.save_files(INSTALL)
        for page in PAGES:
            for command in page.commands:
                if not command.startswith(tuple(NOT_TYPED)):
                    terminal.type(command)
        yield terminal
    finally:
        cluster.down()


def test_every_command_says_what_the_page_says(terminal: Terminal) -> None:
    assert terminal.list_unseen(INSTALL) == []


def test_what_is_looked_at_before_and_after_is_as_the_page_says(terminal: Terminal) -> None:
    def find(beginning: str) -> str:
        return next(text for command, text in terminal.printed if command.startswith(beginning))

    assert find("kubectl auth can-i '*'") == "yes\n"
    assert "gpushare-device-plugin-ds" in find("kubectl -n kube-system get daemonsets")
    assert find(f"kubectl -n {NAMESPACE} get deployments").count("2/2") == 2
    assert find(f"kubectl -n {NAMESPACE} get lease") == "gpushare-controller-1\n"
    bundles = find("kubectl get mutatingwebhookconfiguration").splitlines()
    assert len(bundles) == 3
    assert all(re.search(r"\.io\t\w", line) for line in bundles)
    assert "created (server dry run)" in find("kubectl --namespace gpushare-probe apply")


def test_the_readme_shows_what_is_seen(terminal: Terminal) -> None:
    pod = build_pod("trainer", gib=8)
    trainer = build_workload("Deployment", "trainer", replicas=2, pod=pod)
    half_a_card = build_pod("half-a-card", gib=4, core=50)
    for name, manifest in (("trainer", trainer), ("half-a-card", half_a_card)):
        (terminal.folder / f"{name}.yaml").write_text(json.dumps(manifest))
    sessions = [block for block in README.blocks if block.language == "console"]

    assert len(sessions) == 3
    for session in sessions:
        for typed in session.text.removeprefix("$ ").split("\n$ "):
            command, _, shown = typed.partition("\n")
            # Long lines are wrapped there.
            assert " ".join(tell(terminal.type(command))) == " ".join(tell(shown)), command


def test_the_readme_types_what_is_typed_here_or_a_target_that_there_is() -> None:
    targets = ("make demo ", "make test ")
    others = [command for command in README.commands if not command.startswith(targets)]

    assert len(README.commands) - len(others) == 2
    assert set(others) <= set(INSTALL.commands)


def test_nothing_of_it_is_left_out_without_a_reason() -> None:
    typed = [command for page in PAGES for command in page.commands]
    for beginning in NOT_TYPED:
        assert [command for command in typed if command.startswith(beginning)]


def test_every_pool_and_pod_of_a_page_is_one_that_the_api_server_takes(terminal: Terminal) -> None:
    manifests = {
        block.text
        for page in (README, *map(Page, DOCS.glob("*.md")))
        for block in page.blocks
        if block.language == "yaml" and "\nkind: " in f"\n{block.text}"
        if "kind.x-k8s.io" not in block.text
    }
    assert len(manifests) >= 3
    for manifest in manifests:
        terminal.cluster.kubectl("apply", "--dry-run=server", "-f", "-", stdin=manifest)


def test_helm_takes_it_away_again(terminal: Terminal) -> None:
    (command,) = (c for c in INSTALL.commands if c.startswith("helm uninstall "))
    terminal.type(f"{command} --no-hooks")

    assert not terminal.cluster.api.exists(CONFIGURATION)
    assert terminal.pool()["spec"]["schedule"] == "cgpu"
