"""The commands of the pages for administrators, typed one after the other into a new cluster.

Nothing is left out but what is listed below, each with its reason. The cluster has nodes as ACK
joins them. What the README shows is seen there, too.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping

import pytest

from devcluster.names import NVIDIA_COUNT, SCHEDULE
from devcluster.nodes import build_gpu_node
from tests.integration.install.page_terminal import Terminal, tell, typed_pages
from tests.kit.bench import PODS
from tests.kit.cluster.pod_admission import CONFIGURATION
from tests.kit.values.doc_pages import DOCS, PROJECT, Page
from tests.kit.values.manifests import NODE_POOL_LABEL, build_pod, build_workload

README = Page(PROJECT / "README.md")
INSTALL = Page(DOCS / "install.md")
PAGES = (
    INSTALL,
    *(Page(DOCS / f"{name}.md") for name in ("security-questions", "autoscaling", "first-week")),
)
NOT_TYPED = (
    # There is no container engine, nor a registry; tests/release has both, and tests/image installs
    # the program.
    "make image ", "skopeo copy ", "docker push ", "docker save ", "ctr ", "python3 -m venv ",
    # A simulated pod runs on, and its kubelet has no logs.
    "kubectl wait pod ", "kubectl logs ",
    # There is no Prometheus.
    "kubectl gpushare usage ",
    # Typed at the end.
    "helm uninstall ",
)  # fmt: skip
"""Beginnings of commands that are not typed."""
NODE_POOL = "np1234"
"""The one that the page names."""
FIRST_POD = f"{PODS}/first-pod"
_VERSION = re.compile(r"^apiVersion: (\S+)", re.MULTILINE)


def is_open(terminal: Terminal) -> bool:
    """Whether the pool shows its memory, and pods are sent there."""
    capacity = terminal.pool()["status"].get("capacity", {})
    return capacity.get("memoryTotal") == 30 and terminal.is_pod_routed()


def is_placed(terminal: Terminal) -> bool:
    """Whether each of the trainer's pods has a node: two do not fit on one card."""
    pods = terminal.get(f"{PODS}?labelSelector=app=trainer")["items"]
    return [pod["spec"].get("nodeName", "") > "" for pod in pods] == [True, True]


def has_account(terminal: Terminal) -> bool:
    """Whether pods can be created in the namespace that was created last."""
    namespace = terminal.printed[-1][0].split()[-1]
    return terminal.cluster.api.exists(f"/api/v1/namespaces/{namespace}/serviceaccounts/default")


_LOOKS: Mapping[str, Callable[[Terminal], object]] = {
    "kubectl create namespace ": has_account,
    "kubectl apply -f first-pool.yaml": lambda it: it.pool().get("status", {}).get("plan"),
    "kubectl wait gsp/training ": is_open,
    "kubectl apply -f first-pod.yaml": lambda it: it.get(FIRST_POD)["spec"].get("nodeName"),
    "kubectl apply -f trainer.yaml": is_placed,
}


@pytest.fixture(scope="module")
def terminal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Terminal]:
    """After all commands but the last."""
    joined = {NODE_POOL_LABEL: NODE_POOL, SCHEDULE: "default"}
    plain = build_gpu_node("worker-1", labels={NVIDIA_COUNT: "0"})
    nodes = [plain, *(build_gpu_node(f"gpu-{n}", labels=joined) for n in (1, 2))]
    folder = tmp_path_factory.mktemp("install-page")
    with typed_pages(
        folder, nodes, PAGES, without=NOT_TYPED, looks=_LOOKS, edition="Professional"
    ) as terminal:
        yield terminal


def test_every_command_says_what_the_page_says(terminal: Terminal) -> None:
    assert terminal.list_unseen(INSTALL) == []


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
    others = {each for each in README.commands if not each.startswith(("make demo ", "make test "))}
    assert others
    assert others <= set(INSTALL.commands)


def test_every_pool_and_pod_of_a_page_is_one_that_the_api_server_takes(terminal: Terminal) -> None:
    served = terminal.cluster.kubectl("api-versions").split()
    manifests = {
        block.text
        for page in (README, *map(Page, DOCS.glob("*.md")))
        for block in page.blocks
        if block.language == "yaml" and "\nkind: " in f"\n{block.text}"
        # Of another project's kinds the cluster knows nothing.
        if all("gpushare.io/" in each or each in served for each in _VERSION.findall(block.text))
    }
    assert len(manifests) >= 3
    for manifest in manifests:
        # A page's own namespace is not there.
        here = re.sub(r"(?<=namespace: )[a-z-]+", "default", manifest)
        terminal.cluster.kubectl("apply", "--dry-run=server", "-f", "-", stdin=here)


def test_helm_takes_it_away_again(terminal: Terminal) -> None:
    (command,) = (c for c in INSTALL.commands if c.startswith("helm uninstall "))
    terminal.type(f"{command} --no-hooks")

    assert not terminal.cluster.api.exists(CONFIGURATION)
    assert terminal.pool()["spec"]["schedule"] == "cgpu"
