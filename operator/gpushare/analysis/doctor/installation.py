"""Checks that the operator's own processes exist, run, and have this version."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from gpushare.analysis.finding import Finding, FindingCode, Unseen, report, skip

INSTALL = "Install the chart (docs/install.md)"
SILENCE = timedelta(seconds=60)
"""A Lease that was not renewed for so long has no holder, whatever the clocks' difference."""
FRESH = timedelta(seconds=3)
"""A Lease that was renewed within this time is read only once."""


@dataclass(frozen=True, slots=True)
class Deployment:
    """A process role of the operator."""

    namespace: str
    name: str
    wanted: int
    ready: int
    version: str
    """The chart's label."""
    image: str
    settings: Mapping[str, str | None] = field(default_factory=dict)
    """The variables of its container; None for what is read from elsewhere."""

    def __str__(self) -> str:
        return f"deployment {self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True)
class Leader:
    """Holder of the controllers' Lease, and the time of its last renewal."""

    holder: str
    renewed: datetime | None
    duration_seconds: float = 0.0
    watched_seconds: float = 0.0
    """Seconds for which the Lease was watched without a renewal, which depends on no
    clock."""

    def must_be_watched(self, now: datetime) -> bool:
        """Tell whether the Lease must be read again to see if it is renewed: its holder does so at
        least twice in its duration."""
        if not self.holder or self.renewed is None or self.watched_seconds > self.patience:
            return False
        silent = now - self.renewed
        return silent <= SILENCE and not timedelta() <= silent <= FRESH

    @property
    def patience(self) -> float:
        """Seconds within which it is renewed if a controller holds it."""
        return self.duration_seconds / 2


def judge_deployments(
    deployments: tuple[Deployment, ...] | Unseen, version: str
) -> Iterator[Finding]:
    """Check their replicas, and whether they have `version`, which is this program's."""
    if isinstance(deployments, Unseen):
        yield skip("deployments", deployments)
        return
    if not deployments:
        yield report(
            FindingCode.NO_DEPLOYMENTS,
            "deployments",
            "Parts of an installation are in the cluster, but no Deployment of the operator",
            f"Nothing if the operator runs outside the cluster. Otherwise: {INSTALL}, or remove "
            "the remaining objects",
        )
    for each in deployments:
        told = f"{each.ready} of {each.wanted} replicas are ready, version {each.version or '?'}"
        look = (
            "Check the logs of its pods, and run: "
            f"kubectl -n {each.namespace} describe deployment {each.name}"
        )
        if not each.ready:
            yield report(FindingCode.OPERATOR_DOWN, str(each), told, look)
        elif each.ready < each.wanted:
            yield report(FindingCode.REPLICAS_MISSING, str(each), told, look)
        else:
            yield report(FindingCode.OPERATOR_FOUND, str(each), told)
        if each.version and each.version != version:
            told = f"The version is {each.version} ({each.image}), that of this program {version}"
            remedy = f"Use the program of version {each.version}, or upgrade (docs/upgrade.md)"
            yield report(FindingCode.OTHER_VERSION, str(each), told, remedy)


def judge_leader(leader: Leader | Unseen | None, namespace: str, now: datetime) -> Finding:
    """Check that a controller is active; `leader` is None where there is no Lease."""
    about = f"lease {namespace}/gpushare-controller"
    remedy = (
        f"Run: kubectl -n {namespace} get pods, and kubectl -n {namespace} logs -l "
        "app.kubernetes.io/component=controller --prefix --tail=50"
    )
    if isinstance(leader, Unseen):
        return skip(about, leader)
    if leader is None or not leader.holder or leader.renewed is None:
        return report(FindingCode.CONTROLLER_SILENT, about, "No controller holds the Lease", remedy)
    silent = now - leader.renewed
    if silent > SILENCE or leader.watched_seconds > leader.patience > 0:
        told = f"{leader.holder} has not renewed the Lease for {silent.total_seconds():.0f} s"
        return report(FindingCode.CONTROLLER_SILENT, about, told, remedy)
    return report(FindingCode.CONTROLLER_ACTIVE, about, f"{leader.holder} holds the Lease")
