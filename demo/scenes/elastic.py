"""Pods wait in one pool while nodes are idle in another: the operator says which one to move."""

from demo.checks import expect, expect_equal, expect_line
from demo.story import Facts, Scene, step
from demo.view import View
from devcluster.nodes import build_gpu_node

FILES = "demo/manifests/elastic"
NODES = [f"cn-shanghai.192.168.9.{number}" for number in range(51, 55)]
SERVERS, FIT = 6, 2
_READY = "kubectl wait gsp --all --for=condition=Ready --timeout=3m"
_HASH = "$(kubectl get gsp inference -o jsonpath='{.status.recommendation.hash}')"


def _wait_for_servers(count: int) -> str:
    return (
        f"kubectl wait deployment/serve --for=jsonpath='{{.status.readyReplicas}}'={count} "
        "--timeout=3m"
    )


@step(
    "Two pools share four nodes: one to three each; a job trains",
    f"kubectl apply -f {FILES}/pools.yaml",
    _READY,
    f"kubectl apply -f {FILES}/train.yaml",
    "kubectl get gsp",
    by_hand="one node pool for each purpose",
)
def pools(view: View) -> Facts:
    expect_line(view.output, "inference share", "1/1-3")
    expect_line(view.output, "training cgpu", "3/1-3")
    (job,) = view.started("train")
    yield f"training has three nodes, inference one; {job.name} runs on {job.node}"


@step(
    "Six servers of half a card: two fit, and the operator says what would help",
    f"kubectl apply -f {FILES}/serve.yaml",
    _wait_for_servers(FIT),
    "kubectl wait gsp/inference --for=jsonpath='{.status.recommendation.source}'=training "
    "--timeout=3m",
    "kubectl gpushare recommend",
    by_hand="somebody is called, compares two lists, and hopes that the node is idle",
)
def recommended(view: View) -> Facts:
    expect_line(view.output, "inference", "training")
    (job,) = view.started("train")
    expect(job.node not in view.output, f"{job.node} of the job is not to move", view.output)
    expect(not view.node_writes(), "no write of the operator to any node", view.node_writes())
    yield "an idle node of training would help; nothing was written"


@step(
    "The move is accepted, and two more servers run",
    f'kubectl gpushare recommend --accept "{_HASH}"',
    _wait_for_servers(FIT + 2),
    "kubectl get gsp",
    by_hand="cordon, drain, relabel, restart the plugin, uncordon",
)
def accepted(view: View) -> Facts:
    expect_line(view.output, "inference share", "2/1-3")
    written = {write.name for write in view.node_writes()}
    expect_equal(len(written), 1, "nodes to which the operator wrote")
    yield f"{written.pop()} moved, and no other node was touched"


@step(
    "Next time nobody need be asked: all servers run",
    'kubectl patch gsp training --type=merge -p \'{"spec":{"demand":{"mode":"Automatic"}}}\'',
    'kubectl patch gsp inference --type=merge -p \'{"spec":{"demand":{"mode":"Automatic"}}}\'',
    _wait_for_servers(SERVERS),
    "kubectl get gsp",
    by_hand="the same again, at night",
)
def automatic(view: View) -> Facts:
    expect_line(view.output, "inference share", "3/1-3")
    servers = view.started("serve", pods=SERVERS)
    yield f"all {SERVERS} servers run, on {', '.join(sorted({pod.node for pod in servers}))}"
    (job,) = view.started("train")
    written = {write.name for write in view.node_writes()}
    expect(job.node not in written, f"no write to {job.node}", written)
    expect_equal(job.got.restarts, 0, f"restarts of {job.name}")
    yield f"{job.name} runs on {job.node} as before: training keeps its last node"


SCENE = Scene(
    title="Pods wait in one pool while nodes are idle in another",
    source="What no guide speaks of: who needs the nodes now",
    edition="Basic",
    nodes=tuple(
        build_gpu_node(name, labels={"alibabacloud.com/nodepool-id": "np-gpu"}) for name in NODES
    ),
    steps=(pools, recommended, accepted, automatic),
)
