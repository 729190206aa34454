"""A terminal in which the commands of a page are typed, on a cluster of its own.

The operator's pods are played, as pods without GPU are on this control plane, and its processes
run beside it under the accounts that Helm made.
"""

import re
import subprocess
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from devcluster.cluster import Cluster
from devcluster.editions import Edition, install_edition
from devcluster.installation import Installation
from devcluster.kubectlplugin import write_plugin
from devcluster.nodes import add_nodes
from devcluster.startup import CHART
from devcluster.waiting import wait_until
from tests.kit.bench import PODS, POOLS
from tests.kit.cluster.operator_processes import KUBELET_PERIOD_SECONDS, wait_ready
from tests.kit.cluster.pod_admission import CONFIGURATION
from tests.kit.values.doc_pages import Page
from tests.kit.values.manifests import build_pod

_SECONDS = 60


@dataclass
class Terminal:
    """Where the commands are typed, in a folder with the chart in it and the plugin on PATH."""

    cluster: Cluster
    folder: Path
    looks: Mapping[str, Callable[["Terminal"], Any]]
    """By beginnings of commands: what must be so after one, for which a person waits."""
    printed: list[tuple[str, str]] = field(default_factory=list)
    """Each command, with what it said."""

    def __post_init__(self) -> None:
        (self.folder / "chart").symlink_to(CHART)
        write_plugin(self.cluster.programs)

    def type_page(self, page: Page, *, without: Iterable[str]) -> None:
        """Save the page's files, and type its commands but for those that begin so."""
        for block in page.blocks:
            if block.file_name:
                (self.folder / block.file_name).write_text(block.text)
        for command in page.commands:
            if not command.startswith(tuple(without)):
                # Its hook is a pod, which nobody runs here.
                hooks = " --no-hooks" if command.startswith("helm uninstall ") else ""
                self.type(command + hooks)

    def type(self, command: str) -> str:
        """Run a command, and then wait as a person does until it shows; fail if it does."""
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", command],
            cwd=self.folder, env=self.cluster.environment, check=False,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip
        assert done.returncode == 0, f"`{command}` failed: {done.stdout}"
        self.printed.append((command, done.stdout))
        if command.startswith("helm upgrade --install "):
            start_operator(self)
        for beginning, look in self.looks.items():
            if command.startswith(beginning):
                self.wait(f"`{command}` is done", partial(look, self))
        return done.stdout

    def wait(self, expectation: str, probe: Callable[[], Any]) -> None:
        """Until it is so."""
        wait_until(probe, expectation=expectation, timeout_seconds=_SECONDS)

    def get(self, path: str) -> Any:
        """What the API server answers."""
        return self.cluster.api.call("GET", path)

    def is_pod_routed(self) -> bool:
        """Whether a new pod would be sent to a pool."""
        pod = self.cluster.api.call("POST", f"{PODS}?dryRun=All", build_pod("probe"))
        return "nodeSelector" in pod["spec"]

    def pool(self, name: str = "training") -> dict[str, Any]:
        """A pool of the page."""
        pool: dict[str, Any] = self.get(f"{POOLS}/{name}")
        return pool

    def list_unseen(self, page: Page) -> list[str]:
        """Lines that the page shows as text and that no command has printed."""
        printed = {line for _, text in self.printed for line in tell(text)}
        shown = [line for b in page.blocks if b.language == "text" for line in tell(b.text)]
        assert shown
        return [line for line in shown if line not in printed]


@contextmanager
def typed_pages(
    folder: Path,
    nodes: list[dict[str, Any]],
    pages: Iterable[Page],
    *,
    without: Iterable[str],
    looks: Mapping[str, Callable[[Terminal], Any]],
    edition: Edition | None = None,
) -> Iterator[Terminal]:
    """The terminal after these pages, on a new cluster with these nodes: Helm takes no object that
    another installation made."""
    cluster = Cluster(
        folder.name, folder / "cluster", kubelet_period_seconds=KUBELET_PERIOD_SECONDS
    )
    cluster.up()
    try:
        if edition is not None:
            install_edition(cluster, edition)
        add_nodes(cluster, nodes)
        terminal = Terminal(cluster, folder, looks)
        for page in pages:
            terminal.type_page(page, without=without)
        yield terminal
    finally:
        cluster.down()


def start_operator(terminal: Terminal) -> None:
    """What the pods of the Deployments would run, and until the API server knows whom to trust."""
    installation = Installation(terminal.cluster, all_in_one=False)
    api = terminal.cluster.api
    # Nobody plays the Service here.
    webhooks = api.call("GET", CONFIGURATION)["webhooks"]
    for webhook in webhooks:
        webhook["clientConfig"] = {
            "url": installation.webhook_url + webhook["clientConfig"]["service"]["path"]
        }
    api.call("PATCH", CONFIGURATION, {"webhooks": webhooks})
    for role in ("controller", "webhook"):
        wait_ready(installation.start(role, identity=f"gpushare-{role}-1"))

    def is_trusted() -> bool:
        webhooks = api.call("GET", CONFIGURATION)["webhooks"]
        return all("caBundle" in webhook["clientConfig"] for webhook in webhooks)

    terminal.wait("each webhook has a CA", is_trusted)


def tell(text: str) -> list[str]:
    """Its lines, however wide the columns are and whatever the times in them."""
    lines = (re.sub(r"\b\d+(?:s|m\d*s?)\b", "AGE", line.strip()) for line in text.splitlines())
    return [" ".join(line.split()) for line in lines]
