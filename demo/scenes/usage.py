"""Guide 003, on monitoring: an application that uses a fifth of its card, and what to do."""

from demo.checks import expect, expect_line
from demo.story import Facts, Scene, step
from demo.view import View
from devcluster.names import GPU_MEM, WHOLE_CARD
from devcluster.nodes import build_gpu_node
from devcluster.recordings import RecordedSeries, steady

FILES = "demo/manifests/shared-card"
NODE = "cn-hangzhou.192.168.2.168"
APPLICATION, USED_MIB, SHARE = "app-3g-v1", 3482, 5
_USAGE = "kubectl gpushare usage --prometheus $PROMETHEUS --window 2h --min-data 0m"
_MIGRATE = (
    f"kubectl gpushare migrate workloads statefulset/{APPLICATION} -n default --share {SHARE}"
)


@step(
    "The application has a whole card, and uses 3.4 GiB of it: what should it ask for?",
    f"kubectl apply -f {FILES}/pool.yaml",
    f"kubectl apply -f {FILES}/app-3g-v1-whole.yaml",
    f"kubectl rollout status statefulset/{APPLICATION} --timeout=3m",
    _USAGE,
    by_hand="a dashboard shows the card's memory; what to ask for instead is a guess",
)
def measured(view: View) -> Facts:
    (node,) = view.offering("gpu", WHOLE_CARD, units=1)
    expect_line(view.output, f"default statefulset/{APPLICATION}", f"would share: {SHARE} GiB")
    expect_line(view.output, _MIGRATE)
    yield f"of the card of {node.name} {USED_MIB / 1024:.1f} GiB are used at most: {SHARE} would do"


@step(
    "The advice is followed: two of it run on one card",
    """kubectl patch gsp gpu --type=merge -p '{"spec":{"schedule":"cgpu"}}'""",
    f"{_MIGRATE} -o yaml | kubectl apply -f -",
    f"kubectl scale statefulset {APPLICATION} --replicas=2",
    f"kubectl rollout status statefulset/{APPLICATION} --timeout=3m",
    by_hand="rewrite the manifest, relabel the node, restart its plugin, apply again",
)
def shared(view: View) -> Facts:
    (node,) = view.ready_pool("gpu", nodes=1)
    for pod in view.started(APPLICATION, pods=2):
        expect(pod.got.cards == (0,), f"{pod.name} on card 0", pod.got.cards)
        yield f"{pod.name} runs on card 0 of {node.name}, with {SHARE} of {GPU_MEM}"


SCENE = Scene(
    title="What a card really holds",
    source="Guide 003, monitor and isolate GPU resources (its first half)",
    edition="Basic",
    nodes=(build_gpu_node(NODE, labels={"alibabacloud.com/nodepool-id": "np-gpu"}),),
    steps=(measured, shared),
    recording=(
        RecordedSeries(
            "DCGM_FI_DEV_FB_USED",
            {
                "gpu": "0",
                "UUID": "GPU-1",
                "NodeName": NODE,
                "AllocateMode": "exclusive",
                "NamespaceName": "default",
                "PodName": f"{APPLICATION}-0",
            },
            steady(USED_MIB),
        ),
    ),
)
