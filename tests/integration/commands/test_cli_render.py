"""`gpushare render`: what it prints is loaded by the real kube-scheduler, and taken by the real API
server."""

from pathlib import Path

import pytest

from tests.kit.bench import Bench
from tests.kit.cluster.command_line import run_command
from tests.kit.cluster.expect import expect
from tests.kit.cluster.scheduler import scheduled_by
from tests.kit.values.manifests import build_pod

IMAGE = "registry.example.com/gpushare-plugin:v2"


def render(*arguments: str) -> str:
    ended = run_command("render", *arguments)
    assert (ended.code, ended.err) == (0, ""), ended
    return ended.out


def test_kube_scheduler_asks_the_extender_about_no_pod_that_does_not_share(
    bench: Bench, tmp_path: Path
) -> None:
    bench.add_nodes("n1")
    text = render(
        "scheduler-config", "--extender-url", "http://127.0.0.1:1/gpushare-scheduler",
        "--kubeconfig", str(bench.cluster.kubeconfig),
    )  # fmt: skip
    with scheduled_by(bench, text, tmp_path):
        bench.create_pod(build_pod("plain", gib=None))
        expect(bench, "it is bound", lambda: bench.pod("plain")["spec"].get("nodeName"))


@pytest.mark.parametrize(
    ("what", "options", "objects"),
    [
        (
            "device-plugin",
            ["--memory-unit", "MiB", "-n", "default"],
            4,
        ),
        ("scheduler-extender", ["--node-port", "32766"], 5),
    ],
)
def test_the_api_server_takes_what_is_printed(
    bench: Bench, what: str, options: list[str], objects: int
) -> None:
    told = bench.cluster.kubectl(
        "apply", "--server-side", "--force-conflicts", "--dry-run=server", "--validate=strict",
        "-o", "name", "-f", "-", stdin=render(what, "--image", IMAGE, *options),
    )  # fmt: skip
    assert len([line for line in told.splitlines() if "/gpushare-" in line]) == objects
