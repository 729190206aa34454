"""`gpushare render`: what it prints is loaded by the real kube-scheduler, and taken by the real API
server."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from devcluster.installation import TEARDOWN_IMAGE
from tests.kit.bench import DAEMONSETS, PODS, SYSTEM_PODS, Bench
from tests.kit.builders import build_pod, build_pool
from tests.kit.commandline import run_command
from tests.kit.expect import expect, expect_pool_ready
from tests.kit.installations import teardown_jobs_allowed
from tests.kit.ownscheduler import scheduled_by
from tests.kit.plainextender import PlainExtender
from tests.kit.teardownjobs import TEARDOWN_JOBS
from tests.kit.teardownstory import expect_isolating, given_isolating_pool
from tests.kit.tls import build_tls

Json = dict[str, Any]
PLUGIN = "gpushare-device-plugin-ds"
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


def create_pods(bench: Bench) -> None:
    """One that asks for GPU memory, and one that does not."""
    bench.create_pod(build_pod("shares", gib=3))
    bench.create_pod(build_pod("plain", gib=None))


def expect_placed(bench: Bench, pod: str, log: Path) -> Json:
    def probe() -> Json | None:
        found: Json = bench.call("GET", f"{PODS}/{pod}")
        return found if found["spec"].get("nodeName") else None

    try:
        return expect(bench, f"{pod} is bound", probe)
    except AssertionError as error:
        raise AssertionError(f"{error}\n{log.read_text()[-4000:]}") from error


# kube-scheduler.


def test_kube_scheduler_asks_the_extender_about_pods_that_share_and_no_others(
    sharing: Bench, tmp_path: Path
) -> None:
    with PlainExtender(lambda arguments: bind(sharing, arguments)) as extender:
        text = render(
            "scheduler-config", "--extender-url", f"http://{extender.place}",
            "--kubeconfig", str(sharing.cluster.kubeconfig),
        )  # fmt: skip
        with scheduled_by(sharing, text, tmp_path) as log:
            create_pods(sharing)
            for pod in ("shares", "plain"):
                expect_placed(sharing, pod, log)
    (asked,) = extender.asked("filter", "shares")
    assert sorted(asked["nodenames"]) == ["n1", "n2"]
    assert len(extender.asked("bind", "shares")) == 1
    assert {name for name in ("filter", "bind") if extender.asked(name, "plain")} == set()


def test_kube_scheduler_trusts_the_ca_that_is_named_and_sends_whole_nodes_where_asked_to(
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
            create_pods(sharing)
            expect_placed(sharing, "shares", log)
    (asked,) = extender.asked("filter", "shares")
    assert sorted(node["metadata"]["name"] for node in asked["nodes"]["items"]) == ["n1", "n2"]


# The device plugin.


@pytest.fixture
def without_edition(bench: Bench) -> Iterator[Bench]:
    """A cluster with no device plugin of anybody's."""
    bench.operators.end_all()
    bench.install("OpenSource")
    bench.call("DELETE", DAEMONSETS)
    expect(bench, "no plugin runs", lambda: not bench.pods(SYSTEM_PODS))
    yield bench
    bench.operators.end_all()
    bench.call("DELETE", DAEMONSETS)
    bench.call("DELETE", "/api/v1/namespaces/kube-system/serviceaccounts/gpushare-device-plugin")
    for kind in ("clusterroles", "clusterrolebindings"):
        bench.call("DELETE", f"/apis/rbac.authorization.k8s.io/v1/{kind}/gpushare-device-plugin")


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


def test_the_operator_takes_the_device_plugin_as_its_own(without_edition: Bench) -> None:
    bench = without_edition
    manifests = list(yaml.safe_load_all(render("device-plugin", "--image", IMAGE)))
    template = manifests[-1]["spec"]["template"]
    # The simulator plays it: nobody pulls the image.
    template["metadata"]["annotations"] = {"sim.devcluster/played": "true"}
    bench.cluster.kubectl("apply", "-f", "-", stdin=yaml.safe_dump_all(manifests))
    bench.add_nodes("n1")
    bench.operators.start()

    bench.create_pool(build_pool(edition="OpenSource"))
    expect_pool_ready(bench, nodes=1)

    assert bench.node("n1")["metadata"]["labels"]["gpushare"] == "true"
    assert bench.plugins(PLUGIN).keys() == {"n1"}


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
