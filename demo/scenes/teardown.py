"""Guide 002's warning: leaving cgpu for share takes more than a label; by hand, and by Jobs."""

from demo.checks import expect, expect_equal, expect_line, expect_memory
from demo.sights import Node, Pod
from demo.story import Facts, Scene, step
from demo.view import View
from devcluster.names import GPU_MEM, KURED, SCHEDULE, UNINSTALL
from devcluster.nodes import build_gpu_node

FILES = "demo/manifests/teardown"
ISOLATED_MIB, WHOLE_MIB = 3226, 16130
FIRST, SECOND, ALONE = (f"cn-beijing.192.168.3.{number}" for number in (31, 32, 33))
_ANOTHER_BOOT = '{"status":{"nodeInfo":{"bootID":"6a3f4c58-2f0c-4a59-9c4e-0d9f3a1b7e21"}}}'
_BY_JOB = (
    '{"spec":{"isolationTeardown":{"policy":"Job","reboot":"Sentinel"},'
    '"rollout":{"workloads":"Evict"}}}'
)


@step(
    "A pool that isolates, and a job with a pod on each of its nodes",
    f"kubectl apply -f {FILES}/pool.yaml",
    "kubectl wait gsp/vision --for=condition=Ready --timeout=3m",
    f"kubectl apply -f {FILES}/job.yaml",
    by_hand="label each node",
)
def isolated(view: View) -> Facts:
    view.ready_pool("vision", nodes=2)
    for pod in view.started("vision", pods=2):
        yield expect_memory(pod, ISOLATED_MIB, isolated=True)
    view.isolation("vision", containers=2, isolated=2)
    yield "status.isolation of the pool: 2 containers, 2 isolated, none stale"


@step(
    "The pool shall only share from now on",
    """kubectl patch gsp vision --type=merge -p '{"spec":{"schedule":"share"}}'""",
    by_hand="the label is changed, isolation stays on, and nobody says anything",
)
def requires_teardown(view: View) -> Facts:
    pool = view.blocked_pool("vision", "RequiresTeardown")
    yield f"{pool.reason}: {pool.message}"
    writes = view.node_writes()
    expect(not writes, "no write of the operator to any node", writes)
    for node in view.nodes("vision"):
        as_before = node.labels[SCHEDULE] == "cgpu" and node.schedulable
        expect(as_before, f"{SCHEDULE}=cgpu on {node.name}, in service", node)
    for pod in view.started("vision", pods=2):
        yield f"undisturbed: {expect_memory(pod, ISOLATED_MIB, isolated=True)}"


@step(
    "What the label alone does, on a node that is in no pool",
    f"kubectl label node {ALONE} {SCHEDULE}=share --overwrite",
    "kubectl delete pod -n kube-system -l name=gpushare-device-plugin-ds "
    f"--field-selector=spec.nodeName={ALONE} --timeout=3m",
    "kubectl rollout status -n kube-system daemonset/gpushare-device-plugin-ds --timeout=3m",
    f"kubectl apply -f {FILES}/job-by-label.yaml",
    by_hand="this is by hand: the guide's job finds a node that is labelled share",
)
def label_alone(view: View) -> Facts:
    node = view.node(ALONE)
    (pod,) = view.started("cgpu-test-no-isolation")
    expect(pod.node == ALONE, f"{pod.name} on {ALONE}", pod)
    expect(node.has_module, f"the kernel module loaded on {ALONE}", node)
    yield f"{ALONE}: {node.shows(SCHEDULE)}, its plugin is new, and the kernel module is loaded"
    yield f"all the same, as guide 002 warns: {expect_memory(pod, ISOLATED_MIB, isolated=True)}"


@step(
    "Somebody agrees to the first node's teardown, and moves the job's pod",
    f"kubectl annotate node {FIRST} gpushare.io/teardown=start",
    f"kubectl wait node/{FIRST} --for=jsonpath='{{.spec.unschedulable}}'=true --timeout=3m",
    f"kubectl delete pod -l app=vision --field-selector=spec.nodeName={FIRST} --timeout=3m",
    "kubectl wait pod -n kube-system -l name=cgpu-installer "
    f"--field-selector=spec.nodeName={FIRST} --for=delete --timeout=3m",
    f"kubectl gpushare render teardown {FIRST}",
    by_hand="the same, in this order: where the label comes last, the installer is still there and "
    "puts the module back",
)
def begun(view: View) -> Facts:
    view.blocked_pool("vision", "ModuleRemoval")
    node = view.node(FIRST)
    expect(node.labels[SCHEDULE] == "share", f"{SCHEDULE}=share on {FIRST}", node)
    expect(not node.schedulable, f"{FIRST} cordoned", node)
    expect(node.has_module, f"the kernel module still loaded on {FIRST}", node)
    yield f"{FIRST}: empty, cordoned, {node.shows(SCHEDULE)}; the installer has left"
    yield "the module is still loaded"
    note = view.event(FIRST, "ModuleRemoval", kind="Node", about="uninstall.sh")
    commands = note.splitlines()[1:]
    for line in commands:
        expect_line(view.output, " ".join(line.split()))
    yield f"its Event says the same {len(commands)} lines of what to type on it"
    yield from _unchanged(view, SECOND)


@step(
    "Somebody does it; the simulator is told by these two commands, for want of hardware",
    f"kubectl annotate node {FIRST} {UNINSTALL}=true",
    f"kubectl patch node {FIRST} --subresource=status --type=merge -p '{_ANOTHER_BOOT}'",
    by_hand="the same: uninstall.sh, then a reboot",
)
def rebooted(view: View) -> Facts:
    pool = view.blocked_pool("vision", "ModuleUnverified")
    node = view.node(FIRST)
    expect(not node.schedulable, f"{FIRST} still cordoned", node)
    yield f"another boot is seen, and not taken for proof: {FIRST} stays cordoned"
    yield f"ModuleUnverified: {pool.samples['ModuleUnverified']}"


@step(
    "What does it wait for?",
    f"kubectl gpushare explain node {FIRST} | head -n 7",
    by_hand="nobody knows how far it is but who began it",
)
def waits_for_proof(view: View) -> Facts:
    expect_line(view.output, f"Node {FIRST} Ready, cordoned by the operator")
    expect_line(view.output, "Change cgpu -> share for pool vision, in progress, in phase Rebooted")
    yield expect_line(view.output, "Kernel module the cGPU module may be loaded")


@step(
    "... looks whether the module is gone, and says so",
    f"kubectl annotate node {FIRST} gpushare.io/teardown=done --overwrite",
    by_hand="uncordon it, and hope that its plugin offers something",
)
def done(view: View) -> Facts:
    yield _expect_shared(view, FIRST)
    pod = _pod_on(view, FIRST)
    yield f"the pod that waited: {expect_memory(pod, WHOLE_MIB, isolated=False)}"
    pod = _pod_on(view, SECOND)
    yield f"the other, undisturbed: {expect_memory(pod, ISOLATED_MIB, isolated=True)}"
    isolation = view.isolation("vision", containers=2, isolated=1)
    yield f"IsolationConsistent: {isolation.message}"
    yield from _unchanged(view, SECOND)


@step(
    "The next node by itself: Jobs remove the module, and kured, here the simulator, reboots it",
    f"kubectl annotate node {SECOND} {KURED}=true",
    f"kubectl patch gsp vision --type=merge -p '{_BY_JOB}'",
    by_hand="all of it once more, on each node of the pool",
)
def by_job(view: View) -> Facts:
    view.ready_pool("vision", nodes=2)
    yield f"an Event on the node: {view.event(SECOND, 'ModuleRemoval', kind='Node', about='Job')}"
    jobs = view.teardown_jobs()
    expect_equal(jobs, ["uninstall sentinel", "verify"], "the complete Jobs, by their arguments,")
    yield f"complete, in this order: Job `{jobs[0]}`, then, in another boot, Job `{jobs[1]}`"
    yield _expect_shared(view, SECOND)
    for pod in view.started("vision", pods=2):
        yield expect_memory(pod, WHOLE_MIB, isolated=False)
    isolation = view.isolation("vision", containers=2, isolated=0)
    yield f"IsolationConsistent: {isolation.message}"
    yield from _unchanged(view, FIRST)


def _expect_shared(view: View, name: str) -> str:
    """Check that the node shares and is back in service; return a sentence."""

    def is_back(node: Node) -> bool:
        return node.schedulable and node.offers(GPU_MEM) == 15

    node = view.node_where(name, "is in service again", is_back)
    expect(node.labels[SCHEDULE] == "share", f"{SCHEDULE}=share on {name}", node)
    expect(node.boot_id != _BOOTS[name], f"{name} in another boot than at first", node)
    expect(not node.has_module, f"no kernel module on {name}", node)
    restarts = view.restarts()
    expect(not restarts, "no restart of a plugin: the reboot was one", restarts)
    return f"{name}: {node.shows(SCHEDULE)}, no module, uncordoned; offers {GPU_MEM}: 15"


def _pod_on(view: View, node: str) -> Pod:
    (pod,) = (pod for pod in view.started("vision", pods=2) if pod.node == node)
    return pod


def _unchanged(view: View, name: str) -> Facts:
    touched = {write.name for write in view.node_writes()}
    expect(name not in touched, f"no write to {name}", touched)
    yield f"{name}: not one write"


_NODES = tuple(
    build_gpu_node(name, labels={"alibabacloud.com/nodepool-id": node_pool, SCHEDULE: "cgpu"})
    for name, node_pool in ((FIRST, "np-vision"), (SECOND, "np-vision"), (ALONE, "np-other"))
)
_BOOTS = {node["metadata"]["name"]: node["status"]["nodeInfo"]["bootID"] for node in _NODES}

SCENE = Scene(
    title="Professional edition: from cgpu to share, for good",
    source="Guide 002, its considerations: a label does not disable isolation, uninstalling the "
    "kernel module and restarting the instance does",
    edition="Professional",
    nodes=_NODES,
    steps=(
        isolated,
        requires_teardown,
        label_alone,
        begun,
        rebooted,
        waits_for_proof,
        done,
        by_job,
    ),
)
