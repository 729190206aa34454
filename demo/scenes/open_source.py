"""Guide 004: the open-source edition with its scheduler extender, a card for several students."""

from demo.checks import expect, expect_equal, expect_line, expect_memory
from demo.story import Facts, Scene, step
from demo.view import View
from devcluster.names import GPU_MEM, GPUSHARE, MEM_ASSIGNED, MEM_DEV, MEM_IDX, MEM_POD
from devcluster.nodes import build_gpu_node

FILES = "demo/manifests/open-source"
NODE = "192.168.233.101"
WHOLE_MIB = 14 * 1024 + 770


@step(
    "How kube-scheduler comes to ask the extender",
    "kubectl gpushare render scheduler-config --extender-url http://127.0.0.1:32766",
    by_hand="rewrite the guide's configuration, whose version no scheduler of today reads",
)
def scheduler(view: View) -> Facts:
    expect_line(view.output, "apiVersion: kubescheduler.config.k8s.io/v1")
    expect_line(view.output, 'urlPrefix: "http://127.0.0.1:32766/gpushare-scheduler"')
    expect_line(view.output, f'name: "{GPU_MEM}"')
    yield "a file for the --config of kube-scheduler, in the version that it reads today"


@step(
    "The laboratory's only card is shared",
    f"kubectl apply -f {FILES}/pool.yaml",
    by_hand="kubectl label node, and look for the plugin's pod",
)
def pool(view: View) -> Facts:
    (node,) = view.ready_pool("gpushare", nodes=1)
    expect(node.offers(GPU_MEM) == 14, f"14 GiB of {GPU_MEM}", node)
    yield f"{node.name}: {node.shows(GPUSHARE)}; offers {GPU_MEM}: 14"


@step(
    "The first student's 5 GiB",
    f"kubectl apply -f {FILES}/binpack-1.yaml",
    by_hand="the same",
)
def binpack_1(view: View) -> Facts:
    (pod,) = view.started("binpack-1")
    ledger = {key: pod.annotations.get(key) for key in (MEM_IDX, MEM_DEV, MEM_POD, MEM_ASSIGNED)}
    wanted = {MEM_IDX: "0", MEM_DEV: "14", MEM_POD: "5", MEM_ASSIGNED: "true"}
    expect_equal(ledger, wanted, f"the extender's ledger on {pod.name}")
    yield f"the extender wrote: {', '.join(f'{key}={value}' for key, value in ledger.items())}"
    env = {key: pod.got.env.get(key) for key in (MEM_DEV, "ALIYUN_COM_GPU_MEM_CONTAINER")}
    expect(list(env.values()) == ["14", "5"], f"14 and 5 in the variables of {pod.name}", env)
    yield f"the container has: {', '.join(f'{key}={value}' for key, value in env.items())}"
    yield f"{expect_memory(pod, WHOLE_MIB, isolated=False)}; this edition isolates nowhere"


@step(
    "The second student's 4 GiB go to the same card",
    f"kubectl apply -f {FILES}/binpack-2.yaml",
    "kubectl rollout status deployment/binpack-2 --timeout=3m",
    "kubectl gpushare inspect --details",
    by_hand="the same; kubectl-inspect-gpushare shows it in the same words",
)
def binpack_2(view: View) -> Facts:
    (pod,) = view.started("binpack-2")
    expect(pod.got.cards == (0,), f"{pod.name} on card 0", pod.got.cards)
    expect_line(view.output, pod.name, "default 4")
    expect_line(view.output, "Allocated/Total GPU Memory In Cluster: 9/14 (64%)")
    yield f"{pod.name} is on card 0 of {pod.node}"
    yield f"allocated: {view.allocation(NODE, '9/14 (64%)')}, as in the guide"


SCENE = Scene(
    title="Open source: one card for several people",
    source="Guide 004, one GPU card used by several people (gpushare-scheduler-extender)",
    edition="OpenSource",
    nodes=(
        build_gpu_node(
            NODE,
            card_memory_gib=14,
            card_name="Tesla-T4",
            labels={"alibabacloud.com/nodepool-id": "np-lab"},
        ),
    ),
    steps=(scheduler, pool, binpack_1, binpack_2),
)
