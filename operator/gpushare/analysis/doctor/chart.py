"""Reads the chart's roles and webhooks from chart.json (`make chart-objects`).

It is rendered once, with all that gives an account rights. What an installation's settings do
without is left out here.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from pkgutil import get_data
from typing import Any

import orjson

from gpushare import names
from gpushare.settings import Variable

CONTROLLER, WEBHOOK = "gpushare-controller", "gpushare-webhook"
"""Accounts; roles, the Lease, and the webhook's configuration and Service are called so, too."""
PODS, OTHER_PODS, WORKLOADS, OTHER_WORKLOADS = (
    "pods.gpushare.io",
    "pods-of-the-other-policy.gpushare.io",
    "workloads.gpushare.io",
    "other-workloads.gpushare.io",
)
"""The webhooks."""
TEARDOWN_NAMESPACE = "gpushare-teardown"
_NAMESPACE, _PLUGIN_NAMESPACE = "gpushare-system", "gpushare-plugins"
"""Namespaces in chart.json of the operator and of the device plugins."""
_API_SERVERS_DEFAULTS = {"objectSelector": {}, "reinvocationPolicy": "Never"}
"""Fields that the API server sets in webhooks, because the chart does not."""
Json = Mapping[str, Any]
Settings = Mapping[str, str | None]
"""The variables of an installation's containers."""


@dataclass(frozen=True, slots=True)
class Need:
    """Verbs that a role needs on one resource."""

    group: str
    resource: str
    verbs: tuple[str, ...]
    name: str = ""
    """Name of the only object that the rule is about; empty for all."""


@dataclass(frozen=True, slots=True)
class Role:
    """A role, the account that has it, and what it must hold."""

    name: str
    namespace: str
    """Empty for a ClusterRole."""
    account: str
    needs: tuple[Need, ...]

    def __str__(self) -> str:
        kind = f"role {self.namespace}/" if self.namespace else "clusterrole "
        return f"{kind}{self.name}"


def _load() -> list[Json]:
    found: list[Json] = orjson.loads(get_data(__name__, "chart.json") or b"")
    return found


def list_roles(namespace: str, settings: Settings) -> tuple[Role, ...]:
    """Return the roles that an installation in `namespace` with these settings needs; without
    settings, the fewest."""
    places = {
        _NAMESPACE: namespace,
        _PLUGIN_NAMESPACE: settings.get(Variable.PLUGIN_NAMESPACE) or names.PLUGIN_NAMESPACE,
        TEARDOWN_NAMESPACE: settings.get(Variable.TEARDOWN_NAMESPACE) or TEARDOWN_NAMESPACE,
    }
    roles = []
    for found in _load():
        needs = [need for rule in found.get("rules", ()) for need in _read_needs(rule, settings)]
        if needs and (found["metadata"]["name"] != WEBHOOK or runs_webhook(settings)):
            name, place = found["metadata"]["name"], found["metadata"].get("namespace", "")
            account = WEBHOOK if name == WEBHOOK else CONTROLLER
            roles.append(Role(name, places.get(place, place), account, tuple(needs)))
    return tuple(roles)


def runs_webhook(settings: Settings) -> bool:
    """Tell whether an installation with these settings runs a webhook: no other process is told
    who gives the certificate. Without any settings it may be elsewhere."""
    return not settings or Variable.CERTIFICATE_MODE in settings


def _read_needs(rule: Json, settings: Settings) -> Iterator[Need]:
    for group, resource, name in product(
        rule["apiGroups"], rule["resources"], rule.get("resourceNames", [""])
    ):
        verbs = tuple(verb for verb in rule["verbs"] if _is_needed(resource, verb, settings))
        if verbs:
            yield Need(group, resource, verbs, name)


def _is_needed(resource: str, verb: str, settings: Settings) -> bool:
    """Tell whether the chart grants this right with these settings."""
    certificates = settings.get(Variable.CERTIFICATE_MODE)
    match resource, verb:
        case "pods/eviction", _:
            return settings.get(Variable.ALLOW_EVICTION) == "true"
        case names.TABLE_PLURAL, _:
            return settings.get(Variable.ADMISSION_TABLE) == "true"
        case "jobs", _:
            return settings.get(Variable.ALLOW_TEARDOWN_JOBS) == "true"
        case "secrets", "create" | "update":
            return certificates == "self"
        case "mutatingwebhookconfigurations", "patch":
            return certificates in ("self", "provided")
    return True


def read_webhooks() -> dict[str, dict[str, Any]]:
    """Return the webhooks by name, as the API server has them with the chart's default values in
    namespace `gpushare-system`."""
    (found,) = (each for each in _load() if "webhooks" in each)
    return {each["name"]: {**_API_SERVERS_DEFAULTS, **each} for each in found["webhooks"]}
