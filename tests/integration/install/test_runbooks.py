"""The commands of the runbooks, typed while there is something to see."""

import re
import subprocess
from collections.abc import Iterator

import pytest

from devcluster.kubectlplugin import write_plugin
from devcluster.startup import PROJECT
from tests.integration.chart.chart_values import render_objects
from tests.kit.bench import Bench
from tests.kit.cluster.expect import expect
from tests.kit.cluster.operator_processes import read_metric
from tests.kit.cluster.sharing_pools import given_sharing_pool
from tests.kit.values.doc_pages import DOCS, Page
from tests.kit.values.manifests import build_pod

COMMANDS = tuple(dict.fromkeys(Page(DOCS / "runbooks.md").commands))
PLACEHOLDERS = {"POOL": "training", "NODE": "n1", "POD": "lost", "NAMESPACE": "default"}
NOT_TYPED = {
    " logs ": "a simulated kubelet has no logs",
    " top ": "there is no metrics server",
}
"""Parts of commands that are not typed, with the reason."""
TYPED = [command for command in COMMANDS if not any(part in command for part in NOT_TYPED)]
READ = [command for command in COMMANDS if " logs " in command]
SOMETHING_IS_WRONG = 13
"""What `gpushare doctor` ends with then (docs/cli.md)."""


@pytest.fixture(scope="module")
def scene(installed: Bench) -> Iterator[Bench]:
    """A pool with a pod, and another pod that waits for a pool that there is not."""
    write_plugin(installed.cluster.programs)
    operator = installed.operators.start("run")
    given_sharing_pool(installed, "Professional", "n1")
    installed.create_pod(build_pod("web", selects={"gpushare.io/pool": "training"}))
    installed.create_pod(build_pod("lost", selects={"gpushare.io/pool": "nowhere"}))
    expect(
        installed,
        "the pod is found",
        lambda: read_metric(operator, "gpushare_unplaced_pods", reason="PoolNotFound") == 1,
        within_seconds=60,
    )
    expect(
        installed,
        "the pool tells of the other",
        lambda: installed.pool()["status"].get("isolation", {}).get("containers") == 1,
    )
    yield installed
    installed.operators.end_all()
    installed.empty()


def type_in(bench: Bench, command: str) -> tuple[int, str]:
    """How it ended, and what it printed."""
    for word, value in PLACEHOLDERS.items():
        command = re.sub(rf"\b{word}\b", value, command)
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", command],
        env=bench.cluster.environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout


def test_every_command_is_typed_but_for_those_that_nothing_answers_here() -> None:
    assert {part for part in NOT_TYPED if any(part in c for c in COMMANDS)} == NOT_TYPED.keys()
    assert len(TYPED) >= 10


@pytest.mark.parametrize("command", TYPED)
def test_a_command_does_what_it_is_there_for(scene: Bench, command: str) -> None:
    code, printed = type_in(scene, command)
    assert code == 0 or (" doctor" in command and code == SOMETHING_IS_WRONG), printed
    assert printed


def test_the_pods_that_wait_are_named_with_why(scene: Bench) -> None:
    _, printed = type_in(scene, "kubectl gpushare inspect --pools")
    (line,) = (line for line in printed.splitlines() if "lost" in line)
    assert "PoolNotFound" in line


@pytest.mark.parametrize("command", READ)
def test_logs_are_read_of_pods_that_the_chart_makes(installed: Bench, command: str) -> None:
    if (selector := re.search(r" -l (\S+)=(\S+)", command)) is None:
        # Of the one pod that the page speaks of.
        assert " POD " in command
        return
    key, value = selector.groups()
    pods = [
        item["spec"]["template"]["metadata"]["labels"]
        for item in render_objects(installed.cluster, {})
        if item["kind"] == "Deployment"
    ]
    assert any(labels.get(key) == value for labels in pods)


def test_what_is_looked_for_in_logs_is_written_there() -> None:
    sources = [path.read_text() for path in (PROJECT / "operator/gpushare").rglob("*.py")]
    for command in READ:
        for words in re.findall(r"grep '?([a-z ]+?)'? \|", command):
            assert any(words in source for source in sources), words
