"""Tells what each pod uses at one moment, beside what it asked for."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gpushare.analysis.usage.card_pods import CardPod
from gpushare.analysis.usage.reading import PodKey, Reading
from gpushare.analysis.usage.workloads import match_readings

_COUNTED_MORE = 0.1
"""Part of a request by which a pod that can't use more may seem to: drivers count what programs do
not ask for, and a card has a little more than the whole GiB that its plugin counts."""


@dataclass(frozen=True, slots=True)
class PodUse:
    """A pod on cards, and the memory of all its cards that it uses."""

    pod: CardPod
    used_bytes: float | None
    """None where it is unknown."""
    has_series_of_card: bool = False
    """Whether it is unknown because only the whole card is reported, which others use too."""

    @property
    def is_beyond(self) -> bool:
        """Whether it uses more than it asked for."""
        asked = self.pod.asked_bytes
        if self.used_bytes is None or not asked:
            return False
        is_bounded = self.pod.is_isolated or self.pod.is_whole
        return self.used_bytes > asked * (1 + _COUNTED_MORE * is_bounded)


def list_use(pods: Sequence[CardPod], readings: Mapping[PodKey, Sequence[Reading]]) -> list[PodUse]:
    """List what each pod uses by the last point of its reading, in the order of `pods`."""
    measured = match_readings(pods, readings)
    found = {
        key: each.reading.points[max(each.reading.points)]
        for key, each in measured.pods.items()
        if each.reading.points
    }
    return [PodUse(pod, found.get(pod.key), pod.key in measured.of_shared_cards) for pod in pods]
