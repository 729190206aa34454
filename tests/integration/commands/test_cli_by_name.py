"""Questions about one object, by people who may only `get` it, and what they are not told."""

import json
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from gpushare.cli.exits import Exit
from tests.kit.bench import NODES as NODES_PATH
from tests.kit.bench import Bench
from tests.kit.builders import build_pod, build_pool
from tests.kit.commandline import Ended, expect_told, run_command
from tests.kit.expect import (
    expect,
    expect_allocated,
    expect_pool_ready,
    expect_running,
    is_unschedulable,
)
from tests.kit.persons import a_person, a_rule, wait_until_allowed
from tests.kit.podcreation import expect_sent
from tests.kit.spaces import default_space

Json = dict[str, Any]

NODE, OTHER = "n1", "n2"
GROUP = "gpushare.io"
SHARED = {"CGPU_DISABLE": "true"}
POD = a_rule("pods", "get", of=("trainer", "waits"))
ONE_NODE = a_rule("nodes", "get", of=(NODE,))
ONE_POOL = a_rule("gpusharepools", "get", group=GROUP, of=("training",))
PODS, NODES = a_rule("pods", "list"), a_rule("nodes", "list")
POOLS = a_rule("gpusharepools", "list", group=GROUP)
DAEMONSETS = a_rule("daemonsets", "list", group="apps")
SPACE = a_rule("namespaces", "get", of=("default",))


@dataclass(frozen=True)
class Desk:
    """Where somebody with a few rights types commands."""

    kubeconfig: Path

    def run(self, *arguments: str) -> Ended:
        return run_command(*arguments, kubeconfig=self.kubeconfig)

    def show(self, *arguments: str) -> str:
        ended = self.run(*arguments)
        assert (ended.code, ended.err) == (0, ""), ended
        return ended.out

    def ask(self, *arguments: str) -> Json:
        """What is answered, as data."""
        document: Json = json.loads(self.show(*arguments, "-o", "json"))
        return document


@pytest.fixture(scope="module")
def scene(installed: Bench) -> Iterator[Bench]:
    """A pool of two nodes, a pod that runs on the first and one that fits nowhere."""
    installed.operators.end_all()
    installed.install("Professional")
    installed.add_nodes(NODE, OTHER)
    installed.operators.standard()
    installed.create_pool(build_pool())
    expect_pool_ready(installed, nodes=2)
    expect_sent(default_space(installed), build_pod("probe", env=SHARED), "training")
    installed.create_pod(build_pod("trainer", gib=9, env=SHARED))
    expect_running(installed, "trainer")
    expect_allocated(installed, gib=9)
    installed.create_pod(build_pod("waits", gib=40, env=SHARED))
    expect(installed, "it waits", lambda: is_unschedulable(installed.pod("waits")))
    yield installed
    installed.clear()


@contextmanager
def a_desk(bench: Bench, folder: Path, rules: Sequence[Json]) -> Iterator[Desk]:
    """Of somebody who may do this and nothing else, once the last of it is in force."""
    with a_person(bench, folder, rules) as kubeconfig:
        last = rules[-1]
        asked = {
            "verb": last["verbs"][0],
            "group": last["apiGroups"][0],
            "resource": last["resources"][0],
        }
        asked["name"] = last.get("resourceNames", [""])[0]
        wait_until_allowed(bench, "visitor", asked)
        yield Desk(kubeconfig)


def lacks(document: Json) -> dict[str, str]:
    """By kind that could not be listed, what the answer does not say; each names the right."""
    for each in document["unread"]:
        assert "cannot list resource" in each["why"]
    return {each["kind"]: each["lacks"] for each in document["unread"]}


# A pod.


def test_to_get_the_pod_is_enough_to_explain_it(scene: Bench, tmp_path: Path) -> None:
    node = scene.pod("trainer")["spec"]["nodeName"]
    with a_desk(scene, tmp_path, [POD]) as desk:
        said = desk.ask("explain", "pod", "trainer")
        waits = desk.ask("explain", "pod", "waits", "-n", "default")
        page = desk.show("explain", "pod", "trainer", "-o", "wide")

    assert lacks(said).keys() == {
        "configmaps",
        "pods",
        "nodes",
        "pools",
        "daemonsets",
        "namespaces",
    }
    assert said["requests"] == {"aliyun.com/gpu-mem": 9}
    assert (said["placed"]["node"], said["placed"]["cards"]) == (node, {"0": 9})
    assert said["decidedThen"]["pool"] == "training"
    # Nothing is said that depends on what could not be read.
    assert (said["decision"], said["pools"], said["nodes"]) == (None, [], [])
    assert said["decidedThen"]["sameNow"] is None
    assert any(f"node {node} is not known" in note for note in said["notes"])
    assert waits["waits"]["reason"] == "Unschedulable"
    assert waits["waits"]["message"] == waiting_message(scene)
    assert waits["nodes"] == []
    assert re.search(r"pools +to which pool it would be sent now.*cannot list", page)
    assert "NotFound" not in page


def waiting_message(bench: Bench) -> str:
    conditions = bench.pod("waits")["status"]["conditions"]
    (told,) = (each["message"] for each in conditions if each["type"] == "PodScheduled")
    return str(told)


def test_with_its_node_by_name_its_isolation_is_known_too(scene: Bench, tmp_path: Path) -> None:
    node = a_rule("nodes", "get", of=(scene.pod("trainer")["spec"]["nodeName"],))
    with a_desk(scene, tmp_path, [POD, SPACE, node]) as desk:
        said = desk.ask("explain", "pod", "trainer")
    assert lacks(said).keys() == {"configmaps", "pods", "nodes", "pools", "daemonsets"}
    assert (said["notes"], said["placed"]["staleIsolation"]) == ([], [])


def test_with_the_pools_listed_the_decision_is_that_of_who_may_read_all(
    scene: Bench, tmp_path: Path
) -> None:
    whole = Desk(scene.cluster.kubeconfig).ask("explain", "pod", "waits")
    with a_desk(scene, tmp_path, [POD, SPACE, POOLS]) as desk:
        said = desk.ask("explain", "pod", "waits")
    for part in ("decision", "pools", "patch", "decidedThen", "webhookIsAsked"):
        assert said[part] == whole[part]
    assert lacks(whole) == {}
    assert lacks(said).keys() == {"configmaps", "pods", "nodes", "daemonsets"}


def test_a_pod_that_may_not_be_read_or_is_not_there(scene: Bench, tmp_path: Path) -> None:
    with a_desk(scene, tmp_path, [a_rule("pods", "get", of=("gone", "trainer"))]) as desk:
        other = desk.run("explain", "pod", "waits")
        gone = desk.run("explain", "pod", "gone")
    expect_told(other, Exit.FORBIDDEN, 'pods "waits" is forbidden', 'cannot get resource "pods"')
    expect_told(gone, Exit.NOT_FOUND, "there is no GPU pod default/gone")


# A node.


def test_to_get_the_node_is_enough_to_explain_it(scene: Bench, tmp_path: Path) -> None:
    whole = Desk(scene.cluster.kubeconfig).ask("explain", "node", NODE)
    with a_desk(scene, tmp_path, [ONE_NODE]) as desk:
        said = desk.ask("explain", "node", NODE)
        page = desk.show("explain", "node", NODE)

    assert lacks(said).keys() == {"configmaps", "nodes", "pods", "pools", "daemonsets"}
    for part in ("ready", "cordoned", "taints", "pool", "modeByLabels", "modeApplied", "change"):
        assert said[part] == whole[part]
    assert [each["offered"] for each in said["resources"]] == [15]
    assert [each["requested"] for each in said["resources"]] == [None]
    # No plugin is missing, and no card is free, because one may not see them.
    assert (said["findings"], said["plugins"], said["cards"]) == ([], [], [])
    assert (said["claimants"], said["isolation"], said["operatorInstalled"]) == (None,) * 3
    assert re.search(r"pods +what runs on it", page)


def test_with_its_pool_by_name_what_that_wants_is_known_too(scene: Bench, tmp_path: Path) -> None:
    whole = Desk(scene.cluster.kubeconfig).ask("explain", "node", NODE)
    with a_desk(scene, tmp_path, [ONE_NODE, ONE_POOL]) as desk:
        said = desk.ask("explain", "node", NODE)
    assert said["labels"] == whole["labels"]
    assert said["edition"] == whole["edition"]


def test_with_the_rest_listed_the_node_alone_is_told_what_runs_on_it(
    scene: Bench, tmp_path: Path
) -> None:
    whole = Desk(scene.cluster.kubeconfig).ask("explain", "node", NODE)
    with a_desk(scene, tmp_path, [ONE_NODE, PODS, DAEMONSETS, POOLS]) as desk:
        said = desk.ask("explain", "node", NODE)
    assert lacks(said).keys() == {"configmaps", "nodes"}
    for part in ("cards", "plugins", "resources", "isolation", "labels"):
        assert said[part] == whole[part]
    # What others of its pool are at decides what is planned for it.
    assert (said["claimants"], said["findings"]) == (None, [])


def test_that_no_plugin_runs_is_said_by_who_may_list_pods(scene: Bench, tmp_path: Path) -> None:
    scene.add_nodes("bare", node_pool="np9", cards=0)
    hints = [key for key in scene.node("bare")["metadata"]["labels"] if "nvidia" in key]
    scene.label("bare", dict.fromkeys(hints))
    whole = Desk(scene.cluster.kubeconfig).show("explain", "node", "bare")
    with a_desk(scene, tmp_path, [a_rule("nodes", "get", of=("bare",))]) as desk:
        page = desk.show("explain", "node", "bare")
    scene.call("DELETE", f"{NODES_PATH}/bare")
    assert "no resource, no device plugin" in whole
    assert "no resource." in page
    assert "no device plugin" not in page


def test_inspect_of_a_node_that_may_be_got(scene: Bench, tmp_path: Path) -> None:
    whole = Desk(scene.cluster.kubeconfig)
    with a_desk(scene, tmp_path, [ONE_NODE]) as desk:
        said = desk.ask("inspect", NODE)
        page = desk.show("inspect", "-d", NODE)
        other = desk.run("inspect", OTHER)
        every = desk.run("inspect")
    assert [(each["name"], each["gpus"], each["total"]) for each in said["nodes"]] == [
        (NODE, 1, 15)
    ]
    assert "allocated" not in said
    assert lacks(said).keys() == {"pods"}
    assert re.search(r"pods +what of the cards is given out", page)
    expect_told(other, Exit.FORBIDDEN, f'nodes "{OTHER}" is forbidden')
    expect_told(every, Exit.FORBIDDEN, 'cannot list resource "nodes"')
    with a_desk(scene, tmp_path, [PODS, ONE_NODE]) as desk:
        assert desk.show("inspect", NODE) == whole.show("inspect", NODE)
        assert desk.show("inspect", "-d", NODE) == whole.show("inspect", "-d", NODE)


# A pool.


def is_told(desk: Desk, capacity: Json) -> bool:
    told: bool = desk.ask("explain", "pool", "training")["capacity"] == capacity
    return told


def test_to_get_the_pool_is_enough_to_explain_it(scene: Bench, tmp_path: Path) -> None:
    whole = Desk(scene.cluster.kubeconfig).ask("explain", "pool", "training")
    with a_desk(scene, tmp_path, [ONE_POOL]) as desk:
        # The status tells of what pods ask for some seconds later.
        expect(scene, "the status is so", lambda: is_told(desk, whole["capacity"]))
        said = desk.ask("explain", "pool", "training")
        page = desk.show("explain", "pool", "training")
        other = desk.run("explain", "pool", "inference")

    assert lacks(said).keys() == {"configmaps", "nodes", "pods", "pools", "daemonsets"}
    for part in ("edition", "schedule", "adopted", "controllerIsBehind", "nodes", "capacity"):
        assert said[part] == whole[part]
    told = {each["type"]: each["told"] for each in whole["conditions"]}
    assert {each["type"]: each["told"] for each in said["conditions"]} == told
    assert (said["groups"], said["waiting"], said["samples"]) == (None, None, [])
    assert re.search(r"nodes +anything of its nodes but", page)
    expect_told(other, Exit.FORBIDDEN, 'gpusharepools.gpushare.io "inference" is forbidden')


# What is written.


def test_to_get_and_patch_the_pool_is_enough_to_try_it_again(scene: Bench, tmp_path: Path) -> None:
    rule = a_rule("gpusharepools", "get", "patch", group=GROUP, of=("training", "gone"))
    with a_desk(scene, tmp_path, [rule]) as desk:
        retried = desk.run("retry", "pool/training")
        gone = [desk.run("retry", "pool/gone"), desk.run("approve", "gone")]
    expect_told(retried, Exit.NOT_CALLED_FOR, "training")
    for ended in gone:
        expect_told(ended, Exit.NOT_FOUND, "there is no pool gone")
