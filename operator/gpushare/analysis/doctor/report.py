"""Collects all findings of `gpushare doctor`."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from gpushare.analysis.doctor.chart import runs_webhook
from gpushare.analysis.doctor.crd import judge_crd
from gpushare.analysis.doctor.installation import (
    INSTALL,
    Deployment,
    Leader,
    judge_deployments,
    judge_leader,
)
from gpushare.analysis.doctor.kueue import judge_kueue
from gpushare.analysis.doctor.nodes import judge_nodes, judge_priority
from gpushare.analysis.doctor.pools import judge_extender, judge_pools
from gpushare.analysis.doctor.rights import GrantedRights, judge_accounts
from gpushare.analysis.doctor.webhook import (
    judge_bundles,
    judge_configuration,
    judge_endpoints,
)
from gpushare.analysis.effective_settings import ROUTED_BY, KnownSetup
from gpushare.analysis.finding import Finding, FindingCode, Unseen, report, skip
from gpushare.analysis.inspect.pools import find_waiting, plan_snapshot
from gpushare.analysis.kueue.manifests import measure_pool
from gpushare.analysis.kueue.objects import KueueObjects
from gpushare.analysis.observed_cluster import ObservedCluster
from gpushare.api.pruned.cluster import REFUSABLE
from gpushare.core.planner.planner import Planner
from gpushare.core.snapshot.cluster import ClusterSnapshot

Json = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Installation:
    """The operator's own objects in a cluster; None stands for a missing one."""

    namespace: str
    deployments: tuple[Deployment, ...] | Unseen
    leader: Leader | Unseen | None
    crd: Json | Unseen | None
    configuration: Json | Unseen | None
    """The MutatingWebhookConfiguration."""
    service: str
    """Namespace and name of the webhook's Service; empty where it is called by its URL."""
    endpoints: int | Unseen
    """Number of its ready endpoints."""
    accounts: tuple[GrantedRights, ...]

    @property
    def is_inhabited(self) -> bool:
        """Whether the namespace has, or had, a process of the operator, or can't be read."""
        return bool(self.deployments) or self.leader is not None

    @property
    def settings(self) -> Mapping[str, str | None]:
        """Environment variables of all its containers; none where they are unreadable."""
        return dict(each for of in (self.variables or {}).values() for each in of.items())

    @property
    def has_webhook(self) -> bool:
        """Whether a webhook is there, or is meant to be."""
        return self.configuration is not None or runs_webhook(self.settings)

    @property
    def variables(self) -> Mapping[str, Mapping[str, str | None]] | None:
        """Environment variables of the containers, by Deployment; None if unreadable."""
        if isinstance(self.deployments, Unseen):
            return None
        return {str(each): each.settings for each in self.deployments}


def judge_installation(
    installation: Installation,
    bundles: Sequence[Sequence[datetime] | None],
    crd: Json,
    version: str,
    now: datetime,
) -> Iterator[Finding]:
    """Check that it is there, complete, and of this program's `version` and `crd`; `bundles` are
    the caBundles of its webhooks, each CA by its expiry; None for an empty one."""
    parts = {
        "deployments": installation.deployments,
        "lease": installation.leader,
        "crd": installation.crd,
        "webhook configuration": installation.configuration,
    }
    unseen = {name: part for name, part in parts.items() if isinstance(part, Unseen)}
    present = {name for name, part in parts.items() if part and name not in unseen}
    if present <= {"crd"}:
        if present:
            told = "Only the CustomResourceDefinition of the pools is in the cluster"
            yield report(FindingCode.ONLY_POOLS_LEFT, "installation", told, INSTALL)
            yield judge_crd(installation.crd, crd)
        elif not unseen:
            told = "The operator is not installed in the cluster"
            yield report(FindingCode.NOT_INSTALLED, "installation", told, INSTALL)
        for name, part in unseen.items():
            yield skip(name, part)
        return
    yield from judge_deployments(installation.deployments, version)
    yield judge_leader(installation.leader, installation.namespace, now)
    yield judge_crd(installation.crd, crd)
    if installation.has_webhook:
        yield from judge_configuration(installation.configuration, installation.namespace)
        yield from judge_bundles(bundles, installation.namespace, now)
    else:
        told = (
            "It is not installed (webhook.enabled: false). The admission policy alone chooses "
            "pools, without knowledge of free memory"
        )
        yield report(FindingCode.WEBHOOK_NOT_INSTALLED, "webhook", told)
    yield from judge_accounts(installation.accounts, installation.namespace)
    if installation.service:
        yield judge_endpoints(installation.endpoints, installation.service)


def judge_setup(known: KnownSetup) -> Finding:
    """Report the settings of the installation on which decisions depend."""
    if told := known.tell_assumed(ROUTED_BY):
        return report(FindingCode.SETUP_ASSUMED, "setup", told)
    return report(FindingCode.SETUP_READ, "setup", known.tell_sources(ROUTED_BY))


def judge_machines(
    seen: ObservedCluster,
    unseen: Mapping[str, Unseen],
    now: datetime,
    kueue: KueueObjects | Unseen | None = None,
) -> list[Finding]:
    """Check nodes, pools and Kueue's queues; `unseen` has the kinds that could not be read, `kueue`
    is None in a cluster without Kueue."""
    unseen = dict(unseen)
    if seen.known.elsewhere:
        unseen.setdefault("daemonsets", Unseen(seen.known.elsewhere))
    found = [skip(kind, each) for kind, each in unseen.items()]
    if isinstance(kueue, Unseen):
        found.append(skip("kueue", kueue))
    if unseen.keys() - {"pools", "namespaces", *REFUSABLE}:
        return found
    snapshot, setup = seen.snapshot, seen.known.setup
    planner = plan_snapshot(snapshot, setup, now)
    waiting = find_waiting(seen, planner.plans_by_pool, now)
    ctx = planner.build_context(snapshot, now)
    return [
        *found,
        *judge_nodes(snapshot, planner, ctx, knows_pools="pools" not in unseen),
        *judge_priority(snapshot.plugin_daemonsets),
        *judge_pools(snapshot, seen.unreadable, planner, now),
        *judge_extender(waiting),
        *(_judge_queues(kueue, snapshot, planner) if isinstance(kueue, KueueObjects) else ()),
    ]


def _judge_queues(
    kueue: KueueObjects, snapshot: ClusterSnapshot, planner: Planner
) -> Iterator[Finding]:
    # Without all pools every flavor would seem to name none.
    if snapshot.unreadable_pools:
        return iter(())
    members = {name: plans.capacities for name, plans in planner.plans_by_pool.items()}
    pools = [measure_pool(pool, members[pool.name], snapshot) for pool in snapshot.pools]
    return judge_kueue(kueue, pools)


def sort_findings(findings: Iterable[Finding]) -> list[Finding]:
    """Sort them, the worst first."""
    return sorted(findings, key=lambda finding: (-finding.severity.rank, finding.code))
