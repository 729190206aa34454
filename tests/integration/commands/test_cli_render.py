"""`gpushare render`: what it prints is loaded by the real kube-scheduler, and taken by the real API
server."""

from pathlib import Path

import pytest
import yaml

from devcluster.installation import TEARDOWN_IMAGE
from tests.kit.bench import Bench
from tests.kit.cluster.command_line import run_command
from tests.kit.cluster.expect import expect
from tests.kit.cluster.installations import teardown_jobs_allowed
from tests.kit.cluster.node_teardown import expect_isolating, given_isolating_pool
from tests.kit.cluster.scheduler import scheduled_by
from tests.kit.cluster.teardown_jobs import TEARDOWN_JOBS
from tests.kit.values.certificates import build_tls
from tests.kit.values.manifests import build_pod

IMAGE = "registry.example.com/gpushare-plugin:v2"


def render(*arguments: str) -> str:
    ended = run_command("render", *arguments)
    assert (ended.code, ended.err) == (0, ""), ended
    return ended.out


def test_kube_scheduler_loads_tls_and_asks_the_extender_about_no_pod_that_does_not_share(
    bench: Bench, tmp_path: Path
) -> None:
    _, _, authority = build_tls()
    ca = tmp_path / "ca.crt"
    ca.write_bytes(authority.certificate_pem)
    bench.add_nodes("n1")
    text = render(
        "scheduler-config", "--extender-url", "https://127.0.0.1:1/gpushare-scheduler",
        "--kubeconfig", str(bench.cluster.kubeconfig), "--tls-ca", str(ca),
    )  # fmt: skip
    with scheduled_by(bench, text, tmp_path):
        bench.create_pod(build_pod("plain", gib=None))
        expect(bench, "it is bound", lambda: bench.pod("plain")["spec"].get("nodeName"))


@pytest.mark.parametrize(
    ("what", "options", "objects"),
    [
        (
            "device-plugin",
            ["--memory-unit", "MiB", "-n", "default", "--node-selector", "example.com/gpu=a"],
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


def test_the_job_is_the_one_that_the_controller_makes(bench: Bench) -> None:
    with teardown_jobs_allowed(bench):
        bench.install("Professional")
        bench.operators.start()
        policy = {"policy": "Job", "reboot": "Sentinel"}
        hangs = {"job_hangs": True}
        given_isolating_pool(bench, "training", "n1", isolationTeardown=policy, faults=hangs)
        expect_isolating(bench, training=1)
        bench.change_pool(schedule="share")
        (made,) = expect(
            bench, "the Job is made", lambda: bench.call("GET", TEARDOWN_JOBS)["items"]
        )
        ended = run_command(
            "render", "teardown", "n1", "--job", "--image", TEARDOWN_IMAGE,
            kubeconfig=bench.cluster.kubeconfig,
        )  # fmt: skip
        bench.call("DELETE", TEARDOWN_JOBS, {"propagationPolicy": "Background"})
    assert (ended.code, ended.err) == (0, "")
    assert "command:" in ended.out
    printed = yaml.safe_load(ended.out)
    assert printed["metadata"]["name"] == made["metadata"]["name"]
    assert printed["metadata"]["annotations"] == made["metadata"]["annotations"]
    shown, had = (each["spec"]["template"]["spec"]["containers"][0] for each in (printed, made))
    assert shown.items() <= had.items()
