"""A queue that does not fit: the split of the nodes on which it runs is searched, and applied."""

from demo.checks import expect, expect_equal, expect_line, expect_restarted_once
from demo.story import Facts, Scene, step
from demo.view import View
from devcluster.names import CGPU, DISABLE_ISOLATION
from devcluster.nodes import build_gpu_node

FILES = "demo/manifests/split"
NODES = [f"cn-shanghai.192.168.9.{number}" for number in range(41, 45)]
SERVERS, FIT = 6, 2
_SEARCH = "kubectl gpushare simulate --search nodepool=np-gpu --pools training,inference"


@step(
    "Four nodes of one node pool: three train in isolation, one serves; a job trains",
    f"kubectl apply -f {FILES}/pools.yaml",
    "kubectl wait gsp --all --for=condition=Ready --timeout=3m",
    f"kubectl apply -f {FILES}/train.yaml",
    by_hand="a node pool for each purpose, as large as somebody guessed",
)
def pools(view: View) -> Facts:
    for pool, nodes in (("training", NODES[:3]), ("inference", NODES[3:])):
        found = view.ready_pool(pool, nodes=len(nodes))
        expect_equal(sorted(node.name for node in found), nodes, f"the nodes of pool {pool}")
        yield f"pool {pool}: {len(nodes)} with {found[0].shows(CGPU, DISABLE_ISOLATION)}"
    (job,) = view.started("train")
    yield f"{job.name} runs on {job.node}"


@step(
    "Six servers of half a card: only two of them fit",
    f"kubectl apply -f {FILES}/serve.yaml",
    f"kubectl wait deployment/serve --for=jsonpath='{{.status.replicas}}'={SERVERS} --timeout=3m",
    f"kubectl wait deployment/serve --for=jsonpath='{{.status.readyReplicas}}'={FIT} --timeout=3m",
    "kubectl gpushare simulate",
    by_hand="kubectl describe pod: Insufficient aliyun.com/gpu-mem; whether another node would "
    "help is arithmetic",
)
def queued(view: View) -> Facts:
    left = SERVERS - FIT
    expect_line(view.output, f"0 of {left} pods would run")
    expect_line(view.output, "default serve-", f"{left} inference ")
    yield f"{left} servers wait, and stay pending on the pools as they are"


@step(
    "On which split of the four nodes would most pods run?",
    _SEARCH,
    by_hand="count cards, and try; each wrong guess is a restart of plugins",
)
def searched(view: View) -> Facts:
    # Number, sizes of the pools, pods that run, pods that must go first, nodes that change.
    expect_line(view.output, f"1 1 3 {SERVERS - FIT} 0 2")
    yield "training with one node, inference with three: all servers run, two nodes change"
    yield "no running pod must go: the node of the job stays where it is"
    expect(not view.node_writes(), "no write of the operator to any node", view.node_writes())
    yield "nothing was written"


@step(
    "The pools are changed so, and the servers run",
    f"{_SEARCH} -o yaml | kubectl apply -f -",
    "kubectl wait gsp --all --for=condition=Ready --timeout=3m",
    "kubectl rollout status deployment/serve --timeout=3m",
    by_hand="edit two node pools, drain, relabel, restart the plugins, and see whether it helped",
)
def applied(view: View) -> Facts:
    view.ready_pool("training", nodes=1)
    view.ready_pool("inference", nodes=3)
    servers = view.started("serve", pods=SERVERS)
    yield f"all {SERVERS} servers run, on {', '.join(sorted({pod.node for pod in servers}))}"
    (job,) = view.started("train")
    moved = [name for name in NODES[:3] if name != job.node]
    yield expect_restarted_once(moved, view.restarts())
    written = {write.name for write in view.node_writes()}
    expect(job.node not in written, f"no write to {job.node}", written)
    expect_equal(job.got.restarts, 0, f"restarts of {job.name}")
    yield f"{job.name} runs on {job.node} as before"


SCENE = Scene(
    title="A queue that does not fit, and the split on which it does",
    source="What no guide speaks of: how many nodes each pool needs",
    edition="Basic",
    nodes=tuple(
        build_gpu_node(name, labels={"alibabacloud.com/nodepool-id": "np-gpu"}) for name in NODES
    ),
    steps=(pools, queued, searched, applied),
)
