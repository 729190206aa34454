"""The commands of the pages for administrators, typed one after the other into a new cluster.

Nothing is left out but what is listed below, each with its reason. The cluster has nodes as ACK
joins them; the operator's pods are played, as pods without GPU are on this control plane, and its
processes run beside it under the accounts that Helm made.
"""

import re
import subprocess
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from devcluster.cluster import Cluster
from devcluster.editions import install_edition
from devcluster.installation import NAMESPACE, Installation
from devcluster.names import NVIDIA_COUNT, SCHEDULE
from devcluster.nodes import add_nodes, build_gpu_node
from devcluster.startup import CHART, PROJECT
from devcluster.waiting import wait_until
from tests.kit.bench import PODS, POOLS
from tests.kit.builders import NODE_POOL_LABEL, build_pod
from tests.kit.operator import KUBELET_PERIOD_SECONDS, wait_ready
from tests.kit.pages import DOCS, Page

INSTALL = Page(DOCS / "install.md")
PAGES = (INSTALL, Page(DOCS / "security-questions.md"), Page(DOCS / "autoscaling.md"))
NOT_TYPED: Mapping[str, str] = {
    "make image ": "no container engine; tests/image carries the Dockerfile's steps out",
    "docker push ": "no registry",
    "kubectl wait pod ": "a simulated pod runs on",
    "kubectl logs ": "a simulated kubelet has no logs",
    "helm uninstall ": "its hook is a pod, which nobody runs here; typed at the end without it",
}
"""Beginnings of commands that are not typed as they stand, each with the reason."""
NODE_POOL = "np1234"
"""The one that the page names."""
_CONFIGURATION = (
    "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/gpushare-webhook"
)
_SECONDS = 60


@dataclass
class Terminal:
    """Where the commands are typed, in a folder with the chart in it."""

    cluster: Cluster
    folder: Path
    printed: list[tuple[str, str]] = field(default_factory=list)
    """Each command, with what it said."""

    def type(self, command: str) -> None:
        """Run a command, and then wait as a person does until it shows; fail if it does."""
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", command],
            cwd=self.folder, env=self.cluster.environment, check=False,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip
        assert done.returncode == 0, f"`{command}` failed: {done.stdout}"
        self.printed.append((command, done.stdout))
        for beginning, look in _LOOKS.items():
            if command.startswith(beginning):
                look(self)

    def wait(self, expectation: str, probe: Callable[[], Any]) -> None:
        """Until it is so."""
        wait_until(probe, expectation=expectation, timeout_seconds=_SECONDS)

    def pool(self) -> dict[str, Any]:
        """The pool of the page."""
        pool: dict[str, Any] = self.cluster.api.call("GET", f"{POOLS}/training")
        return pool


def start_operator(terminal: Terminal) -> None:
    """What the pods of the Deployments would run, and until the API server knows whom to trust."""
    installation = Installation(terminal.cluster, all_in_one=False)
    api = terminal.cluster.api
    # Nobody plays the Service here.
    webhooks = api.call("GET", _CONFIGURATION)["webhooks"]
    for webhook in webhooks:
        webhook["clientConfig"] = {
            "url": installation.webhook_url + webhook["clientConfig"]["service"]["path"]
        }
    api.call("PATCH", _CONFIGURATION, {"webhooks": webhooks})
    for role in ("controller", "webhook"):
        wait_ready(installation.start(role, identity=f"gpushare-{role}-1"))

    def is_trusted() -> bool:
        webhooks = api.call("GET", _CONFIGURATION)["webhooks"]
        return all("caBundle" in webhook["clientConfig"] for webhook in webhooks)

    terminal.wait("each webhook has a CA", is_trusted)


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


_LOOKS: Mapping[str, Callable[[Terminal], None]] = {
    "helm upgrade --install ": start_operator,
    "kubectl create namespace gpushare-probe": await_account,
    "kubectl apply -f first-pool.yaml": await_plan,
    "kubectl wait gsp/training ": await_routes,
    "kubectl apply -f first-pod.yaml": await_placement,
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
        terminal = Terminal(cluster, folder)
        (folder / "chart").symlink_to(CHART)
        for block in INSTALL.blocks:
            if block.file_name:
                (folder / block.file_name).write_text(block.text)
        for page in PAGES:
            for command in page.commands:
                if not command.startswith(tuple(NOT_TYPED)):
                    terminal.type(command)
        yield terminal
    finally:
        cluster.down()


def tell(text: str) -> list[str]:
    """Its lines, however wide the columns are and whatever the age."""
    lines = (re.sub(r"\b\d+s$", "AGE", line.strip()) for line in text.splitlines())
    return [" ".join(line.split()) for line in lines]


def test_every_command_says_what_the_page_says(terminal: Terminal) -> None:
    printed = {line for _, text in terminal.printed for line in tell(text)}
    shown = [line for b in INSTALL.blocks if b.language == "text" for line in tell(b.text)]

    assert shown
    assert [line for line in shown if line not in printed] == []


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


def test_nothing_of_it_is_left_out_without_a_reason() -> None:
    typed = [command for page in PAGES for command in page.commands]
    for beginning in NOT_TYPED:
        assert [command for command in typed if command.startswith(beginning)]


def test_every_pool_and_pod_of_a_page_is_one_that_the_api_server_takes(terminal: Terminal) -> None:
    manifests = {
        block.text
        for path in (PROJECT / "README.md", *DOCS.glob("*.md"))
        for block in Page(path).blocks
        if block.language == "yaml" and "\nkind: " in f"\n{block.text}"
    }
    assert len(manifests) >= 3
    for manifest in manifests:
        terminal.cluster.kubectl("apply", "--dry-run=server", "-f", "-", stdin=manifest)


def test_helm_takes_it_away_again(terminal: Terminal) -> None:
    (command,) = (c for c in INSTALL.commands if c.startswith("helm uninstall "))
    terminal.type(f"{command} --no-hooks")

    assert not terminal.cluster.api.exists(_CONFIGURATION)
    assert terminal.pool()["spec"]["schedule"] == "cgpu"
