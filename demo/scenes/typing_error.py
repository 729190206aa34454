"""A pod that fits on no card, beside pods of others."""

from demo.checks import expect_equal, expect_line
from demo.story import Facts, Scene, step
from demo.view import View
from devcluster.nodes import build_gpu_node

FILES = "demo/manifests/typing-error"
NODE, CARD_GIB = "cn-hangzhou.192.168.7.71", 15
OURS_GIB = 8


@step(
    "Two free pools, of which one goes first",
    f"kubectl apply -f {FILES}/pools.yaml",
    "kubectl wait gsp --all --for=condition=Ready --timeout=3m",
    "kubectl wait gsp --all --timeout=3m "
    f"--for=jsonpath='{{.status.capacity.largestFreeBlock}}'={CARD_GIB}",
    by_hand="label each node pool",
)
def pools(view: View) -> Facts:
    for pool in ("training", "spare"):
        (node,) = view.ready_pool(pool, nodes=1)
        yield f"{pool}: {node.name}, {CARD_GIB} GiB free"


@step(
    "Another team asks for 10G: the unit is GiB, not bytes",
    f"kubectl apply -f {FILES}/speech.yaml",
    "kubectl wait pod/subtitles -n speech --for=condition=PodScheduled=False --timeout=1m",
    "kubectl gpushare explain pod subtitles -n speech",
    by_hand="a pod that is Pending for ever: 0/2 nodes are available: 2 Insufficient "
    "aliyun.com/gpu-mem",
)
def typing_error(view: View) -> Facts:
    yield expect_line(view.output, "Warning:", "10000000000 GiB", "a suffix multiplies it")
    expect_line(view.output, "Trouble LargerThanAnyCard")
    yield expect_line(view.output, "Demand takes no room of pool training from other pods")


@step(
    "Our pod goes where it would have gone without it",
    f"kubectl apply -f {FILES}/ours.yaml",
    "kubectl rollout status deployment/ours --timeout=3m",
    "kubectl wait gsp/training --timeout=1m "
    f"--for=jsonpath='{{.status.capacity.memoryRequested}}'={OURS_GIB}",
    "kubectl gpushare inspect --pools",
    by_hand="the same; but whoever counts what pods ask for takes the pool for full",
)
def ours(view: View) -> Facts:
    (pod,) = view.started("ours")
    expect_equal(pod.node, NODE, "the node of our pod")
    yield f"it is in pool training, on {NODE}"
    found = f"training cgpu, 1/1 nodes ready, 1 GPUs, {OURS_GIB}/{CARD_GIB} GiB allocated"
    yield expect_line(view.output, found)


SCENE = Scene(
    title="A typing error of another team",
    source="AliyunContainerService/gpushare-scheduler-extender issue 11: how the unit is read",
    edition="Professional",
    nodes=(
        build_gpu_node(NODE, labels={"alibabacloud.com/nodepool-id": "np-training"}),
        build_gpu_node(
            "cn-hangzhou.192.168.7.72", labels={"alibabacloud.com/nodepool-id": "np-spare"}
        ),
    ),
    steps=(pools, typing_error, ours),
)
