"""Builds and reads the metrics of pools, nodes and pods that a planner has planned."""

from collections.abc import Iterable, Iterator
from typing import Any

from prometheus_client.metrics_core import Metric
from prometheus_client.parser import text_string_to_metric_families

from gpushare import names
from gpushare.api.k8s.node import Node
from gpushare.api.k8s.pod import Pod
from gpushare.api.k8s.pod_owner import Workload
from gpushare.api.pool import Pool, Schedule
from gpushare.core.planner.planner import Planner
from gpushare.core.snapshot.node import Timing
from gpushare.observe.metrics.controller import ControllerMetrics
from gpushare.observe.metrics.figures import Figures
from gpushare.observe.metrics.pools import Sight
from tests.kit.values.node_plans import OURS, SHARE, applied
from tests.kit.values.objects import MEMORY, NOW, a_gpu_pod, a_node, a_snapshot

WEB = Workload("Deployment", "web")


def a_member(name: str = "gpu-1", *, cards: int = 2, gib: int = 15, **more: Any) -> Node:
    """Build a ready member in mode share."""
    values: dict[str, Any] = {"records": applied(Schedule.SHARE), "gpu_count": cards, **more}
    return a_node(name, {**SHARE, **OURS}, allocatable={MEMORY: cards * gib}, **values)


def a_holder(name: str, cards: dict[int, int], *, node: str = "gpu-1", **more: Any) -> Pod:
    """Build a pod of the application web with so many GiB of each card."""
    values: dict[str, Any] = {"workload": WEB, "cards": cards, **more}
    asks = values.pop("asks", sum(cards.values()))
    return a_gpu_pod(name, node=node, requests={MEMORY: asks}, **values)


def a_waiting(name: str, gib: int, pool: str = "training") -> Pod:
    """Build a pod without a node."""
    selects = frozenset({(names.LABEL_POOL, pool)})
    return a_holder(name, {}, node="", asks=gib, selects=selects, phase="Pending")


def build_sight(
    pools: Iterable[Pool],
    nodes: Iterable[Node],
    pods: Iterable[Pod] = (),
) -> Sight:
    """Build an active controller's view of these objects."""
    snapshot = a_snapshot(pools=tuple(pools), nodes=tuple(nodes), pods=tuple(pods))
    planner = Planner(Timing())
    planner.update(snapshot, None, NOW)
    figures = Figures()
    for bound in snapshot.pods.values():
        for pod in bound:
            figures.put_pod(f"{pod.namespace}/{pod.name}", None, pod)
    figures.put_nodes(snapshot.pools, planner.plans_by_pool, planner.seen)
    return Sight(snapshot.pools, planner.plans_by_pool, figures=figures, now=NOW)


def measure(
    sight: Sight, *, per_application: bool = True, per_node: bool = True
) -> ControllerMetrics:
    """Build the metrics of a controller with this view."""
    metrics = ControllerMetrics(per_application=per_application, per_node=per_node)
    metrics.look = lambda: sight
    return metrics


def list_families(metrics: ControllerMetrics) -> Iterator[Metric]:
    """List all metrics as Prometheus parses them."""
    return iter(text_string_to_metric_families(metrics.generate().decode()))


def read(metrics: ControllerMetrics, series: str, **labels: str) -> float | None:
    """Read the series `gpushare_SERIES` with exactly these labels; None where there is none."""
    return next(
        (
            sample.value
            for family in list_families(metrics)
            for sample in family.samples
            if sample.name == f"gpushare_{series}" and sample.labels == labels
        ),
        None,
    )


def read_all(metrics: ControllerMetrics, name: str) -> dict[tuple[str, ...], float]:
    """Read all series of the metric `gpushare_NAME`, by their labels' values."""
    (ours,) = (family for family in metrics.families if family.name == name)
    (found,) = (f for f in list_families(metrics) if f.name == ours.full_name)
    return {tuple(s.labels[label] for label in ours.labels): s.value for s in found.samples}
