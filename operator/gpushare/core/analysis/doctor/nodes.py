"""What the nodes that are labelled to share really serve, whether pools have them or not."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from gpushare.api.k8s.node import Node
from gpushare.api.pool import Edition, Schedule
from gpushare.core.analysis.doctor.finding import Code, Finding, Severity, find, look_up
from gpushare.core.analysis.doctor.limits import judge_cgpu_nodes
from gpushare.core.capacity.pool_capacity import observe_node_capacity, tell_unit
from gpushare.core.deviceplugin.findings import RESTART_STATIC_PLUGIN, NotYet, find_plugin_problem
from gpushare.core.deviceplugin.verification import verify_mode
from gpushare.core.nodechange.blockers import find_missing_daemonset, find_other_edition
from gpushare.core.snapshot.actions import READY_WITH_WARNING, Blocker
from gpushare.core.snapshot.cluster import ClusterSnapshot, build_node_context
from gpushare.core.snapshot.node import ReconcileContext
from gpushare.editions.registry import EDITIONS, find_edition, find_mode, find_schedule
from gpushare.names import Reason

_ON_THEIR_WAY = frozenset(
    {Reason.PLUGIN_RESTARTING, Reason.COMPONENT_NOT_READY, Reason.RESOURCE_NOT_READY}
)
"""What a healthy node says for a while; a doctor can't tell for how long it has."""


@dataclass(frozen=True, slots=True)
class Labelled:
    """A node that a person or a pool labelled with a mode of an edition."""

    node: Node
    edition: Edition
    schedule: str

    @property
    def labels(self) -> str:
        """Those by which editions are switched."""
        switches, labels = (each.switch for each in EDITIONS.values()), self.node.labels
        return ", ".join(f"{key}={labels[key]}" for key in switches if key in labels)


def find_labelled(snapshot: ClusterSnapshot) -> list[Labelled]:
    """The nodes that carry a label of an edition, by name."""
    found = []
    for _, node in sorted(snapshot.nodes.items()):
        if (edition := find_edition(node.labels)) is not None:
            found.append(Labelled(node, edition, find_schedule(edition, node.labels)))
    return found


def judge_nodes(
    snapshot: ClusterSnapshot, pooled: Collection[str] | None, ctx: ReconcileContext
) -> Iterator[Finding]:
    """What is wrong on each node; `pooled` are those that pools have, None where nobody knows."""
    labelled = find_labelled(snapshot)
    serving = 0
    for each in labelled:
        found = list(_judge_node(each, snapshot, ctx))
        yield from found
        serving += not found
        if pooled is not None and each.node.name not in pooled and _shares(each):
            yield find(
                Code.LABELLED_MANUALLY,
                _name(each.node),
                f"it has {each.labels}, and no pool has it",
                "gpushare adopt writes the pools that describe such nodes",
            )
    yield from _judge_static_pods(snapshot)
    yield from judge_cgpu_nodes(each.node for each in labelled if _isolates(each))
    yield from judge_units([each.node for each in labelled])
    if not any(map(_shares, labelled)):
        yield find(Code.NOTHING_SHARED, "nodes", f"none of {len(snapshot.nodes)} nodes shares GPUs")
    if serving:
        told = f"{serving} of {len(labelled)} labelled nodes serve what their labels say"
        yield find(Code.PLUGINS_SERVE, "nodes", told)


def _judge_node(
    labelled: Labelled, snapshot: ClusterSnapshot, ctx: ReconcileContext
) -> Iterator[Finding]:
    node, edition = labelled.node, labelled.edition
    context = build_node_context(snapshot, node.name)
    if context.is_in_change:
        # Its pool says where it is.
        return
    if (other := find_other_edition(node, edition)) is not None:
        yield _explain(node, other)
        return
    if (mode := find_mode(edition, labelled.schedule)) is None:
        told = f"it has {labelled.labels}, and that is no mode of the {edition} edition"
        remedy = "correct the label: docs/transitions.md lists the modes"
        yield find(Code.UNKNOWN_MODE, _name(node), told, remedy)
        return
    pods = snapshot.pods.get(node.name, ())
    if (blocker := find_missing_daemonset(mode, pods, ctx)) is not None:
        yield _explain(node, blocker)
        return
    lacks = verify_mode(node, pods, mode, ctx) or find_plugin_problem(node, pods, mode, ctx)
    if lacks is not None:
        yield _tell(node, lacks)


def _tell(node: Node, lacks: NotYet) -> Finding:
    """Of a trouble that is diagnosed the remedy is said first, up to a colon."""
    remedy, colon, told = lacks.message.partition(": ")
    if lacks.wait is not None or lacks.reason in _ON_THEIR_WAY:
        severity = Severity.INFO if lacks.wait is not None else Severity.WARNING
        remedy = f"it may be on its way; if it stays so, {look_up(lacks.reason)}"
        return Finding(severity, lacks.reason, _name(node), lacks.message, remedy)
    if not colon:
        remedy = look_up(lacks.reason)
        return Finding(Severity.WARNING, lacks.reason, _name(node), lacks.message, remedy)
    severity = Severity.WARNING if lacks.reason in READY_WITH_WARNING else Severity.ERROR
    return Finding(severity, lacks.reason, _name(node), told, remedy)


def _explain(node: Node, blocker: Blocker) -> Finding:
    remedy = look_up(blocker.reason)
    return Finding(Severity.ERROR, blocker.reason, _name(node), blocker.message, remedy)


def _name(node: Node) -> str:
    return f"node {node.name}"


def _shares(labelled: Labelled) -> bool:
    """Whether its labels are not those of a node with whole cards, as any other is."""
    return labelled.schedule not in (Schedule.DEFAULT, Schedule.DISABLED)


def _isolates(labelled: Labelled) -> bool:
    mode = find_mode(labelled.edition, labelled.schedule)
    return mode is not None and mode.isolated


def _judge_static_pods(snapshot: ClusterSnapshot) -> Iterator[Finding]:
    for name in sorted(snapshot.nodes):
        if any(pod.is_static_plugin and pod.is_live for pod in snapshot.pods.get(name, ())):
            yield find(
                Code.STATIC_POD,
                f"node {name}",
                "its whole-card plugin is a static pod, which nobody but its kubelet restarts",
                f"if it must be restarted: {RESTART_STATIC_PLUGIN}",
            )


def judge_units(nodes: Sequence[Node]) -> Iterator[Finding]:
    """In what the plugins count memory."""
    by_unit: dict[str, list[str]] = {}
    for node in nodes:
        if card := observe_node_capacity(node, ()).card_total:
            by_unit.setdefault(tell_unit(card), []).append(node.name)
    if len(by_unit) > 1:
        told = "; ".join(
            f"{unit} on {len(found)} of them, such as {found[0]}"
            for unit, found in sorted(by_unit.items())
        )
        remedy = "run all plugins with the same --memory-unit, and restart those that change"
        yield find(Code.UNITS_MIXED, "nodes", told, remedy)
    elif "MiB" in by_unit:
        told = f"the plugins of all {len(by_unit['MiB'])} nodes count in MiB"
        yield find(Code.UNIT_IS_MIB, "nodes", told, "--memory-unit=GiB, the vendor's own default")
