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
READ = [command for command in COMMANDS if " logs " in command]
"""Not typed: a simulated kubelet has no logs. Nor is there a metrics server, for `top`."""
TYPED = [command for command in COMMANDS if " logs " not in command and " top " not in command]
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
        lambda: read_metric(operator, "gpushare_unschedulable_pods", reason="PoolNotFound") == 1,
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


@pytest.mark.parametrize("command", TYPED)
def test_a_command_does_what_it_is_there_for(scene: Bench, command: str) -> None:
    typed = command
    for word, value in PLACEHOLDERS.items():
        typed = re.sub(rf"\b{word}\b", value, typed)
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", typed],
        env=scene.cluster.environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    good = (0, SOMETHING_IS_WRONG) if " doctor" in command else (0,)
    assert done.returncode in good, done.stdout
    assert done.stdout


def test_logs_are_read_of_pods_that_the_chart_makes(installed: Bench) -> None:
    labels = {
        f"{key}={value}"
        for item in render_objects(installed.cluster, {})
        if item["kind"] == "Deployment"
        for key, value in item["spec"]["template"]["metadata"]["labels"].items()
    }
    selectors = {found for command in READ for found in re.findall(r" -l (\S+)", command)}
    assert selectors
    assert selectors <= labels


def test_what_is_looked_for_in_logs_is_written_there() -> None:
    sources = [path.read_text() for path in (PROJECT / "operator/gpushare").rglob("*.py")]
    for command in READ:
        for words in re.findall(r"grep '?([a-z ]+?)'? \|", command):
            assert any(words in source for source in sources), words
