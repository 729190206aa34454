"""Guide 002: node pools on the Professional edition."""

from demo.checks import expect, expect_line, expect_memory, expect_one_restart_each
from demo.story import Facts, Scene, step
from demo.view import View
from devcluster.names import PLACEMENT, SCHEDULE
from devcluster.nodes import build_gpu_node

FILES = "demo/manifests/node-pools"
ISOLATED_MIB, WHOLE_MIB = 3226, 16130
_ISOLATING, _SHARING = (f"cn-zhangjiakou.192.168.3.{number}" for number in (21, 22))


@step(
    "Two node pools become two GPUSharePools",
    f"kubectl apply -f {FILES}/pools.yaml",
    by_hand="give each node pool its two labels when it is created in the console",
)
def pools(view: View) -> Facts:
    for pool in ("cgpu", "cgpu-no-isolation"):
        (node,) = view.ready_pool(pool, nodes=1)
        yield f"pool {pool}: {node.name} has {node.shows(SCHEDULE, PLACEMENT)}"


@step(
    "The guide's two jobs, each with its nodeSelector",
    f"kubectl apply -f {FILES}/jobs.yaml",
    by_hand="the same: every workload must name its mode",
)
def jobs(view: View) -> Facts:
    (isolated,), (shared,) = view.started("cgpu-test"), view.started("cgpu-test-no-isolation")
    yield expect_memory(isolated, ISOLATED_MIB, isolated=True)
    yield expect_memory(shared, WHOLE_MIB, isolated=False)


@step(
    "A second pod fills the first card before the second",
    "kubectl scale statefulset cgpu-test --replicas=2",
    "kubectl rollout status statefulset/cgpu-test --timeout=3m",
    "kubectl gpushare inspect --pools",
    by_hand="the same: placement is a label that the scheduler reads",
)
def binpack(view: View) -> Facts:
    pods = view.started("cgpu-test", pods=2)
    cards = {pod.name: pod.got.cards for pod in pods}
    expect(set(cards.values()) == {(0,)}, "both pods on card 0 of two", cards)
    expect_line(view.output, "cgpu cgpu, 1/1 nodes ready, 2 GPUs, 6/30 GiB allocated")
    expect_line(view.output, f"{_ISOLATING} 0 ########............ 6/15 ready")
    yield f"{' and '.join(cards)} are both on card 0; card 1 stays empty"


@step(
    "Pool cgpu-no-isolation shall isolate, while a job uses it",
    """kubectl patch gsp cgpu-no-isolation --type=merge -p '{"spec":{"schedule":"cgpu"}}'""",
    "kubectl wait gsp/cgpu-no-isolation --for=condition=Ready=False --timeout=3m",
    "kubectl gpushare plan pool cgpu-no-isolation",
    by_hand="the label is simply overwritten: running pods fall out of the scheduler's ledger",
)
def waits_for_workloads(view: View) -> Facts:
    view.blocked_pool("cgpu-no-isolation", "WorkloadsPresent")
    change = f"{_SHARING} share -> cgpu cordon, 2 labels, restart plugin"
    expect_line(view.output, change, "WorkloadsPresent", "default/cgpu-test-no-isolation-0")
    yield "the plan says what would be done, and for which pod it waits"
    yield _expect_nothing_written(view, "cgpu-no-isolation", "share")


@step(
    "The job ends, and the change goes through by itself",
    "kubectl delete statefulset cgpu-test-no-isolation --timeout=3m",
    "kubectl wait gsp/cgpu-no-isolation --for=condition=Ready --timeout=3m",
    by_hand="wait for the job; change the label; find and delete the plugin's pod",
)
def share_to_cgpu(view: View) -> Facts:
    nodes = view.ready_pool("cgpu-no-isolation", nodes=1)
    yield expect_one_restart_each(nodes, restarts=view.restarts(), turns=view.turns())
    yield f"{nodes[0].name} has {nodes[0].shows(SCHEDULE)}"


@step(
    "The same job in the same pool is isolated now",
    f"kubectl apply -f {FILES}/job-by-pool.yaml",
    by_hand="change the job's nodeSelector, since the label's value changed",
)
def isolated_now(view: View) -> Facts:
    (pod,) = view.started("cgpu-test-no-isolation")
    yield expect_memory(pod, ISOLATED_MIB, isolated=True)


def _expect_nothing_written(view: View, pool: str, mode: str) -> str:
    (node,) = view.nodes(pool)
    expect(node.labels.get(SCHEDULE) == mode, f"{SCHEDULE}={mode} on {node.name}", node)
    writes = view.node_writes()
    expect(not writes, "no write of the operator to any node", writes)
    return f"nothing was written: {node.name} still has {node.shows(SCHEDULE)}"


SCENE = Scene(
    title="Professional edition: isolation by node pool",
    source="Guide 002, use node pools to control cGPU (Professional clusters, ack-ai-installer)",
    edition="Professional",
    nodes=tuple(
        build_gpu_node(
            name,
            cards=2,
            labels={"alibabacloud.com/nodepool-id": node_pool},
        )
        for name, node_pool in ((_ISOLATING, "np-cgpu"), (_SHARING, "np-cgpu-no-isolation"))
    ),
    steps=(
        pools,
        jobs,
        binpack,
        waits_for_workloads,
        share_to_cgpu,
        isolated_now,
    ),
)
