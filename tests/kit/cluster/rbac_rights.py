"""Lists the rights of the chart's Roles, and those that were used, by the audit log."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import product

from tests.kit.cluster.audit_log import Call
from tests.kit.values.manifests import Json

_ROLES = ("ClusterRole", "Role")
_BINDINGS = ("ClusterRoleBinding", "RoleBinding")


@dataclass(frozen=True, slots=True)
class Right:
    """A right of a Role: a verb on a resource."""

    role: str
    verb: str
    group: str
    resource: str
    namespace: str
    """Namespace; empty for all namespaces."""
    name: str
    """Name of the object; empty for all objects."""
    users: frozenset[str]
    """Users to whom the Role is bound."""

    def __str__(self) -> str:
        """Describe the right in a line that differs for each right."""
        resource = f"{self.resource}.{self.group}" if self.group else self.resource
        where = f" in {self.namespace}" if self.namespace else ""
        return f"{self.role}{where}: {self.verb} {resource} {self.name}".rstrip()

    def covers(self, call: Call) -> bool:
        """Tell whether the API server needed this right, or an equivalent one, for a call."""
        return (
            call.user in self.users
            and (call.verb, call.group, call.resource) == (self.verb, self.group, self.resource)
            and self.namespace in ("", call.namespace)
            and self.name in ("", call.name)
        )


def list_rights(objects: Iterable[Json]) -> Iterator[Right]:
    """List the rights of the bound Roles among the chart's objects. Raises KeyError for a Role
    without a binding."""
    objects = list(objects)
    users = {
        (each["roleRef"]["kind"], _namespace(each), each["roleRef"]["name"]): frozenset(
            f"system:serviceaccount:{subject['namespace']}:{subject['name']}"
            for subject in each["subjects"]
        )
        for each in objects
        if each["kind"] in _BINDINGS
    }
    for role in objects:
        if role["kind"] not in _ROLES:
            continue
        kind, namespace, name = role["kind"], _namespace(role), role["metadata"]["name"]
        for rule in role["rules"]:
            for group, resource, verb, only in product(
                rule["apiGroups"], rule["resources"], rule["verbs"], rule.get("resourceNames", [""])
            ):
                yield Right(
                    role=f"{kind} {name}",
                    verb=verb,
                    group=group,
                    resource=resource,
                    namespace=namespace,
                    name=only,
                    users=users[kind, namespace, name],
                )


def find_used(rights: Iterable[Right], calls: Iterable[Call]) -> set[Right]:
    unused, used = set(rights), set()
    # Many calls are alike.
    distinct = {
        (c.user, c.verb, c.group, c.resource, c.namespace, c.name): c for c in calls if c.is_ours
    }
    for call in distinct.values():
        covering = {right for right in unused if right.covers(call)}
        used |= covering
        unused -= covering
    return used


def _namespace(item: Json) -> str:
    namespace: str = item["metadata"].get("namespace", "")
    return namespace
