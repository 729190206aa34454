"""Compares what each workload asked for with what its pods used, those that are gone too."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain

from gpushare.analysis.usage.advice import (
    Advice,
    AdviceCode,
    AdviceOptions,
    WorkloadFigures,
    advise,
)
from gpushare.analysis.usage.card_pods import CardPod
from gpushare.analysis.usage.reading import PodKey, Reading, find_quantile
from gpushare.analysis.usage.workload_names import find_workload
from gpushare.api.k8s.pod_owner import Workload

_BRIEF = ("Job", "CronJob")
"""Kinds whose pods end by themselves."""


@dataclass(frozen=True, slots=True)
class MeasuredPod:
    """A pod that an exporter reported."""

    workload: Workload | None
    """None for a pod that is gone, and that no workload here made."""
    reading: Reading
    peak_bytes: float
    card_peak_bytes: float
    """The most of one card."""
    is_plausible: bool


@dataclass(frozen=True, slots=True)
class MeasuredPods:
    """All pods that exporters reported."""

    pods: Mapping[PodKey, MeasuredPod]
    of_shared_cards: frozenset[PodKey]
    """Pods that hold a part of a card of which only the whole is reported."""


@dataclass(frozen=True, slots=True)
class WorkloadUsage:
    """A workload with pods on cards, and what they used."""

    pods: tuple[CardPod, ...]
    """The pods that are there."""
    measured: tuple[MeasuredPod, ...]
    figures: WorkloadFigures
    advice: Advice

    @property
    def namespace(self) -> str:
        return self.pods[0].namespace

    @property
    def workload(self) -> Workload:
        return self.pods[0].workload

    @property
    def pools(self) -> tuple[str, ...]:
        """The pools of its pods, sorted."""
        return tuple(sorted({pod.pool for pod in self.pods} - {""}))

    def find_quantiles_bytes(self, *fractions: float) -> list[float | None]:
        """Find what each of these fractions of the points of all its pods does not exceed."""
        values = sorted(chain(*(each.reading.points.values() for each in self.measured)))
        return [find_quantile(values, fraction) for fraction in fractions]

    @property
    def spare_bytes(self) -> int:
        """Bytes that its pods would give up by following the advice; negative if they need more."""
        pod, advice = self.figures.pod, self.advice
        if advice.code is AdviceCode.NEVER_USED:
            return pod.asked_bytes * len(self.pods)
        if advice.units is None:
            return 0
        return (pod.units - advice.units) * pod.bytes_per_unit * len(self.pods)


def match_readings(
    pods: Sequence[CardPod], readings: Mapping[PodKey, Sequence[Reading]]
) -> MeasuredPods:
    """Find the workload of each pod that was reported.

    A series of a whole card counts only for pods that hold whole cards, or are gone and were made
    by a workload whose pods do: an idle card's has the labels of the exporter's own pod.
    """
    live = {pod.key: pod for pod in pods}
    known: dict[str, dict[Workload, CardPod]] = {}
    for each in pods:
        known.setdefault(each.namespace, {})[each.workload] = each
    measured: dict[PodKey, MeasuredPod] = {}
    shared: set[PodKey] = set()
    for key, of_pod in readings.items():
        namespace, name = key
        pod = live.get(key)
        of_namespace = known.get(namespace, {})
        workload = pod.workload if pod else find_workload(name, of_namespace)
        like = pod or (of_namespace[workload] if workload else None)
        counted = [each for each in of_pod if not each.exporter.of_card or (like and like.is_whole)]
        if counted:
            cards = like.cards if like else 1
            # Several exporters report the same memory, so they are not added up.
            measured[key] = MeasuredPod(
                workload,
                max(counted, key=lambda reading: reading.observed_seconds),
                max(reading.find_peak_bytes(cards) for reading in counted),
                max(reading.find_card_peak_bytes(cards) for reading in counted),
                all(reading.is_plausible for reading in counted),
            )
        elif pod:
            shared.add(key)
    return MeasuredPods(measured, frozenset(shared))


def list_workloads(
    pods: Iterable[CardPod],
    measured: MeasuredPods,
    options: AdviceOptions,
    now: float,
    *,
    is_complete: bool = True,
) -> list[WorkloadUsage]:
    """List the workloads with pods: those first that use more than they asked for, then those that
    could give up most, then by name.

    `now` is the end of the window, in seconds since 1970; `is_complete` tells whether Prometheus
    answered in full.
    """
    groups: dict[tuple[str, Workload], list[CardPod]] = {}
    for pod in pods:
        groups.setdefault((pod.namespace, pod.workload), []).append(pod)
    of_workload: dict[tuple[str, Workload], list[MeasuredPod]] = {}
    for (namespace, _), each in measured.pods.items():
        if each.workload is not None:
            of_workload.setdefault((namespace, each.workload), []).append(each)
    found = []
    for key, group in groups.items():
        own = tuple(of_workload.get(key, ()))
        figures = _sum_up(group, own, measured, now, is_complete=is_complete)
        found.append(WorkloadUsage(tuple(group), own, figures, advise(figures, options)))
    return sorted(found, key=_rank)


def _rank(usage: WorkloadUsage) -> tuple[bool, int, str, Workload]:
    is_within = usage.advice.code is not AdviceCode.ABOVE_REQUEST
    return is_within, -usage.spare_bytes, usage.namespace, usage.workload


def _sum_up(
    pods: Sequence[CardPod],
    measured: Sequence[MeasuredPod],
    everywhere: MeasuredPods,
    now: float,
    *,
    is_complete: bool,
) -> WorkloadFigures:
    largest = max(pods, key=lambda pod: pod.asked_bytes)
    alike = [pod for pod in pods if pod.bytes_per_unit == largest.bytes_per_unit]
    standing_for_all = replace(
        largest,
        is_node_known=all(pod.is_node_known for pod in pods),
        is_isolated=all(pod.is_isolated for pod in pods),
        is_crashing=any(pod.is_crashing for pod in pods),
        is_single=all(pod.is_single for pod in pods),
        card_units=min(pod.card_units for pod in alike),
    )
    seconds = _sum_observed_seconds(measured)
    if largest.workload.kind not in _BRIEF:
        ages = (now - pod.since.timestamp() for pod in pods if pod.since is not None)
        seconds = min(seconds, max(ages, default=0.0))
    return WorkloadFigures(
        pod=standing_for_all,
        peak_bytes=max((each.peak_bytes for each in measured), default=None),
        card_peak_bytes=max((each.card_peak_bytes for each in measured), default=0.0),
        observed_seconds=seconds,
        has_only_card_series=not measured
        and any(pod.key in everywhere.of_shared_cards for pod in pods),
        is_plausible=all(each.is_plausible for each in measured),
        is_complete=is_complete and all(pod.key in everywhere.pods for pod in pods),
    )


def _sum_observed_seconds(measured: Sequence[MeasuredPod]) -> float:
    """Sum the time in which at least one of the pods was seen; overlaps count once."""
    if len(measured) == 1:
        return measured[0].reading.observed_seconds
    moments: dict[float, int] = {}
    for each in measured:
        for moment, seconds in each.reading.seconds_by_moment.items():
            moments[moment] = max(moments.get(moment, 0), seconds)
    return float(sum(moments.values()))
