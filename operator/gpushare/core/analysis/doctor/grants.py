"""The rights that this version's accounts need: those of the chart, which a test holds it to."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from gpushare import names
from gpushare.api.variables import Variable

CONTROLLER, WEBHOOK = "gpushare-controller", "gpushare-webhook"
"""Accounts, and roles."""
_ADMISSION = "admissionregistration.k8s.io"
_CONFIGURATIONS = "mutatingwebhookconfigurations"


class Scope(StrEnum):
    """Where a role holds."""

    CLUSTER = "cluster"
    INSTALLATION = "installation"
    PLUGINS = "plugins"
    TEARDOWN = "teardown"
    EXTENDER = "extender"


@dataclass(frozen=True, slots=True)
class Need:
    """Verbs on one resource."""

    group: str
    resource: str
    verbs: tuple[str, ...]
    name: str = ""
    """Of the one object that they are about; empty for all."""


@dataclass(frozen=True, slots=True)
class Grant:
    """A role, the account that has it, and what it must hold."""

    role: str
    scope: Scope
    account: str
    needs: tuple[Need, ...]


def list_grants(settings: Mapping[str, str | None]) -> tuple[Grant, ...]:
    """What an installation with these settings needs; without any, the least.

    `settings` are the variables of its containers.
    """
    pools = names.PLURAL
    may_evict = settings.get(Variable.ALLOW_EVICTION) == "true"
    evicts = (Need("", "pods/eviction", ("create",)),) if may_evict else ()
    certificates = settings.get(Variable.CERTIFICATE_MODE)
    issues = certificates == "self"
    makes = (Need("", "secrets", ("create",)),) if issues else ()
    writes = ("get", "patch") if certificates in ("self", "provided") else ("get",)
    grants = (
        Grant(
            CONTROLLER,
            Scope.CLUSTER,
            CONTROLLER,
            (
                Need(names.GROUP, pools, ("get", "list", "watch", "patch")),
                Need(names.GROUP, f"{pools}/status", ("patch",)),
                Need("", "nodes", ("get", "list", "watch", "patch")),
                Need("", "pods", ("list", "watch")),
                Need("", "namespaces", ("list", "watch")),
                *evicts,
                Need("events.k8s.io", "events", ("create", "patch")),
            ),
        ),
        Grant(
            "gpushare-device-plugins",
            Scope.PLUGINS,
            CONTROLLER,
            (Need("", "pods", ("delete",)), Need("apps", "daemonsets", ("list", "watch"))),
        ),
        Grant(
            "gpushare-unhealthy-cards",
            Scope.EXTENDER,
            CONTROLLER,
            (Need("", "configmaps", ("list", "watch")),),
        ),
        Grant(
            CONTROLLER,
            Scope.INSTALLATION,
            CONTROLLER,
            (
                Need("coordination.k8s.io", "leases", ("create",)),
                Need("coordination.k8s.io", "leases", ("get", "update"), CONTROLLER),
            ),
        ),
        Grant(
            WEBHOOK,
            Scope.CLUSTER,
            WEBHOOK,
            (
                Need(names.GROUP, pools, ("list", "watch")),
                Need("", "namespaces", ("list", "watch")),
                Need(_ADMISSION, _CONFIGURATIONS, writes, WEBHOOK),
            ),
        ),
        Grant(
            WEBHOOK,
            Scope.INSTALLATION,
            WEBHOOK,
            (
                *makes,
                Need(
                    "", "secrets", ("get", "update") if issues else ("get",), "gpushare-webhook-tls"
                ),
            ),
        ),
    )
    if settings.get(Variable.ALLOW_TEARDOWN_JOBS) != "true":
        return grants
    jobs = Need("batch", "jobs", ("get", "list", "watch", "create"))
    return (*grants, Grant("gpushare-teardown", Scope.TEARDOWN, CONTROLLER, (jobs,)))
