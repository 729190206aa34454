"""`python -m gpushare.observe.metrics.page` prints docs/metrics.md, from the registered metrics."""

from collections.abc import Iterable, Iterator

from gpushare.api.pool import Edition, Placement
from gpushare.core.snapshot.actions import NodeState
from gpushare.core.snapshot.write_outcome import ChangeOutcome
from gpushare.observe.metrics.applications import ApplicationFigures
from gpushare.observe.metrics.cards import CardFigures
from gpushare.observe.metrics.family import Family
from gpushare.observe.metrics.process import Metrics

LABELS = {
    "pool": "name of a GPUSharePool; of applications and unschedulable pods also empty, for those "
    "in no pool, and those that wait for none that there is or for one of several",
    "state": " ".join(NodeState),
    "reason": "a code of [reasons.md](reasons.md)",
    "outcome": f"of changes: {' '.join(ChangeOutcome)}; of evictions: evicted gone refused",
    "result": "ok error",
    "isolation": "isolated shared unknown",
    "edition": " ".join(Edition),
    "schedule": "the pool's mode, `spec.schedule`",
    "placement": f"{' '.join(Placement)}, or empty",
    "namespace": "of the application's pods",
    "kind": "of the workload: Deployment StatefulSet Job CronJob Pod or whatever controls its pods",
    "workload": "its name; the pod's own where nothing controls it",
    "node": "name of a node",
    "card": "index of a card on its node, as the scheduler counts; unknown for what the ledger "
    "gives out of cards that the node has not",
    "resource": "plural of an API resource, as nodes or gpusharepools",
    "verb": "as the API server counts: GET LIST WATCH POST PUT PATCH APPLY DELETE",
    "code": "HTTP status",
    "version": "of the operator",
}
"""What each label may be."""
_HEAD = """\
# Metrics

Made by `make metrics-docs` from the metrics that the program registers.

Every pod of the operator answers `/metrics` at the chart's `metricsPort`; the Service
`gpushare-metrics` lists them, and `serviceMonitor.enabled` has the Prometheus operator read them.
Names are `gpushare_NOUN_UNIT`, memory is in bytes, time in seconds. What is said of pools,
applications, nodes and cards comes from the active controller alone, so nothing is counted twice:
one that stands by has no such series. It is what the schedulers' ledgers and the API server say,
and needs no agent on any node; how much of its memory a card really uses, only an exporter on the
node can tell (DCGM's, or ACK's). Of a pool, node or application that is gone no gauge speaks any
more; what was counted of a pool stays until the process ends. A node that one pool acts on and
another observes offers its memory in the former alone, so that sums over pools are true.

A counter begins with the first thing that it counts, and `increase` does not see that one:
`(NAME unless last_over_time(NAME[1h] offset 5m)) or increase(NAME[5m])` does.

An application's `namespace` is its own: whoever reads with a configuration of their own sets
`honor_labels: true`, or Prometheus puts the operator's namespace in its place.

The series of a histogram end in `_bucket`, `_sum` and `_count`. Beside these metrics stand
`process_*`, of the process itself.
"""
_APPLICATIONS = """\
On by default; `metrics.perApplication: false`, or `GPUSHARE_PER_APPLICATION_METRICS=false`, takes
them away. An application is what a person made: a Deployment, not its ReplicaSets; a CronJob, not
its Jobs. Of pods that ask for whole cards nothing is said here: kube-state-metrics counts those.
"""
_CARDS = """\
Off by default: the chart's `metrics.perNode`, or `GPUSHARE_PER_NODE_METRICS=true`. The dashboard of
nodes needs them.
"""
_CARDINALITY = """\
What grows with the cluster:

| of | series |
|---|---|
| the cluster | 9 for reasons why pods are unschedulable |
| each pool | 18, and one for each reason or outcome that it met |
| each application, in each pool where it runs, unless `metrics.perApplication` is off | 3 |
| each node, with `metrics.perNode` | 1, and 2 for each of its cards, those together that only the \
ledger knows |

So 5,000 nodes in one pool are 18 series; with `metrics.perNode` they are 45,000 more where each has
4 cards, and 85,000 more where it has 8. A pod that nothing controls is an application of its own.
Sums, applications and cards are kept up to date as nodes and pods change, for about 20 microseconds
a change, and written when they are read: for 20,000 pods of 2,000 applications on 5,000 nodes of 8
cards that took 4 ms, and 15 ms with `metrics.perNode`. No scrape is answered from a cache: one that
comes while others are being answered waits for the next text, which it shares with all that wait.
After each text the process pauses for four times the CPU time that it took for each reader, for
2 s at most. So scrapes take a fifth of a core at most; with `metrics.perNode` on 5,000 nodes, more
than 30 scrapes at the same time take more.
"""


def render_page() -> str:
    """The text of docs/metrics.md."""
    return "".join(_render())


def _render() -> Iterator[str]:
    yield _HEAD
    families = Metrics(per_node=True).families
    by_application, by_card = ApplicationFigures.families, CardFigures.families
    switched = {*by_application, *by_card}
    yield from _render_table("Always", (f for f in families if f not in switched))
    yield from _render_table("By application", by_application, _APPLICATIONS)
    yield from _render_table("By node and card", by_card, _CARDS)
    yield "\n## Labels\n\n| label | values |\n|---|---|\n"
    used = {label for family in families for label in family.labels}
    for label, values in LABELS.items():
        if label in used:
            yield f"| `{label}` | {values} |\n"
    yield f"\n## How many series\n\n{_CARDINALITY}"


def _render_table(title: str, families: Iterable[Family], text: str = "") -> Iterator[str]:
    yield f"\n## {title}\n\n"
    if text:
        yield f"{text}\n"
    yield "| metric | kind | labels | what it says |\n|---|---|---|---|\n"
    for family in families:
        labels = " ".join(f"`{label}`" for label in family.labels)
        yield f"| `{family.full_name}` | {family.kind} | {labels} | {family.text} |\n"


if __name__ == "__main__":
    print(render_page(), end="")
