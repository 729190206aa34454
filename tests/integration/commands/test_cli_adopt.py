"""`gpushare adopt` and `migrate pools` against a real API server: what they say is what happens."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from devcluster.editions import EDITIONS, Edition
from gpushare.cli.exits import Exit
from tests.kit.bench import NODES, POOLS, SYSTEM_PODS, Bench
from tests.kit.builders import build_pod
from tests.kit.commandline import Ended, expect_told, run_command
from tests.kit.expect import expect_pool_ready, expect_reason, expect_running
from tests.kit.faultproxy import FaultProxy, Rule
from tests.kit.modes import LOOKS, MODE, expect_offer
from tests.kit.persons import a_reader

Json = dict[str, Any]

POOL = "gpushare.io/pool"
ISOLATION = "cgpu.disable.isolation"
VERIFIED = "gpushare.io/isolation-verified"
"""An account that may read all that commands read."""
PAGE = """\
POOL                  EDITION       MODE   PLACEMENT  NODES  MEMBERS
np-fast-cgpu          Professional  cgpu   -          2      \
alibabacloud.com/nodepool-id=np-fast, without fast-3
np-mixed-cgpu-spread  Professional  cgpu   spread     1      1 by name
np-mixed-share        Professional  share  -          1      1 by name

The plan is empty: nodes get the operator's own labels and annotations (gpushare.io/), and \
nothing else happens to them: no other label, no cordon, no restart, no reboot.

Remarks
  CODE           ABOUT                                       WHAT
  MixedNodePool  pools np-mixed-cgpu-spread, np-mixed-share  nodes of node pool np-mixed are \
listed by name, since not all there carry the same; later ones are in no pool until they are \
listed
  UnknownValue   node fast-3                                 ack.node.gpu.schedule=egpu is \
nothing that the operator knows on the Professional edition, and is kept as it is; left out
"""
MANIFESTS = """\
# The plan is empty: nodes get the operator's own labels and annotations (gpushare.io/), and \
nothing else happens to them: no other label, no cordon, no restart, no reboot.
# UnknownValue: node fast-3: ack.node.gpu.schedule=egpu is nothing that the operator knows on \
the Professional edition, and is kept as it is; left out
---
# 2 nodes: fast-1, fast-2
apiVersion: gpushare.io/v1alpha1
kind: GPUSharePool
metadata:
  name: np-fast-cgpu
spec:
  nodes:
    selector:
      matchLabels:
        alibabacloud.com/nodepool-id: np-fast
    exclude:
    - fast-3
  edition: Professional
  schedule: cgpu
---
# 1 node: slow-2
# MixedNodePool: nodes of node pool np-mixed are listed by name, since not all there carry the \
same; later ones are in no pool until they are listed
apiVersion: gpushare.io/v1alpha1
kind: GPUSharePool
metadata:
  name: np-mixed-cgpu-spread
spec:
  nodes:
    names:
    - slow-2
  edition: Professional
  schedule: cgpu
  placement: spread
---
# 1 node: slow-1
# MixedNodePool: nodes of node pool np-mixed are listed by name, since not all there carry the \
same; later ones are in no pool until they are listed
apiVersion: gpushare.io/v1alpha1
kind: GPUSharePool
metadata:
  name: np-mixed-share
spec:
  nodes:
    names:
    - slow-1
  edition: Professional
  schedule: share
"""
MIGRATION = """\
NODE  POOL      FROM         TO                 PODS  WHAT IT GOES THROUGH
n1    np1-cgpu  Basic cgpu   Professional cgpu  1     its plugin is replaced
n2    np2-cgpu  Basic share  Professional cgpu  0     its plugin is replaced; isolation begins \
for pods that come afterwards

1. Have the pools in a file before anything is changed.
   gpushare migrate pools -o yaml > professional.yaml

2. The Professional edition runs on ACK Pro, ACK Edge Pro and registered clusters: migrate a \
dedicated cluster to Pro first.

3. Let pods finish that hold shared GPUs or select labels that go (1 now), or move them, node \
by node: the vendor's rule for each change of what a node offers.

4. Remove the Basic edition: by the vendor's Job gpushare-migration, which changes labels too \
(CHANGE_LABELS_INFO=cgpu=true::ack.node.gpu.schedule=cgpu,gpushare=true::ack.node.gpu.schedule=s\
hare), or by its Helm release.

5. Relabel the nodes; where the Job has done so, nothing changes.
   kubectl label nodes n1 n2 ack.node.gpu.schedule=cgpu cgpu- cgpu.disable.isolation- \
--overwrite

6. Install the Professional edition (ack-ai-installer).

7. Create the pools.
   kubectl apply -f professional.yaml

8. Have workloads select what is there (pods that select labels that go: 1; their owners' \
templates count). Quotas on aliyun.com/gpu-mem hold as they are: both editions count the same.
   gpushare migrate workloads -A
"""


def run(bench: Bench, *arguments: str) -> Ended:
    return run_command(*arguments, kubeconfig=bench.cluster.kubeconfig)


def add_nodes(bench: Bench, edition: Edition, mode: str, *nodes: str, node_pool: str) -> None:
    """Nodes that somebody put into `mode`, and that work."""
    look = LOOKS[edition][mode]
    bench.add_nodes(*nodes, labels=look.labels, node_pool=node_pool)
    for node in nodes:
        expect_offer(bench, node, look)


def apply(bench: Bench, manifests: str) -> list[str]:
    """Create the pools, and start the operator; their names."""
    bench.cluster.kubectl("apply", "-f", "-", stdin=manifests)
    bench.operators.standard()
    return [pool["metadata"]["name"] for pool in bench.call("GET", POOLS)["items"]]


def read_labels(bench: Bench) -> dict[str, dict[str, str]]:
    items = bench.call("GET", NODES)["items"]
    return {node["metadata"]["name"]: node["metadata"]["labels"] for node in items}


def read_system_pods(bench: Bench) -> set[str]:
    return {pod["metadata"]["uid"] for pod in bench.pods(SYSTEM_PODS)}


# What adoption does.


@pytest.mark.parametrize("edition", EDITIONS)
def test_adopted_pools_change_no_label_and_restart_nothing(bench: Bench, edition: Edition) -> None:
    bench.install(edition)
    for mode in LOOKS[edition]:
        node = f"n-{mode.replace('_', '-')}"
        add_nodes(bench, edition, mode, node, node_pool=f"np-{node}")
    labels, plugins, mark = read_labels(bench), read_system_pods(bench), bench.audit.mark()

    adopted = run(bench, "adopt", "-o", "yaml")
    assert (adopted.code, adopted.err) == (Exit.OK, "")
    with bench.watching() as recording:
        pools = apply(bench, adopted.out)
        for pool in pools:
            expect_pool_ready(bench, pool, nodes=1)

    assert len(pools) == len(labels)
    after = read_labels(bench)
    assert {after[node].pop(POOL) for node in after} == set(pools)
    verified = {node: after[node].pop(VERIFIED, None) for node in after}
    assert {node for node, value in verified.items() if value == "true"} == verified.keys() & {
        "n-cgpu", "n-core-mem"
    }  # fmt: skip
    assert after == labels
    # Others of their DaemonSets may have been on their way.
    assert plugins <= read_system_pods(bench)
    written = {call.resource for call in bench.audit.our_writes(mark)}
    assert written.isdisjoint({"pods", "pods/eviction", "daemonsets", "jobs"})
    assert not [node for node in recording.history if node["spec"].get("unschedulable")]
    again = run(bench, "adopt", "-o", "json")
    assert (again.code, json.loads(again.out)["pools"]["items"]) == (Exit.OK, [])


def test_pods_that_run_go_on_and_those_that_come_find_the_adopted_pool(bench: Bench) -> None:
    bench.install("Professional")
    add_nodes(bench, "Professional", "cgpu", "n1", node_pool="np1")
    bench.create_pod(build_pod("before", selects={MODE: "cgpu"}))
    before = expect_running(bench, "before")

    apply(bench, run(bench, "adopt", "-o", "yaml").out)
    expect_pool_ready(bench, "np1-cgpu", nodes=1)

    bench.create_pod(build_pod("after"))
    assert expect_running(bench, "after")["spec"]["nodeSelector"][POOL] == "np1-cgpu"
    assert expect_running(bench, "before")["metadata"]["uid"] == before["metadata"]["uid"]


def test_a_node_that_the_node_pool_gets_later_is_a_member_too(bench: Bench) -> None:
    bench.install("Professional")
    add_nodes(bench, "Professional", "share", "first", node_pool="np1")
    apply(bench, run(bench, "adopt", "-o", "yaml").out)
    expect_pool_ready(bench, "np1-share", nodes=1)

    add_nodes(bench, "Professional", "share", "second", node_pool="np1")

    expect_pool_ready(bench, "np1-share", nodes=2)


def test_a_label_that_is_told_is_the_one_that_is_written(bench: Bench) -> None:
    bench.install("Basic")
    bench.add_nodes("plain", labels={"cgpu": "true"})
    expect_offer(bench, "plain", LOOKS["Basic"]["cgpu"])
    labels, mark = read_labels(bench), bench.audit.mark()

    told = run(bench, "adopt", "-o", "json")
    ((node,), pools) = (json.loads(told.out)[key] for key in ("nodes", "pools"))
    apply(bench, json.dumps(pools))
    expect_pool_ready(bench, node["pool"], nodes=1)

    assert (told.code, node["labels"].keys()) == (Exit.CHANGES, {ISOLATION, VERIFIED, POOL})
    written = {key: change["to"] for key, change in node["labels"].items()}
    assert read_labels(bench) == {"plain": {**labels["plain"], **written}}
    assert bench.audit.our_deletions(mark) == []


def test_a_teardown_that_is_told_is_what_the_pool_waits_for(bench: Bench) -> None:
    bench.install("Professional")
    add_nodes(bench, "Professional", "share", "haunted", node_pool="np1")
    bench.annotate(f"{NODES}/haunted", {"gpushare.io/module": "loaded"})

    told = run(bench, "adopt", "-o", "json")
    ((node,), pools) = (json.loads(told.out)[key] for key in ("nodes", "pools"))
    apply(bench, json.dumps(pools))

    assert (told.code, node["reason"], node["reboots"]) == (
        Exit.CHANGES, "RequiresTeardown", True,
    )  # fmt: skip
    sample = expect_reason(bench, "haunted", node["reason"], pool=node["pool"])
    # A status shows the beginning of a message.
    assert node["message"].startswith(sample["message"].removesuffix("…"))


# How it is told.


def test_what_was_found_as_people_and_scripts_read_it(bench: Bench) -> None:
    bench.install("Professional")
    add_nodes(bench, "Professional", "cgpu", "fast-1", "fast-2", "slow-2", node_pool="np-fast")
    bench.label("slow-2", {"alibabacloud.com/nodepool-id": "np-mixed"})
    bench.label("slow-2", {"ack.node.gpu.placement": "spread"})
    add_nodes(bench, "Professional", "share", "slow-1", node_pool="np-mixed")
    bench.add_nodes("fast-3", labels={MODE: "egpu"}, node_pool="np-fast")

    page, as_yaml = run(bench, "adopt"), run(bench, "adopt", "-o", "yaml")
    as_data = json.loads(run(bench, "adopt", "-o", "json").out)

    assert page == Ended(Exit.OK, PAGE, "")
    assert (as_yaml.code, as_yaml.out) == (Exit.OK, MANIFESTS)
    told = [line.removeprefix("gpushare: ").split(":")[0] for line in as_yaml.err.splitlines()]
    assert told == ["MixedNodePool", "UnknownValue"]
    assert as_data["pools"]["items"] == list(yaml.safe_load_all(MANIFESTS))
    assert as_data["planIsEmpty"] is True


def test_before_the_operator_is_installed_it_says_the_same(bench: Bench, tmp_path: Path) -> None:
    bench.install("Professional")
    add_nodes(bench, "Professional", "share", "n1", node_pool="np1")
    with FaultProxy(bench.cluster) as proxy:
        proxy.add(Rule("GET", "/gpusharepools", status=404, times=None, body=b"404 page not found"))
        with a_reader(bench, tmp_path, url=proxy.url) as kubeconfig:
            before = run_command("adopt", "-o", "yaml", kubeconfig=kubeconfig)
        assert proxy.matching("GET", "/gpusharepools")
    assert before == run(bench, "adopt", "-o", "yaml")
    assert before.code == Exit.OK


def test_a_list_that_fails_prints_no_pools(bench: Bench, tmp_path: Path) -> None:
    """Half the pods would make a plan empty that is not."""
    with FaultProxy(bench.cluster) as proxy:
        proxy.add(Rule("GET", "/api/v1/pods", status=403, times=None))
        with a_reader(bench, tmp_path, url=proxy.url) as kubeconfig:
            for command in (["adopt", "-o", "yaml"], ["migrate", "pools"]):
                expect_told(run_command(*command, kubeconfig=kubeconfig), Exit.FORBIDDEN)


def test_a_migration_as_people_read_it_and_pools_that_the_api_server_takes(bench: Bench) -> None:
    bench.install("Basic")
    add_nodes(bench, "Basic", "cgpu", "n1", node_pool="np1")
    add_nodes(bench, "Basic", "share", "n2", node_pool="np2")
    bench.create_pod(build_pod("holder", selects={"cgpu": "true", "kubernetes.io/hostname": "n1"}))
    expect_running(bench, "holder")

    page = run(bench, "migrate", "pools")
    pools = run(bench, "migrate", "pools", "-o", "yaml")

    assert page == Ended(Exit.OK, MIGRATION, "")
    bench.cluster.kubectl("apply", "--dry-run=server", "-f", "-", stdin=pools.out)
