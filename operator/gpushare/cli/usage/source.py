"""Reads what an answer of `gpushare usage` is based on: the cluster, and Prometheus."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from gpushare.analysis.observed_cluster import ObservedCluster
from gpushare.analysis.placement.cluster import find_members
from gpushare.analysis.usage.card_pods import CardPod, list_card_pods
from gpushare.analysis.usage.exporters import EXPORTERS
from gpushare.analysis.usage.workloads import MeasuredPods, match_readings
from gpushare.api.pruned.cluster import STATE_KINDS, Cluster
from gpushare.cli.cluster.access import Access, check_namespace, run_coroutine
from gpushare.cli.cluster.snapshot import observe_cluster
from gpushare.cli.exit_codes import CommandError, Exit
from gpushare.cli.usage.measurement import Measurement, measure
from gpushare.cli.usage.prometheus import Prometheus, TooMuchError, TooSlowError, open_prometheus
from gpushare.cli.usage.prometheus_options import PrometheusOptions

_CLOCK_SECONDS = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageSource:
    """Where usage is read from, as the options name it."""

    access: Access
    prometheus: PrometheusOptions
    window_seconds: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedUsage:
    """A cluster, and what Prometheus knows of its pods."""

    cluster: Cluster
    seen: ObservedCluster
    pods: tuple[CardPod, ...]
    members: Mapping[str, str]
    """Pools by node."""
    measurement: Measurement
    measured: MeasuredPods
    is_complete: bool
    """Whether Prometheus warned of nothing."""
    notes: tuple[str, ...]
    """What a reader of the figures must know."""


def read_usage(source: UsageSource, namespace: str | None) -> ObservedUsage:
    """Read usage in a namespace, or everywhere. Raises `CommandError`, and what else
    `errors_as_sentences` knows: for example where no series of any exporter is there."""
    access = source.access
    if namespace is None:
        cluster = access.read(*STATE_KINDS)
    else:
        cluster = access.read_namespace(namespace, *STATE_KINDS)
        check_namespace(cluster, namespace)
    seen = observe_cluster(cluster)
    members = find_members(seen.snapshot)
    pods = tuple(list_card_pods(seen, cluster.pods, members, namespace))
    return run_coroutine(_read(source, namespace or "", cluster, seen, pods, members))


async def _read(
    source: UsageSource,
    namespace: str,
    cluster: Cluster,
    seen: ObservedCluster,
    pods: tuple[CardPod, ...],
    members: Mapping[str, str],
) -> ObservedUsage:
    counts = Counter(pod.namespace for pod in pods)
    async with open_prometheus(source.access, source.prometheus) as prometheus:
        try:
            measurement = await measure(
                prometheus, source.window_seconds, namespace, source.prometheus.labels, counts
            )
        except TooMuchError as error:
            message = f"{error}. Try again, with a shorter --window or -n"
            raise CommandError(Exit.FAILURE, message) from error
        except TooSlowError as error:
            raise CommandError(Exit.NO_CLUSTER, f"{error}. Try a shorter --window") from error
        if not measurement.readings:
            raise build_no_series(prometheus.name, source.prometheus.labels, "in the window")
        notes = tuple(_list_notes(prometheus, source))
    return ObservedUsage(
        cluster=cluster,
        seen=seen,
        pods=pods,
        members=members,
        measurement=measurement,
        measured=match_readings(pods, measurement.readings),
        is_complete=not prometheus.warnings,
        notes=notes,
    )


def build_no_series(prometheus: str, labels: Mapping[str, str], when: str) -> CommandError:
    """Build the error for a Prometheus, by its name, that no exporter of pods reports to."""
    series = ", ".join(dict.fromkeys(each.series for each in EXPORTERS))
    which = "".join(f", {label}={value}" for label, value in labels.items())
    return CommandError(
        Exit.NOT_FOUND,
        f"{prometheus} has no series of pods {when}, of {series}{which}. "
        "docs/usage.md says which exporters there are",
    )


def _list_notes(prometheus: Prometheus, source: UsageSource) -> Iterator[str]:
    for warning in sorted(prometheus.warnings):
        yield f"{prometheus.name} warns: {warning}"
    difference = prometheus.clock_difference_seconds
    if abs(difference) > _CLOCK_SECONDS:
        direction = "ahead of" if difference > 0 else "behind"
        yield (
            f"The clock of {prometheus.name} is {abs(difference):.0f} s {direction} this "
            "machine's: the window ends by it"
        )
    if source.access.snapshot is not None:
        yield "Pods and requests are those of the snapshot, their use is that of the window"
