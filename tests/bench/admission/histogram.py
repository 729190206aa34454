"""What the API server measured of a webhook, from the text that Prometheus reads."""

import re
from collections.abc import Collection
from dataclasses import dataclass

_DURATION = "apiserver_admission_webhook_admission_duration_seconds"
_FAIL_OPEN = "apiserver_admission_webhook_fail_open_count"
_SAMPLE = re.compile(r"(?P<metric>\w+)\{(?P<labels>[^}]*)\} (?P<value>\S+)")
_LABEL = re.compile(r'(\w+)="([^"]*)"')
_FIVE_MS = "0.005"


@dataclass(frozen=True)
class Durations:
    """Calls of a webhook, from the API server's side: until its answer is taken in."""

    calls: int = 0
    seconds: float = 0.0
    within_5ms: int = 0

    def __sub__(self, earlier: "Durations") -> "Durations":
        """Those that came after `earlier` was read."""
        return Durations(
            self.calls - earlier.calls,
            self.seconds - earlier.seconds,
            self.within_5ms - earlier.within_5ms,
        )

    def __add__(self, other: "Durations") -> "Durations":
        """Those of both."""
        return Durations(
            self.calls + other.calls,
            self.seconds + other.seconds,
            self.within_5ms + other.within_5ms,
        )

    @property
    def mean_ms(self) -> float:
        return 1000 * self.seconds / self.calls

    @property
    def share_5ms(self) -> float:
        """Percent of the calls that took no longer than 5 ms."""
        return 100 * self.within_5ms / self.calls


def parse_durations(metrics: str, webhooks: Collection[str]) -> Durations:
    """The sum over the webhooks of these names, whatever was asked and answered."""
    totals = {"count": 0.0, "sum": 0.0, "bucket": 0.0}
    for metric, labels, value in _find_samples(metrics, _DURATION):
        part = metric.removeprefix(f"{_DURATION}_")
        if labels["name"] in webhooks and labels.get("le", _FIVE_MS) == _FIVE_MS:
            totals[part] += value
    return Durations(int(totals["count"]), totals["sum"], int(totals["bucket"]))


def parse_failed_open(metrics: str, webhooks: Collection[str]) -> int:
    """Calls that failed, so that the object went through as it was."""
    samples = _find_samples(metrics, _FAIL_OPEN)
    return int(sum(value for _, labels, value in samples if labels["name"] in webhooks))


def _find_samples(metrics: str, prefix: str) -> list[tuple[str, dict[str, str], float]]:
    return [
        (found["metric"], dict(_LABEL.findall(found["labels"])), float(found["value"]))
        for line in metrics.splitlines()
        if line.startswith(prefix) and (found := _SAMPLE.fullmatch(line))
    ]
