"""Guide 000: node pools on the Basic edition, one with isolation and one without."""

from demo.checks import (
    expect,
    expect_equal,
    expect_line,
    expect_memory,
    expect_one_restart_each,
)
from demo.story import Facts, Scene, step
from demo.view import View
from devcluster.names import CGPU, DISABLE_ISOLATION, GPU_MEM, SCHEDULE, WHOLE_CARD
from devcluster.nodes import build_gpu_node

FILES = "demo/manifests/basic"
ISOLATED_MIB, WHOLE_MIB = 3226, 16130


def _node(address: str, node_pool: str) -> dict[str, object]:
    return build_gpu_node(
        f"cn-shanghai.{address}", labels={"alibabacloud.com/nodepool-id": node_pool}
    )


@step(
    "Is everything in place?",
    "kubectl gpushare doctor",
    by_hand="look at a Deployment, a Lease, a webhook's certificate and a dozen roles",
)
def in_place(view: View) -> Facts:
    expect_line(view.output, "ok", "WebhookAnswers", "The webhook answers for a pod")
    expect_line(view.output, "ok", "ControllerActive", "gpushare-controller")
    expect_line(view.output, "0 error, 0 warning")
    yield "a controller is at work, and a pod for trial was decided on; nothing was stored"


@step(
    "Two node pools become two GPUSharePools",
    f"kubectl apply -f {FILES}/pools.yaml",
    by_hand="write two labels on each of four nodes in the console; look whether each node's "
    "device plugin and cgpu-installer came up",
)
def pools(view: View) -> Facts:
    for pool in ("cgpu", "cgpu-no-isolation"):
        for node in view.ready_pool(pool, nodes=2):
            expect(node.offers(GPU_MEM) == 15, f"15 GiB of {GPU_MEM} on {node.name}", node)
            yield (f"{node.name}: {node.shows(CGPU, DISABLE_ISOLATION)}; offers {GPU_MEM}: 15")


@step(
    "The guide's two jobs, each with its nodeSelector",
    f"kubectl apply -f {FILES}/jobs-selecting.yaml",
    by_hand="the same: every workload must name its nodes, and none may forget it",
)
def jobs_that_select(view: View) -> Facts:
    yield from _jobs(view)


@step(
    "The same two jobs without a nodeSelector",
    f"kubectl apply -f {FILES}/jobs.yaml",
    "kubectl rollout status statefulset/cgpu-test --timeout=3m",
    "kubectl rollout status statefulset/cgpu-test-no-isolation --timeout=3m",
    by_hand="nothing helps: such a pod lands in any pool, and the guide warns of the results",
)
def jobs_that_do_not_select(view: View) -> Facts:
    yield from _jobs(view)
    for app, pool in (("cgpu-test", "cgpu"), ("cgpu-test-no-isolation", "cgpu-no-isolation")):
        (pod,) = view.started(app)
        expect(pod.pool == pool, f"{pod.name} routed to pool {pool}", pod)
        yield f"{pod.name} was routed: nodeSelector gpushare.io/pool={pool}"


@step(
    "Pool cgpu stops isolating",
    """kubectl patch gsp cgpu --type=merge -p '{"spec":{"schedule":"share"}}'""",
    "kubectl wait gsp/cgpu --for=condition=Ready --timeout=3m",
    "kubectl gpushare explain pool cgpu",
    by_hand="per node: change the label, find the node's gpushare-device-plugin pod, delete it, "
    "look for the new one; a pod that is bound meanwhile fails for good",
)
def isolation_off(view: View) -> Facts:
    nodes = view.ready_pool("cgpu", nodes=2)
    yield expect_one_restart_each(nodes, restarts=view.restarts(), turns=view.turns())
    (pod,) = view.started("cgpu-test")
    yield f"still running: {expect_memory(pod, ISOLATED_MIB, isolated=True)}"
    isolation = view.isolation("cgpu", containers=1, isolated=1, stale=1)
    expect_line(view.output, "IsolationConsistent False StaleIsolation", isolation.message)
    yield "IsolationConsistent is False, since that pod keeps the isolation of before"


@step(
    "Pods that keep the isolation of before shall leave by themselves",
    """kubectl patch gsp cgpu --type=merge -p '{"spec":{"rollout":{"staleWorkloads":"Evict"}}}'""",
    by_hand="find out which pods started before the label was changed, and delete them",
)
def stale_evicted(view: View) -> Facts:
    isolation = view.isolation("cgpu", containers=1, isolated=0)
    (pod,) = view.started("cgpu-test")
    yield f"evicted; the one in its place: {expect_memory(pod, WHOLE_MIB, isolated=False)}"
    yield f"IsolationConsistent: {isolation.message}"


@step(
    "Pool cgpu isolates again",
    """kubectl patch gsp cgpu --type=merge -p '{"spec":{"schedule":"cgpu"}}'""",
    by_hand="all of it once more, in the other direction",
)
def isolation_on(view: View) -> Facts:
    view.isolation("cgpu", containers=1, isolated=1)
    nodes = view.ready_pool("cgpu", nodes=2)
    yield expect_one_restart_each(nodes, restarts=view.restarts(), turns=view.turns())
    (pod,) = view.started("cgpu-test")
    yield expect_memory(pod, ISOLATED_MIB, isolated=True)


@step(
    "Pool cgpu-no-isolation goes back to whole cards",
    "kubectl delete statefulset cgpu-test-no-isolation --cascade=foreground --timeout=3m",
    """kubectl patch gsp cgpu-no-isolation --type=merge -p '{"spec":{"schedule":"default"}}'""",
    by_hand="set cgpu=false on each node; wait until nvidia.com/gpu is back",
)
def whole_cards(view: View) -> Facts:
    view.ready_pool("cgpu-no-isolation", nodes=2)
    view.offering("cgpu-no-isolation", GPU_MEM, units=0)
    for node in view.offering("cgpu-no-isolation", WHOLE_CARD, units=1):
        yield f"{node.name}: {node.shows(CGPU)}; offers {WHOLE_CARD}: 1, and no {GPU_MEM}"


@step(
    "... and shares its cards again",
    """kubectl patch gsp cgpu-no-isolation --type=merge -p '{"spec":{"schedule":"share"}}'""",
    by_hand="set both labels on each node again; wait until aliyun.com/gpu-mem is back",
)
def shared_again(view: View) -> Facts:
    view.ready_pool("cgpu-no-isolation", nodes=2)
    view.offering("cgpu-no-isolation", WHOLE_CARD, units=0)
    for node in view.offering("cgpu-no-isolation", GPU_MEM, units=15):
        yield f"{node.name}: {node.shows(CGPU, DISABLE_ISOLATION)}; offers {GPU_MEM}: 15"


@step(
    "What would the Professional edition take?",
    "kubectl gpushare migrate pools",
    by_hand="the vendor's page on upgrades, read for each node",
)
def to_professional(view: View) -> Facts:
    for pool in ("cgpu", "cgpu-no-isolation"):
        for node in view.nodes(pool):
            mode = "cgpu" if pool == "cgpu" else "share"
            move = f"{node.name} {pool} Basic {mode} Professional cgpu"
            expect_line(view.output, move, "plugin replaced")
            expect_line(view.output, "kubectl label nodes", node.name, f"{SCHEDULE}=cgpu")
    yield "node by node, then step by step with its commands; `-o yaml` prints the new pools"
    writes = view.node_writes()
    expect(not writes, "no write of the operator to any node", writes)


def _jobs(view: View) -> Facts:
    (isolated,), (shared,) = view.started("cgpu-test"), view.started("cgpu-test-no-isolation")
    yield expect_memory(isolated, ISOLATED_MIB, isolated=True)
    yield expect_memory(shared, WHOLE_MIB, isolated=False)
    env = {key: shared.got.env.get(f"ALIYUN_COM_GPU_MEM_{key}") for key in ("CONTAINER", "DEV")}
    wanted = {"CONTAINER": "3", "DEV": "15"}
    expect_equal(env, wanted, f"the variables ALIYUN_COM_GPU_MEM_... of {shared.name}")
    yield f"{shared.name} knows its share: ALIYUN_COM_GPU_MEM_CONTAINER=3, ..._DEV=15"


SCENE = Scene(
    title="Basic edition: isolation by node pool",
    source="Guide 000, manage shared GPUs by node pool (dedicated clusters, ack-cgpu)",
    edition="Basic",
    nodes=(
        _node("192.168.7.157", "np-cgpu"),
        _node("192.168.7.158", "np-cgpu"),
        _node("192.168.7.159", "np-cgpu-no-isolation"),
        _node("192.168.7.160", "np-cgpu-no-isolation"),
    ),
    steps=(
        in_place,
        pools,
        jobs_that_select,
        jobs_that_do_not_select,
        isolation_off,
        stale_evicted,
        isolation_on,
        whole_cards,
        shared_again,
        to_professional,
    ),
)
