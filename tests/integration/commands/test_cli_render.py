"""`gpushare render`: what it prints is loaded by the real kube-scheduler, and taken by the real API
server."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from devcluster.installation import TEARDOWN_IMAGE
from tests.integration.commands.recording_extender import PlainExtender
from tests.kit.bench import PODS, Bench
from tests.kit.cluster.command_line import run_command
from tests.kit.cluster.expect import expect
from tests.kit.cluster.installations import teardown_jobs_allowed
from tests.kit.cluster.node_teardown import expect_isolating, given_isolating_pool
from tests.kit.cluster.scheduler import scheduled_by
from tests.kit.cluster.teardown_jobs import TEARDOWN_JOBS
from tests.kit.values.certificates import build_tls
from tests.kit.values.manifests import build_pod

Json = dict[str, Any]
IMAGE = "registry.example.com/gpushare-plugin:v2"


def bind(bench: Bench, arguments: Json) -> None:
    """What an extender does that was asked to bind."""
    path = f"/api/v1/namespaces/{arguments['podnamespace']}/pods/{arguments['podname']}"
    target = {"apiVersion": "v1", "kind": "Node", "name": arguments["node"]}
    meta = {"name": arguments["podname"], "uid": arguments["poduid"]}
    bench.call("POST", f"{path}/binding", {"metadata": meta, "target": target})


def render(*arguments: str) -> str:
    ended = run_command("render", *arguments)
    assert (ended.code, ended.err) == (0, ""), ended
    return ended.out


@pytest.fixture
def sharing(bench: Bench) -> Bench:
    """Two nodes that share, by a person's label."""
    bench.operators.end_all()
    bench.install("OpenSource")
    bench.add_nodes("n1", "n2", labels={"gpushare": "true"})
    expect(
        bench,
        "the plugins serve",
        lambda: all(
            bench.node(name)["status"]["allocatable"].get("aliyun.com/gpu-mem") == "15"
            for name in ("n1", "n2")
        ),
    )
    return bench


def expect_placed(bench: Bench, pod: str, log: Path) -> Json:
    def probe() -> Json | None:
        found: Json = bench.call("GET", f"{PODS}/{pod}")
        return found if found["spec"].get("nodeName") else None

    try:
        return expect(bench, f"{pod} is bound", probe)
    except AssertionError as error:
        raise AssertionError(f"{error}\n{log.read_text()[-4000:]}") from error


# kube-scheduler.


def test_kube_scheduler_asks_the_extender_that_it_trusts_about_pods_that_share_and_no_others(
    sharing: Bench, tmp_path: Path
) -> None:
    server, _, authority = build_tls()
    ca = tmp_path / "ca.crt"
    ca.write_bytes(authority.certificate_pem)
    with PlainExtender(lambda arguments: bind(sharing, arguments), server) as extender:
        text = render(
            "scheduler-config", "--extender-url", f"https://{extender.place}/gpushare-scheduler",
            "--kubeconfig", str(sharing.cluster.kubeconfig), "--tls-ca", str(ca),
            "--no-node-cache-capable", "--managed-resource", "aliyun.com/gpu-mem",
            "--managed-resource", "aliyun.com/gpu-core.percentage",
        )  # fmt: skip
        with scheduled_by(sharing, text, tmp_path) as log:
            sharing.create_pod(build_pod("shares", gib=3))
            sharing.create_pod(build_pod("plain", gib=None))
            for pod in ("shares", "plain"):
                expect_placed(sharing, pod, log)
    (asked,) = extender.asked("filter", "shares")
    assert sorted(node["metadata"]["name"] for node in asked["nodes"]["items"]) == ["n1", "n2"]
    assert len(extender.asked("bind", "shares")) == 1
    assert {name for name in ("filter", "bind") if extender.asked(name, "plain")} == set()


# Manifests.


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


# A teardown.


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
