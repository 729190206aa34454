"""A selector that covers more than GPU nodes: other nodes are not changed."""

from demo.checks import expect, expect_equal, expect_line
from demo.story import Facts, Scene, step
from demo.view import View
from devcluster.names import NVIDIA_COUNT, SCHEDULE
from devcluster.nodes import build_gpu_node, build_other_node

FILES = "demo/manifests/too-wide"
GPU_NODES = tuple(f"cn-hangzhou.192.168.21.{number}" for number in (11, 12))
CPU, SECOND_CPU = (f"cn-hangzhou.192.168.21.{number}" for number in (31, 32))
WINDOWS, VIRTUAL = "cn-hangzhou.192.168.21.41", "virtual-kubelet-cn-hangzhou-h"
OTHERS = (CPU, SECOND_CPU, WINDOWS, VIRTUAL)
_TEAM = {"team": "training"}


@step(
    "Before it is applied: which nodes has the team's label?",
    f"kubectl gpushare plan -f {FILES}/pool.yaml",
    by_hand="kubectl get nodes -l team=training, and know which of them have a card",
)
def foretold(view: View) -> Facts:
    for node in GPU_NODES:
        expect_line(view.output, node, "default -> cgpu")
    for node in OTHERS:
        expect_line(view.output, node, "NoGpuOnNode")
    yield f"{len(GPU_NODES)} nodes will change; {len(OTHERS)} have no card, and are named"


@step(
    "It is applied as it is",
    f"kubectl apply -f {FILES}/pool.yaml",
    f"kubectl wait gsp/training --for=jsonpath='{{.status.nodes.ready}}'={len(GPU_NODES)} "
    "--timeout=3m",
    by_hand="the same label on all six; pods of the web servers find no node while they are "
    "cordoned",
)
def applied(view: View) -> Facts:
    pool = view.blocked_pool("training", "NoGpuOnNode")
    expect(pool.matched == len(GPU_NODES) + len(OTHERS), "all six nodes matched", pool)
    changed = {node.name: node.shows(SCHEDULE) for node in view.nodes("training")}
    expect_equal(sorted(changed), sorted(GPU_NODES), "the nodes with the pool's label")
    yield f"{' and '.join(changed)} have {' and '.join(set(changed.values()))}"
    written = {write.name for write in view.node_writes()}
    expect_equal(written & {*OTHERS}, set(), "what was written to nodes without a card")
    yield "nothing was written to the others: none is cordoned, none has a new label"


@step(
    "What does it say of the others, and what is to be done?",
    "kubectl gpushare explain pool training",
    f"kubectl gpushare explain node {CPU}",
    f"kubectl gpushare explain node {WINDOWS}",
    by_hand="nothing says so",
)
def explained(view: View) -> Facts:
    expect_line(view.output, "NoGpuOnNode")
    expect_line(view.output, "spec.nodes.exclude")
    expect_line(view.output, "spec.nodes.cards: Assumed")
    expect_line(view.output, "operating system is windows")
    yield "why, node by node: no card shows, not Linux, virtual"
    yield "narrow the selector, exclude the node, or say that the pool's nodes have cards"


@step(
    "The selector is narrowed to nodes with a card",
    "kubectl patch gsp training --type=merge -p '"
    f'{{"spec":{{"nodes":{{"selector":{{"matchExpressions":'
    f'[{{"key":"{NVIDIA_COUNT}","operator":"Exists"}}]}}}}}}}}'
    "'",
    "kubectl wait gsp/training --for=condition=Ready --timeout=3m",
    by_hand="remove the label from four nodes, and uncordon them",
)
def narrowed(view: View) -> Facts:
    nodes = view.ready_pool("training", nodes=len(GPU_NODES))
    expect_equal(sorted(node.name for node in nodes), sorted(GPU_NODES), "the pool's nodes")
    expect_equal(dict(view.restarts()), {}, "restarts of a device plugin")
    yield f"the pool is Ready with {len(nodes)} nodes, and no plugin was restarted"


SCENE = Scene(
    title="A selector that is too wide",
    source="docs/pools.md, what a selector may cover: no node without a card is ever changed",
    edition="Professional",
    nodes=(
        *(build_gpu_node(name, labels=_TEAM) for name in GPU_NODES),
        build_other_node("CPU", CPU, labels=_TEAM),
        build_other_node("CPU", SECOND_CPU, labels=_TEAM),
        build_other_node("Windows", WINDOWS, labels=_TEAM),
        build_other_node("virtual", VIRTUAL, labels=_TEAM),
    ),
    steps=(foretold, applied, explained, narrowed),
)
