"""Pods while no webhook answers: the API server itself chooses their pools."""

from demo.checks import expect, expect_equal, expect_line
from demo.sights import POOL_LABEL
from demo.story import Facts, Scene, Step, step
from demo.view import View
from devcluster.names import SCHEDULE
from devcluster.nodes import build_gpu_node

FILES = "demo/manifests/no-webhook"
CONFIGURATION = "mutatingwebhookconfiguration gpushare-webhook"
VERIFIED = "gpushare.io/isolation-verified"
POOLS = ("training", "inference")


@step(
    "A pool that isolates, one that does not, and the table that the API server reads of them",
    f"kubectl apply -f {FILES}/pools.yaml",
    "kubectl wait gsp --all --for=condition=Ready --timeout=3m",
    "kubectl wait gpushareadmissiontable pools --for=jsonpath='{.spec.count}'=2 --timeout=1m",
    by_hand="nothing: without a webhook nobody chooses",
)
def pools(view: View) -> Facts:
    for pool in POOLS:
        view.ready_pool(pool, nodes=1)
    yield "the controller keeps the table equal to the pools"


@step(
    "From now on the API server does not call the webhook for pods, as if none answered",
    f"kubectl patch {CONFIGURATION} --type=json --patch-file={FILES}/not-called.json",
    by_hand="an outage, a network policy, an expired certificate",
)
def silence(view: View) -> Facts:
    yield "nobody is asked about new pods"


@step(
    "A pod that says nothing, one that requires isolation, one that does without",
    f"kubectl apply -f {FILES}/pods.yaml",
    by_hand="find them later, and create them again",
)
def pods(view: View) -> Facts:
    isolated = {SCHEDULE: "cgpu", VERIFIED: "true"}
    for name, pool, more in (
        ("plain", "training", {}),
        ("isolated", "training", isolated),
        ("draft", "inference", {}),
    ):
        pod = view.pod(name)
        expect_equal(pod.selector, {POOL_LABEL: pool, **more}, f"the nodeSelector of {name}")
        reason = pod.decision.get("reason")
        expect(reason == "RoutedByPolicy", f"{name} is sent by the API server's policy", pod)
        yield f"{name}: {reason} to pool {pool}"


@step(
    "A typing error: its author reads that no pool takes the pod",
    f"kubectl apply -f {FILES}/lost.yaml",
    by_hand="a pod that is Pending for ever",
)
def lost(view: View) -> Facts:
    expect_line(view.output, "Warning: ", "No pool was found for this pod")
    yield f"lost: created as it is, {view.pod('lost').selector or 'without a pool'}"


@step(
    "The webhook is called again",
    f"kubectl patch {CONFIGURATION} --type=json --patch-file={FILES}/called.json",
    f"kubectl apply -f {FILES}/again.yaml",
    by_hand="nothing more",
)
def again(view: View) -> Facts:
    pod = view.pod("again")
    expect_equal(pod.pool, "training", "the pool of the pod")
    expect(pod.decision.get("reason") == "Routed", "the webhook decided", pod)
    yield "again: Routed to pool training by the webhook, which knows of free memory"


def _scene(title: str, *steps: Step) -> Scene:
    return Scene(
        title=title,
        source="None: the guides know no admission",
        edition="Professional",
        nodes=tuple(
            build_gpu_node(
                f"cn-hangzhou.192.168.12.{number}",
                labels={"alibabacloud.com/nodepool-id": f"np-{pool}"},
            )
            for number, pool in enumerate(POOLS, start=61)
        ),
        steps=steps,
        needs_policies=True,
    )


SCENE = _scene("While no webhook answers", pools, silence, pods, lost, again)
ALONE = _scene("An installation without a webhook", pools, pods, lost)
"""For a release with `webhook.enabled: false`."""
