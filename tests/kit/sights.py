"""What collectors read in a unit test: pools, nodes and pods, judged by the planner."""

from collections.abc import Iterable

from gpushare.api.node import Node
from gpushare.api.pod import Pod
from gpushare.api.pool import Pool
from gpushare.core.observed import Timing
from gpushare.core.plan import Planner
from gpushare.observe.metrics import Metrics, Sight
from tests.kit.values import NOW, a_world


def build_sight(pools: Iterable[Pool], nodes: Iterable[Node], pods: Iterable[Pod] = ()) -> Sight:
    """What an active controller knows of these."""
    world = a_world(pools=tuple(pools), nodes=tuple(nodes), pods=tuple(pods))
    planner = Planner(Timing())
    planner.update(world, None, NOW)
    every = [pod for bound in world.pods.values() for pod in bound]
    return Sight(
        pools=world.pools,
        books=planner.books,
        pods={f"{pod.namespace}/{pod.name}": pod for pod in every},
        waiting=[pod for pod in every if not pod.node],
    )


def measure(sight: Sight, *, per_node: bool = True) -> Metrics:
    """The metrics of a controller that knows this."""
    metrics = Metrics(per_node=per_node)
    metrics.look = lambda: sight
    return metrics


def read(metrics: Metrics, series: str, **labels: str) -> float | None:
    """The value of the series `gpushare_SERIES` with exactly these labels; None without one."""
    return metrics.registry.get_sample_value(f"gpushare_{series}", labels)


def read_all(metrics: Metrics, name: str) -> dict[tuple[str, ...], float]:
    """All series of the metric `gpushare_NAME`, by their labels' values."""
    (found,) = (f for f in metrics.registry.collect() if f.name == f"gpushare_{name}")
    return {tuple(sample.labels.values()): sample.value for sample in found.samples}
