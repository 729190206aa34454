"""Checks that the API server can choose pools itself while no webhook answers."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from gpushare import names
from gpushare.analysis.finding import Finding, FindingCode, Unseen, report, skip
from gpushare.core.admission.pool_view import PoolView
from gpushare.core.admission.table import build_table

Json = Mapping[str, Any]
_POLICY = f"mutatingadmissionpolicy {names.ADMISSION_POLICY}"
_TABLE = f"{names.TABLE_KIND.lower()} {names.TABLE_NAME}"
_WITHOUT = "Pods that are created while no webhook answers get no pool"
_LOGS = (
    "Run the command again in a minute. If the finding stays, look for 'admission table' in the "
    "log of the controller that holds the Lease"
)


@dataclass(frozen=True, slots=True)
class AdmissionPolicy:
    """The policy and what it reads, as the cluster has them; None stands for a missing one, also
    where its kind is not served."""

    is_wanted: bool
    """The controller is told to keep the table."""
    policy: Json | Unseen | None
    binding: Json | Unseen | None
    """Without it the policy is not in force."""
    table: Json | Unseen | None
    pools: tuple[PoolView, ...] | Unseen

    @property
    def is_behind(self) -> bool:
        """Whether the table is there and does not show the pools."""
        if isinstance(self.table, Unseen) or isinstance(self.pools, Unseen) or self.table is None:
            return False
        return self.table.get("spec") != build_table(self.pools).dump()


def judge_admission_policy(found: AdmissionPolicy) -> Iterator[Finding]:
    """Check the policy and its table, where an installation has them."""
    if not found.is_wanted and not isinstance(found.policy, Mapping):
        return
    parts = (found.policy, found.binding)
    if None in parts:
        missing = "The policy" if found.policy is None else "The policy's binding"
        told = f"{missing} is not in the cluster. {_WITHOUT}"
        remedy = (
            "Run helm upgrade with the release's values: it creates the policy again. Before "
            "Kubernetes 1.36, which has no such policies, set admissionPolicy.enabled=false"
        )
        yield report(FindingCode.POLICY_MISSING, _POLICY, told, remedy)
    elif unseen := next((part for part in parts if isinstance(part, Unseen)), None):
        yield skip(_POLICY, unseen)
    yield from _judge_table(found)


def _judge_table(found: AdmissionPolicy) -> Iterator[Finding]:
    table = found.table
    if unseen := next((p for p in (table, found.pools) if isinstance(p, Unseen)), None):
        yield skip(_TABLE, unseen)
    elif table is None:
        told = f"The policy has no table to read. {_WITHOUT}"
        remedy = (
            f"Check that the CRD {names.TABLE_PLURAL}.{names.GROUP} is installed; "
            f"crds/{names.TABLE_PLURAL}.yaml has it. {_LOGS}"
        )
        yield report(FindingCode.TABLE_MISSING, _TABLE, told, remedy)
    elif found.is_behind:
        told = "It does not show the pools as they are, by which the policy chooses"
        yield report(FindingCode.TABLE_DIFFERS, _TABLE, told, _LOGS)
    elif isinstance(table, Mapping) and (omitted := table["spec"]["omitted"]):
        told = f"It leaves out {omitted} pools for lack of space: the policy gives them no pods"
        remedy = "Shorten the selectors of the pools, or unite pools that are alike"
        yield report(FindingCode.TABLE_OMITS_POOLS, _TABLE, told, remedy)
    elif isinstance(table, Mapping):
        told = f"It shows the pools as they are ({table['spec']['count']})"
        yield report(FindingCode.TABLE_CURRENT, _TABLE, told)
