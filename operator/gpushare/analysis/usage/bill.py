"""Sums the memory that namespaces held over time, and how much of it they used."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from gpushare.analysis.usage.card_pods import CardPod
from gpushare.analysis.usage.workloads import MeasuredPods
from gpushare.api.k8s.pod_owner import Workload

Holder = tuple[str, str]
"""Namespace and pool; the pool is empty where it is none or unknown."""
_ROUNDING = 0.05
"""Part of what was asked that counts as measured all the same: a pod is seen by an exporter a
moment later than by the ledger."""


@dataclass(frozen=True, slots=True)
class HeldMemory:
    """Memory of cards over time, in byte-seconds, of a namespace in a pool."""

    namespace: str
    pool: str
    asked: float = 0.0
    used: float = 0.0
    measured: float = 0.0
    """The part of `asked` of whose use something is known."""

    @property
    def unmeasured(self) -> float:
        """The part of `asked` of whose use nothing is known."""
        missing = max(self.asked - self.measured, 0.0)
        return missing if missing > _ROUNDING * self.asked else 0.0

    def __add__(self, other: "HeldMemory") -> "HeldMemory":
        return HeldMemory(
            self.namespace,
            self.pool,
            self.asked + other.asked,
            self.used + other.used,
            self.measured + other.measured,
        )


@dataclass(frozen=True, slots=True)
class TimeSpan:
    """A span of time, in seconds since 1970, as Prometheus' clock has it."""

    start: float
    end: float

    @property
    def seconds(self) -> float:
        return self.end - self.start

    def count_seconds_since(self, moment: float) -> float:
        """Count the seconds of the span that are after `moment`."""
        return max(self.end - max(self.start, moment), 0.0)


def sum_held(
    span: TimeSpan,
    pods: Sequence[CardPod],
    measured: MeasuredPods,
    members: Mapping[str, str],
    allocated: Mapping[Holder, float] | None,
) -> list[HeldMemory]:
    """Sum what each namespace held in each pool, sorted by namespace and pool.

    `members` are the pools by node. `allocated` are the byte-seconds of shared memory by the
    operator's own metric; None without it: then, as always for whole cards, only pods that are
    there count, since they started. What a pod asked for that is gone is taken from its workload,
    or else it is what it used.
    """
    sums: dict[Holder, HeldMemory] = {}
    held = {
        pod.key: span.count_seconds_since(pod.since.timestamp()) if pod.since else 0.0
        for pod in pods
    }
    live = {pod.key: pod for pod in pods}
    like = {(pod.namespace, pod.workload): pod for pod in pods}

    def count(more: HeldMemory) -> None:
        holder = more.namespace, more.pool
        sums[holder] = sums[holder] + more if holder in sums else more

    for (namespace, pool), asked in (allocated or {}).items():
        count(HeldMemory(namespace, pool, asked=asked))
    for pod in pods:
        if held[pod.key] and (pod.is_whole or allocated is None):
            asked = pod.asked_bytes * held[pod.key]
            count(HeldMemory(pod.namespace, pod.pool, asked=asked))
    for key, each in measured.pods.items():
        owner: tuple[str, Workload] | None = (key[0], each.workload) if each.workload else None
        same = live.get(key) or (like.get(owner) if owner else None)
        pool = members.get(each.reading.node, "") or (same.pool if same else "")
        used, known = each.reading.used_byte_seconds, 0.0
        if key in held or (allocated is not None and not each.reading.exporter.of_card):
            # Before a pod of that name started there may have been another.
            seconds = min(each.reading.observed_seconds, held.get(key, span.seconds))
            known = same.asked_bytes * seconds if same else used
        count(HeldMemory(key[0], pool, used=used, measured=known))
    return [sums[holder] for holder in sorted(sums)]


def sum_by_pool(rows: Iterable[HeldMemory]) -> list[HeldMemory]:
    """Sum the rows of each pool, sorted by pool."""
    sums: dict[str, HeldMemory] = {}
    for row in rows:
        sums[row.pool] = sums.get(row.pool, HeldMemory("", row.pool)) + row
    return [sums[pool] for pool in sorted(sums)]
