"""`gpushare explain` against a real API server, webhook and scheduler: whole outputs."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpushare.cli.exits import Exit
from tests.kit.bench import NODES, POOLS, Bench
from tests.kit.builders import build_pod, build_pool, build_workload
from tests.kit.commandline import Ended, expect_told, run_command
from tests.kit.expect import (
    expect,
    expect_allocated,
    expect_pool_ready,
    expect_running,
    find_condition,
    is_unschedulable,
)
from tests.kit.podcreation import DECISION, expect_sent, kubectl_create
from tests.kit.spaces import default_space

Json = dict[str, Any]

FIRST, CORDONED, ISOLATING, LONE = (f"gpu.10.0.0.{number}" for number in (1, 2, 3, 4))
SHARED = {"CGPU_DISABLE": "true"}
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00")
_POD = re.compile(r"(kube-system/[a-z-]+)-[a-z0-9]{5}\b")


def mask(page: str) -> str:
    """`page` without what is different each time."""
    return _TIME.sub("(time)", _POD.sub(r"\1-xxxxx", page))


@dataclass(frozen=True)
class Scene:
    """Two pools whose nodes are in use, one node in none, and a pod that waits."""

    bench: Bench
    folder: Path

    def run(self, *arguments: str) -> Ended:
        return run_command(*arguments, kubeconfig=self.bench.cluster.kubeconfig)

    def show(self, *arguments: str) -> str:
        """What a command that goes well prints, masked."""
        ended = self.run(*arguments)
        assert (ended.code, ended.err) == (0, ""), ended
        return mask(ended.out)

    def write(self, *objects: Json) -> str:
        """A file with these manifests."""
        file = self.folder / "manifests.yaml"
        file.write_text(yaml.safe_dump_all(objects))
        return str(file)


@pytest.fixture(scope="module")
def scene(installed: Bench, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    installed.operators.end_all()
    installed.install("Professional")
    installed.add_nodes(FIRST, CORDONED, cards=2)
    installed.add_nodes(ISOLATING, node_pool="np2")
    installed.add_nodes(LONE, node_pool="np3", labels={"ack.node.gpu.schedule": "share"})
    installed.operators.standard()
    installed.create_pool(build_pool())
    installed.create_pool(build_pool("isolated", schedule="cgpu", node_pool="np2", priority=50))
    expect_pool_ready(installed, nodes=2)
    expect_pool_ready(installed, "isolated", nodes=1)
    installed.cordon(CORDONED)
    expect_kept_off(installed, CORDONED)
    expect_sent(default_space(installed), build_pod("probe", env=SHARED), "training")
    for name, gib in (("trainer", 9), ("late", 12)):
        installed.create_pod(build_pod(name, gib=gib, env=SHARED))
        expect_running(installed, name)
    expect_allocated(installed, gib=21)
    installed.create_pod(build_pod("waits", gib=8, env=SHARED))
    expect(installed, "it waits", lambda: is_unschedulable(installed.pod("waits")))
    expect(installed, "its pool knows of it", lambda: _requested(installed) == 29)
    yield Scene(installed, tmp_path_factory.mktemp("cli"))
    installed.clear()


def expect_kept_off(bench: Bench, node: str) -> None:
    """Until the scheduler has heard of the cordon."""
    pod = build_pod("probe", gib=None, selects={"kubernetes.io/hostname": node})
    bench.create_pod(pod)
    expect(bench, "it is kept off", lambda: is_unschedulable(bench.pod("probe")))
    bench.delete_pod("probe")


def _requested(bench: Bench) -> int:
    told: int = bench.pool()["status"]["capacity"]["memoryRequested"]
    return told


PAGES: dict[str, tuple[str, ...]] = {
    "pod-that-runs": ("pod", "trainer"),
    "pod-that-waits": ("pod", "waits"),
    "node-of-a-pool": ("node", FIRST),
    "node-of-no-pool": ("node", LONE),
    "node-that-isolates": ("node", ISOLATING),
    "pool": ("pool", "training"),
    "pool-wide": ("pool", "isolated", "-o", "wide"),
}
"""By file in `explained`, what is asked."""


@pytest.mark.parametrize("page", PAGES)
def test_whole_pages(scene: Scene, page: str) -> None:
    assert scene.show("explain", *PAGES[page]) == read_page(page)


def read_page(name: str) -> str:
    return (Path(__file__).parent / "explained" / f"{name}.txt").read_text()


def test_manifests_of_what_does_not_exist_yet(scene: Scene) -> None:
    cron = build_workload("CronJob", "nightly", pod=build_pod("x", gib=4, env=SHARED))
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"}}
    file = scene.write(build_pod("new", gib=4), cron, service)
    assert scene.show("explain", "-f", file) == read_page("manifests")


def test_the_api_server_does_with_a_pod_what_is_said(scene: Scene) -> None:
    for pod in (build_pod("new", gib=4), build_pod("new", gib=40, env=SHARED)):
        sent = default_space(scene.bench).send(pod)
        answer = kubectl_create(scene.bench, pod)

        (said,) = json.loads(scene.show("explain", "-f", scene.write(pod), "-o", "json"))["objects"]

        decision = said["decision"]
        assert sent["spec"]["nodeSelector"] == decision["nodeSelector"]
        assert sent["metadata"]["annotations"][DECISION] == decision["annotation"]
        assert answer.warnings == decision["warnings"]


def test_the_same_as_data(scene: Scene) -> None:
    shown = json.loads(scene.show("explain", "pod", "waits", "-o", "json"))
    assert shown == yaml.safe_load(scene.show("explain", "pod", "waits", "-o", "yaml"))
    assert shown["decidedThen"]["pool"] == "training"
    assert [(pool["name"], pool["standing"]) for pool in shown["pools"]] == [
        ("training", "chosen"),
        ("isolated", "lost"),
    ]
    assert shown["waits"]["reason"] == "NoFreeBlock"
    assert [each["obstacles"][0]["reason"] for each in shown["nodes"]] == [
        "NoFreeBlock",
        "NodeCordoned",
    ]


def test_a_snapshot_answers_as_the_cluster_does(scene: Scene) -> None:
    file = scene.folder / "cluster.json"
    scene.show("snapshot", "-o", str(file))
    for asked in PAGES.values():
        ended = run_command("explain", *asked, "--snapshot", str(file))
        assert (ended.code, ended.err) == (0, "")
        assert mask(ended.out) == scene.show("explain", *asked)


def test_a_change_that_is_under_way_and_what_it_waits_for(scene: Scene) -> None:
    bench = scene.bench
    bench.add_nodes("gpu.10.0.0.5", node_pool="np4")
    bench.create_pool(build_pool("changing", node_pool="np4"))
    expect_pool_ready(bench, "changing", nodes=1)
    bench.set_faults("gpu.10.0.0.5", plugin_never_ready=True)
    bench.change_pool("changing", schedule="cgpu")

    def is_without_plugin() -> bool:
        """And the webhook may know it; nothing moves any more then."""
        page = scene.show("explain", "node", "gpu.10.0.0.5")
        left = bench.pool("changing")["status"]["capacity"]["memoryTotal"]
        said = find_condition(bench.pool("changing"))["message"]
        return (
            "at step Restarting" in page
            and page.count("plugin-ds-") == 1
            and left == 0
            and "gpushare-device-plugin-ds is not Ready" in said
        )

    expect(bench, "its plugin is away", is_without_plugin)
    try:
        node = scene.show("explain", "node", "gpu.10.0.0.5")
        pool = scene.show("explain", "pool", "changing")
        pod = build_pod("new", annotations={"gpushare.io/pool": "changing"})
        manifest = scene.show("explain", "-f", scene.write(pod))
    finally:
        bench.set_faults("gpu.10.0.0.5")
        expect_pool_ready(bench, "changing", nodes=1)
        bench.delete_pool("changing")
        bench.call("DELETE", f"{NODES}/gpu.10.0.0.5")
        expect(bench, "the pool is gone", lambda: not bench.cluster.api.exists(f"{POOLS}/changing"))
    assert node == read_page("node-in-its-change")
    assert pool == read_page("pool-in-its-change")
    assert manifest == read_page("pod-for-a-node-in-its-change")


# How it fails.


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        (("node", "gpu.10.0.0.9"), f"there is no node gpu.10.0.0.9; did you mean {LONE}?"),
        (("pool", "trianing"), "there is no pool trianing; did you mean training?"),
        (("pod", "trainee"), "there is no GPU pod default/trainee; did you mean default/trainer?"),
        (("pod", "trainer", "-n", "defualt"), "no namespace defualt; did you mean default?"),
        (("pod", "trainer", "-n", "kube-system"), "did you mean -n default?"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_names_that_there_are_not(scene: Scene, asked: tuple[str, ...], told: str) -> None:
    expect_told(scene.run("explain", *asked), Exit.NOT_FOUND, told)


def test_before_the_operator_is_installed_only_pools_are_missing(scene: Scene) -> None:
    file = scene.folder / "cluster.json"
    scene.show("snapshot", "-o", str(file))
    file.write_text(json.dumps({**json.loads(file.read_text()), "pools": None}))

    def ask(*asked: str) -> Ended:
        return run_command("explain", *asked, "--snapshot", str(file))

    assert mask(ask("node", LONE).out) == read_page("node-before-the-operator")
    manifest = scene.write(build_pod("new", gib=4))
    assert mask(ask("-f", manifest).out) == read_page("pod-before-the-operator")
    expect_told(ask("pool", "training"), Exit.NOT_INSTALLED, "is not in the cluster")
