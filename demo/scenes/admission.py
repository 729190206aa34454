"""Admission of pods: a pod for each reason, with kubectl's output."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from demo.checks import expect, expect_equal, expect_line
from demo.sights import POOL_LABEL, Pod
from demo.story import Facts, Scene, step
from demo.view import View
from devcluster.names import SCHEDULE
from devcluster.nodes import build_gpu_node

FILES = "demo/manifests/admission"
POOLS = ("training", "inference", "vision")
NODES = {pool: f"cn-hangzhou.192.168.9.{number}" for number, pool in enumerate(POOLS, start=51)}
CARDS, CARD_GIB = 2, 15
VERIFIED = "gpushare.io/isolation-verified"
TRAINING, VISION, INFERENCE = ({POOL_LABEL: pool} for pool in ("training", "vision", "inference"))


@dataclass(frozen=True)
class Fate:
    """The expected result of the creation of a pod or a workload."""

    name: str
    reason: str
    """Reason of the decision; empty: the webhook must not be called."""
    selector: Mapping[str, str] = field(default_factory=dict)
    """The whole resulting nodeSelector."""
    warning: str = ""
    """Part of kubectl's only warning; empty: there must be none."""
    namespace: str = "default"
    noted: str | None = None
    """Reason in the annotation, if it differs; empty: the pod must have no annotation."""


@step(
    "Three pools, and what their owners and administrators say of workloads",
    f"kubectl apply -f {FILES}/pools.yaml",
    "kubectl wait gsp --all --for=condition=Ready --timeout=3m",
    "kubectl wait gsp --all --timeout=3m "
    f"--for=jsonpath='{{.status.capacity.largestFreeBlock}}'={CARD_GIB}",
    "kubectl taint node -l gpushare.io/pool=vision team=vision:NoSchedule",
    by_hand="a page in the wiki",
)
def pools(view: View) -> Facts:
    for pool in POOLS:
        (node,) = view.ready_pool(pool, nodes=1)
        expect(node.name == NODES[pool], f"{NODES[pool]} in pool {pool}", node.name)
    yield "training: cgpu, for all pods but drafts; inference: share, for all pods"
    yield "vision: cgpu, for who asks for it, which pods of namespace vision do by its label"


@step(
    "8 GiB of GPU memory and nothing else; then the same pod in namespace vision",
    f"kubectl gpushare explain -f {FILES}/plain.yaml",
    f"kubectl apply -f {FILES}/plain.yaml",
    f"kubectl apply -f {FILES}/plain.yaml --namespace=vision",
    by_hand="a nodeSelector in every pod of everybody",
)
def plain(view: View) -> Facts:
    expect_line(view.output, "Decision Routed: Assigned to pool training (cgpu)")
    expect_line(view.output, "inference share", "lost NotIsolated")
    expect_line(view.output, "vision cgpu", "lost OnRequestOnly")
    yield from _expect_admitted(
        view,
        Fate("plain", "Routed", TRAINING),
        Fate("plain", "RoutedByNamespace", VISION, namespace="vision"),
    )
    yield _expect_running(view, "plain", "training")
    yield f"{_expect_running(view, 'plain', 'vision', namespace='vision')}, by the toleration too"


@step(
    "A pool by its name; isolation or nothing; isolation if there is any",
    f"kubectl apply -f {FILES}/wishes.yaml",
    by_hand="know which nodes that takes, today",
)
def wishes(view: View) -> Facts:
    yield from _expect_admitted(
        view,
        Fate("by-name", "RoutedOnRequest", VISION),
        Fate("isolated", "Routed", {SCHEDULE: "cgpu", VERIFIED: "true", **TRAINING}),
        Fate("draft", "RoutedWithoutIsolation", INFERENCE, "which does not isolate GPU memory"),
    )
    for app, pool in (("by-name", "vision"), ("isolated", "training"), ("draft", "inference")):
        yield _expect_running(view, app, pool)


@step(
    "Pods that opt out, that chose already, that somebody else places, that need no GPU",
    f"kubectl apply -f {FILES}/own-way.yaml",
    by_hand="the same",
)
def own_way(view: View) -> Facts:
    yield from _expect_admitted(
        view,
        Fate("opted-out", "OptedOut", noted=""),
        Fate("restored", "AlreadyRouted", TRAINING, noted="Routed"),
        Fate("selecting", "AlreadySelects", {SCHEDULE: "share"}),
        Fate(
            "pinned",
            "NotRouted",
            {"kubernetes.io/hostname": NODES["inference"]},
            "the pod selects a node by name",
        ),
        Fate("batch", "OtherScheduler", warning="scheduler volcano chooses the node"),
        Fate("web", ""),
    )


@step(
    "Mistakes: the pods are created as they are, and their author reads why that will not do",
    f"kubectl apply -f {FILES}/mistakes.yaml",
    by_hand="a pod that is Pending for ever; or one that takes memory which others were given",
)
def mistakes(view: View) -> Facts:
    yield from _expect_admitted(
        view,
        Fate("torn", "ContradictorySelection", TRAINING, "contradict each other"),
        Fate("misspelt", "SelectsNoPool", {POOL_LABEL: "trainign"}, "no pool has such nodes"),
        Fate("without-request", "NoGPURequest", warning="requests no GPU", noted=""),
        Fate("all-cards", "UnaccountedGPU", warning="it sees every card", noted=""),
    )


@step(
    "Two of them wait: what is in their way?",
    "kubectl gpushare explain pod torn",
    "kubectl gpushare explain pod misspelt",
    by_hand="0/3 nodes are available; compare the pod's labels with those of each node",
)
def in_the_way(view: View) -> Facts:
    expect_line(view.output, NODES["training"], "required node affinity excludes the node")
    expect_line(view.output, NODES["inference"], "the node lacks gpushare.io/pool=training")
    expect_line(view.output, f"On node {NODES['training']}: change the pod's node affinity")
    yield "torn: node by node what keeps it out, and the least that would let it in"
    expect_line(view.output, "trainign", "PoolNotFound", "did you mean training?")
    yield "misspelt: what its author meant"


@step(
    "No pool takes them: allowed here",
    f"kubectl apply -f {FILES}/no-pool.yaml",
    by_hand="Pending for ever, and nobody says so",
)
def allowed(view: View) -> Facts:
    yield from _expect_admitted(
        view,
        Fate("half-a-card", "NoEligiblePool", warning="inference: mode share does not offer"),
        Fate("elsewhere", "RequestedPoolUnavailable", warning="pool render cannot take"),
    )


@step(
    "... and refused in a namespace that says so; as is a pod that would lose its isolation",
    f"kubectl apply -f {FILES}/no-pool.yaml --namespace=strict",
    f"kubectl apply -f {FILES}/unisolated.yaml",
    by_hand="they are created, and wait for ever or run without isolation",
    refused=True,
)
def refused(view: View) -> Facts:
    refusals = (
        ('webhook "pods.gpushare.io"', "NoEligiblePool"),
        ('webhook "pods.gpushare.io"', "RequestedPoolUnavailable"),
        ('webhook "pods.gpushare.io"', "IsolationUnavailable"),
        ("ValidatingAdmissionPolicy", 'gpushare.io/isolation is "required"'),
    )
    errors = [line for line in view.output if line.startswith("Error from server")]
    reasons = [reason for _, reason in refusals]
    expect(len(errors) == len(refusals), f"refusals that say {', '.join(reasons)}", errors)
    for line, (who, why) in zip(errors, refusals, strict=True):
        expect(who in line and why in line, f"a refusal by {who} that says {why}", line)
    created = [name for name, _ in _read_answers(view.output)]
    expect(not created, "no pod created", created)
    _expect_counted(view, *reasons[:3])
    yield "no pod was created"
    yield "the last was refused by a policy: the webhook is not asked about its namespace"


@step(
    "Workloads: kubectl apply tells at once what will become of their pods",
    f"kubectl apply -f {FILES}/workloads.yaml",
    by_hand="nothing is said; look for the pods, and why they wait, later",
)
def workloads(view: View) -> Facts:
    _expect_output(
        view,
        Fate("trainer", "Routed", warning="will be assigned to pool training (cgpu)"),
        Fate("probe", "NotRouted", warning="DaemonSet chooses the node"),
        Fate("yearly", "NoEligiblePool", warning="will be refused: NoEligiblePool"),
    )
    trainers = view.started("trainer", pods=2)
    for pod in trainers:
        expect(pod.node == NODES["training"], f"{pod.name} where it was said", pod)
    yield f"trainer: its {len(trainers)} pods are where it was said, on {NODES['training']}"
    probes = view.started("probe", pods=2)
    nodes = sorted(pod.node for pod in probes)
    wanted = sorted([NODES["training"], NODES["inference"]])
    expect_equal(nodes, wanted, "the nodes with a pod of probe")
    yield f"probe: its pods are on {' and '.join(nodes)}, as a DaemonSet's are"
    _expect_counted(view, *["Routed"] * 2, *["NotRouted"] * 2)


def _expect_admitted(view: View, *fates: Fate) -> Facts:
    """Check that each pod had one decision with its reason, annotation and output of kubectl."""
    _expect_counted(view, *(fate.reason for fate in fates if fate.reason))
    _expect_output(view, *fates)
    for fate in fates:
        pod = view.pod(fate.name, namespace=fate.namespace)
        noted = fate.reason if fate.noted is None else fate.noted
        expect(pod.decision.get("reason", "") == noted, f"{noted!r} noted on {pod.name}", pod)
        expect_equal(pod.selector, fate.selector, f"the nodeSelector of {pod.name}")
        yield f"{pod.name}: {fate.reason or 'the webhook was not asked'}; {_describe(pod)}"


def _expect_counted(view: View, *reasons: str) -> None:
    counted, wanted = dict(view.admissions()), dict(Counter(reasons))
    expect_equal(counted, wanted, "the pods that the webhook counted, by reason,")


def _expect_output(view: View, *fates: Fate) -> None:
    """Check that kubectl created the objects in this order, with just the expected warnings."""
    answers = list(_read_answers(view.output))
    created = [name for name, _ in answers]
    wanted = [fate.name for fate in fates]
    expect(created == wanted, f"kubectl to create {', '.join(wanted)}", view.output)
    for fate, (name, warnings) in zip(fates, answers, strict=True):
        fits = len(warnings) == bool(fate.warning) and all(fate.warning in w for w in warnings)
        expect(fits, f"kubectl to say of {name}: {fate.warning or 'nothing'}", warnings)


def _read_answers(output: Sequence[str]) -> Iterator[tuple[str, list[str]]]:
    """Parse kubectl's output: the name of each created object, and the warnings before it."""
    warnings: list[str] = []
    for line in output:
        if line.startswith("Warning: "):
            warnings.append(line)
        elif line.endswith(" created"):
            yield line.removesuffix(" created").partition("/")[2], warnings
            warnings = []


def _describe(pod: Pod) -> str:
    labels = ", ".join(f"{key}={value}" for key, value in sorted(pod.selector.items()))
    lost = [
        f"{pool} ({reason})"
        for reason, losers in pod.decision.get("lost", {}).items()
        for pool in losers
    ]
    text = f"nodeSelector {labels}" if labels else "no nodeSelector"
    return f"{text}; not {', '.join(sorted(lost))}" if lost else text


def _expect_running(view: View, app: str, pool: str, *, namespace: str = "default") -> str:
    (pod,) = view.started(app, namespace=namespace)
    expect(pod.node == NODES[pool], f"{pod.name} on the node of pool {pool}", pod)
    kind = "isolated" if pod.got.isolated else "not isolated"
    expect(pod.got.isolated == (pool != "inference"), f"{pod.name} as pool {pool} has it", pod.got)
    return f"{pod.name} runs on {pod.node}: {kind}"


SCENE = Scene(
    title="Every reason of admission",
    source="docs/reasons.md, pods at admission: what kubectl prints, and what becomes of the pod",
    edition="Professional",
    nodes=tuple(
        build_gpu_node(
            name,
            cards=CARDS,
            card_memory_gib=CARD_GIB,
            labels={"alibabacloud.com/nodepool-id": f"np-{pool}"},
        )
        for pool, name in NODES.items()
    ),
    steps=(pools, plain, wishes, own_way, mistakes, in_the_way, allowed, refused, workloads),
)
