"""All that a doctor says, in one list."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from gpushare.core.analysis.doctor.crd import judge_crd
from gpushare.core.analysis.doctor.installation import (
    INSTALL,
    Deployment,
    Leader,
    judge_deployments,
    judge_leader,
)
from gpushare.core.analysis.doctor.nodes import judge_nodes, judge_priority
from gpushare.core.analysis.doctor.pools import judge_extender, judge_pools
from gpushare.core.analysis.doctor.rights import GrantedRights, judge_accounts
from gpushare.core.analysis.doctor.webhook import Bundle, judge_bundles, judge_endpoints
from gpushare.core.analysis.doctor.webhook_configuration import judge_configuration
from gpushare.core.analysis.effective_settings import ROUTED_BY, KnownSetup
from gpushare.core.analysis.finding import Code, Finding, Unseen, find, skip
from gpushare.core.analysis.inspect.pools import find_waiting, plan_snapshot
from gpushare.core.analysis.seen import Seen

Json = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Installation:
    """What is in a cluster of the operator itself; None stands for what is not there."""

    namespace: str
    deployments: tuple[Deployment, ...] | Unseen
    leader: Leader | Unseen | None
    crd: Json | Unseen | None
    configuration: Json | Unseen | None
    """The MutatingWebhookConfiguration."""
    service: str
    """Namespace and name of the webhook's Service; empty where it is called by its URL."""
    endpoints: int | Unseen
    """Those of it that are ready."""
    accounts: tuple[GrantedRights, ...]

    @property
    def seen(self) -> Mapping[str, object]:
        """Its parts that are there."""
        return {name: part for name, part in self._parts if part and not isinstance(part, Unseen)}

    @property
    def unseen(self) -> Mapping[str, Unseen]:
        """Its parts that may not be read."""
        return {name: part for name, part in self._parts if isinstance(part, Unseen)}

    @property
    def _parts(self) -> Iterator[tuple[str, object]]:
        yield "deployments", self.deployments
        yield "lease", self.leader
        yield "crd", self.crd
        yield "webhook configuration", self.configuration

    @property
    def is_inhabited(self) -> bool:
        """Whether some process of it is, or was, in its namespace, or nobody may look."""
        return bool(self.deployments) or self.leader is not None

    @property
    def variables(self) -> Mapping[str, Mapping[str, str | None]] | None:
        """By Deployment, those of its containers; None where they may not be read."""
        if isinstance(self.deployments, Unseen):
            return None
        return {str(each): each.settings for each in self.deployments}


def judge_installation(
    installation: Installation | Unseen,
    bundles: tuple[Bundle, ...] = (),
    *,
    crd: Json,
    version: str,
    now: datetime,
) -> list[Finding]:
    """Whether it is there, whole, and of this program's `version` and `crd`; `bundles` are what
    its webhooks trust."""
    if isinstance(installation, Unseen):
        return [skip("installation", installation, "ask the cluster itself, without --snapshot")]
    if installation.seen.keys() <= {"crd"}:
        return list(_judge_absence(installation, crd))
    found = [
        *judge_deployments(installation.deployments, version),
        judge_leader(installation.leader, installation.namespace, now),
        judge_crd(installation.crd, crd),
        *judge_configuration(installation.configuration, installation.namespace),
        *judge_bundles(bundles, now),
        *judge_accounts(installation.accounts, installation.namespace),
    ]
    if installation.service:
        found.append(judge_endpoints(installation.endpoints, installation.service))
    return found


def _judge_absence(installation: Installation, crd: Json) -> Iterator[Finding]:
    if installation.seen:
        told = "only the pools' CustomResourceDefinition is in the cluster: nobody acts on pools"
        yield find(Code.ONLY_POOLS_LEFT, "installation", told, INSTALL)
        yield judge_crd(installation.crd, crd)
    elif not installation.unseen:
        told = "there is nothing of the operator in the cluster"
        yield find(Code.NOT_INSTALLED, "installation", told, INSTALL)
    for part, unseen in installation.unseen.items():
        yield skip(part, unseen)


def judge_setup(known: KnownSetup) -> Finding:
    """How the installation is set, as far as decisions depend on it."""
    if told := known.tell_assumed(ROUTED_BY):
        return find(Code.SETUP_ASSUMED, "setup", told)
    return find(Code.SETUP_READ, "setup", known.tell_sources(ROUTED_BY))


def judge_machines(seen: Seen, unseen: Mapping[str, Unseen], now: datetime) -> list[Finding]:
    """What nodes serve, and what pools say; `unseen` has the kinds that could not be read."""
    unseen = dict(unseen)
    if seen.known.elsewhere:
        unseen.setdefault("daemonsets", Unseen(seen.known.elsewhere))
    found = [skip(kind, each) for kind, each in unseen.items()]
    if unseen.keys() - {"pools", "namespaces", "configmaps"}:
        return found
    snapshot, setup = seen.snapshot, seen.known.setup
    planner = plan_snapshot(snapshot, setup, now)
    waiting = find_waiting(seen, planner.books, now)
    ctx = setup.build_reconcile_context(snapshot, now)
    return [
        *found,
        *judge_nodes(snapshot, planner, ctx, knows_pools="pools" not in unseen),
        *judge_priority(snapshot.plugin_daemonsets),
        *judge_pools(snapshot, seen.unreadable, planner, now),
        *judge_extender(waiting),
    ]


def build_page(*parts: Iterable[Finding]) -> list[Finding]:
    """All findings, the worst first."""
    findings = (finding for part in parts for finding in part)
    return sorted(findings, key=lambda finding: (-finding.severity.rank, finding.code))
