"""Rights: of the operator's accounts by their roles, and of the person who asks."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gpushare import names
from gpushare.core.analysis.doctor.finding import Code, Finding, Unseen, find, skip
from gpushare.core.analysis.doctor.grants import Grant, Need

Json = Mapping[str, Any]
_REMEDY = "run helm upgrade with the release's values: the chart writes its roles anew"


@dataclass(frozen=True, slots=True)
class GrantedRights:
    """A grant as the cluster has it."""

    grant: Grant
    namespace: str
    """Empty for a ClusterRole."""
    rules: tuple[Json, ...] | Unseen | None
    """None: there is no such role."""
    subjects: frozenset[tuple[str, str]] | Unseen | None
    """Namespace and name of the accounts that its binding names; None without one of its name."""

    def __str__(self) -> str:
        kind = "role" if self.namespace else "clusterrole"
        return f"{kind} {f'{self.namespace}/' * bool(self.namespace)}{self.grant.role}"


def judge_accounts(held: Sequence[GrantedRights], namespace: str) -> Iterator[Finding]:
    """What the accounts in `namespace` lack."""
    lacking = False
    unseen = [each for each in held for part in (each.rules, each.subjects) if _is_unseen(part)]
    for each in held:
        for told in _find_lacks(each, namespace):
            lacking = True
            yield find(Code.RIGHTS_MISSING, str(each), told, _REMEDY)
    if unseen:
        first = unseen[0]
        why = first.rules if isinstance(first.rules, Unseen) else first.subjects
        assert isinstance(why, Unseen)
        yield skip("rights of the operator's accounts", why)
    elif not lacking:
        told = f"{len(held)} roles and their bindings hold what this version needs"
        yield find(Code.RIGHTS_COMPLETE, "rights of the operator's accounts", told)


def _is_unseen(part: object) -> bool:
    return isinstance(part, Unseen)


def _find_lacks(held: GrantedRights, namespace: str) -> Iterator[str]:
    if held.rules is None:
        yield f"it is not in the cluster, and account {held.grant.account} needs it"
    elif not isinstance(held.rules, Unseen):
        for need in held.grant.needs:
            verbs = [verb for verb in need.verbs if not _holds(held.rules, need, verb)]
            if verbs:
                name = f" {need.name}" if need.name else ""
                told = f"{held.grant.account} may not {', '.join(verbs)} {need.resource}{name}"
                yield told
    if held.subjects is None:
        yield f"no binding of its name gives it to account {held.grant.account}"
    elif (
        not isinstance(held.subjects, Unseen)
        and (namespace, held.grant.account) not in held.subjects
    ):
        yield f"its binding does not name account {namespace}/{held.grant.account}"


def _holds(rules: Sequence[Json], need: Need, verb: str) -> bool:
    """Whether one of the rules allows it ("Using RBAC Authorization", Kubernetes documentation)."""
    _, _, subresource = need.resource.partition("/")
    resources = {need.resource, "*", *({f"*/{subresource}"} if subresource else ())}
    for rule in rules:
        only = rule.get("resourceNames")
        if (
            {need.group, "*"}.intersection(rule.get("apiGroups") or ())
            and resources.intersection(rule.get("resources") or ())
            and {verb, "*"}.intersection(rule.get("verbs") or ())
            and (not only or need.name in only)
        ):
            return True
    return False


@dataclass(frozen=True, slots=True)
class Right:
    """One thing that a person may do, and the commands that ask for it."""

    verb: str
    group: str
    resource: str
    namespace: str = ""
    what_for: str = ""

    def __str__(self) -> str:
        where = f" in {self.namespace}" if self.namespace else ""
        return f"{self.verb} {self.resource}{where}"


ON_ACK = (
    "on ACK a RAM user needs a role from the console's Authorizations page too, whatever RAM allows"
)
"""Cause of a refusal that RAM's own policies don't explain (vendor's page on authorization)."""
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
"""What commands need."""


def judge_user(allowed: Mapping[Right, bool] | Unseen) -> Iterator[Finding]:
    """What whoever asks may not do."""
    about = "your rights"
    if isinstance(allowed, Unseen):
        yield skip(about, allowed)
        return
    missing = [right for right in allowed if not allowed[right]]
    for what_for in dict.fromkeys(right.what_for for right in missing):
        listed = ", ".join(str(right) for right in missing if right.what_for == what_for)
        told = f"you may not {listed}: {what_for} can't be used in full"
        remedy = f"ask an administrator, or use a snapshot; {ON_ACK}"
        yield find(Code.YOUR_RIGHTS_MISSING, about, told, remedy)
    if not missing:
        yield find(Code.YOUR_RIGHTS, about, "you may do all that commands ask for")
