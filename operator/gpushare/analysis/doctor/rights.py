"""Checks the rights of the operator's accounts, by their roles, and of the user."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gpushare import names
from gpushare.analysis.doctor.chart import CONTROLLER, Need, Role
from gpushare.analysis.finding import Finding, FindingCode, Unseen, report, skip

Json = Mapping[str, Any]
_REMEDY = "Run helm upgrade with the release's values: it writes the chart's roles again"


@dataclass(frozen=True, slots=True)
class GrantedRights:
    """A role of the chart as the cluster has it."""

    role: Role
    rules: tuple[Json, ...] | Unseen | None
    """Rules of the role; None if the role does not exist."""
    subjects: frozenset[tuple[str, str]] | Unseen | None
    """Namespace and name of the accounts that its binding names; None without one of its name."""


def judge_accounts(held: Sequence[GrantedRights], namespace: str) -> Iterator[Finding]:
    """Check that the accounts in `namespace` have their rights."""
    about = "rights of the operator's accounts"
    lacks = [(each, told) for each in held for told in _find_lacks(each, namespace)]
    for each, told in lacks:
        yield report(FindingCode.RIGHTS_MISSING, str(each.role), told, _REMEDY)
    parts = (part for each in held for part in (each.rules, each.subjects))
    if unseen := next((part for part in parts if isinstance(part, Unseen)), None):
        yield skip(about, unseen)
    elif not lacks:
        told = f"{len(held)} roles and their bindings grant the rights that this version needs"
        yield report(FindingCode.RIGHTS_COMPLETE, about, told)


def _find_lacks(held: GrantedRights, namespace: str) -> Iterator[str]:
    account = held.role.account
    if held.rules is None:
        yield f"The role is not in the cluster, but account {account} needs it"
    elif not isinstance(held.rules, Unseen):
        for need in held.role.needs:
            verbs = [verb for verb in need.verbs if not _holds(held.rules, need, verb)]
            if verbs:
                name = f" {need.name}" if need.name else ""
                yield f"Account {account} may not {', '.join(verbs)} {need.resource}{name}"
    if held.subjects is None:
        yield f"No binding of the same name grants the role to account {account}"
    # With allInOne one process has both roles by the controller's account.
    elif not isinstance(held.subjects, Unseen) and held.subjects.isdisjoint(
        {(namespace, account), (namespace, CONTROLLER)}
    ):
        yield f"The binding of the role does not name account {namespace}/{account}"


def _holds(rules: Sequence[Json], need: Need, verb: str) -> bool:
    """Tell whether one of the rules allows it ("Using RBAC Authorization" in Kubernetes' docs)."""
    _, _, subresource = need.resource.partition("/")
    resources = {need.resource, "*", f"*/{subresource}"}
    return any(
        {need.group, "*"}.intersection(rule.get("apiGroups") or ())
        and resources.intersection(rule.get("resources") or ())
        and {verb, "*"}.intersection(rule.get("verbs") or ())
        and need.name in (rule.get("resourceNames") or [need.name])
        for rule in rules
    )


@dataclass(frozen=True, slots=True)
class Right:
    """A right of the user, and the commands that need it."""

    verb: str
    group: str
    resource: str
    namespace: str = ""
    what_for: str = ""

    def __str__(self) -> str:
        where = f" in {self.namespace}" if self.namespace else ""
        return f"{self.verb} {self.resource}{where}"


ON_ACK = "On ACK a RAM user also needs a role from the console's Authorizations page"
"""Why a user may be refused whose RAM policies allow it (vendor's page on authorization)."""
_READS = "the commands that read the cluster"
YOURS = (
    Right("list", "", "nodes", what_for=_READS),
    Right("list", "", "pods", what_for=_READS),
    Right("list", names.GROUP, names.PLURAL, what_for=_READS),
    Right("list", "", "namespaces", what_for=_READS),
    Right("list", "apps", "daemonsets", names.PLUGIN_NAMESPACE, what_for=_READS),
    Right("list", "", "configmaps", names.EXTENDER_NAMESPACE, what_for=_READS),
    Right("patch", names.GROUP, names.PLURAL, what_for="approve and retry of a pool"),
    Right("patch", "", "nodes", what_for="retry of a node"),
)
"""The rights that commands need."""


def judge_user(allowed: Mapping[Right, bool] | Unseen) -> Iterator[Finding]:
    """Check the rights of the user."""
    about = "your rights"
    if isinstance(allowed, Unseen):
        yield skip(about, allowed)
        return
    missing = [right for right in allowed if not allowed[right]]
    for what_for in dict.fromkeys(right.what_for for right in missing):
        listed = ", ".join(str(right) for right in missing if right.what_for == what_for)
        told = f"You may not {listed}. This limits {what_for}"
        remedy = f"Ask an administrator for these rights, or use a snapshot. {ON_ACK}"
        yield report(FindingCode.YOUR_RIGHTS_MISSING, about, told, remedy)
    if not missing:
        yield report(FindingCode.YOUR_RIGHTS, about, "You have all rights that commands need")
