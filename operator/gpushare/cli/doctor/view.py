"""`gpushare doctor`: one page of findings about the operator, the plugins and the pools."""

import asyncio
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from gpushare import __version__, names
from gpushare.api.crd import build_crd
from gpushare.api.pruned.cluster import Cluster, Kind
from gpushare.cli.cluster.access import Access, check_namespace
from gpushare.cli.cluster.snapshot import observe_cluster
from gpushare.cli.exit_codes import CommandError, Exit
from gpushare.cli.output.answer import Answer, Line, Styled, lay_out
from gpushare.core.analysis.doctor.report import (
    Installation,
    build_page,
    judge_installation,
    judge_machines,
    judge_setup,
)
from gpushare.core.analysis.doctor.rights import YOURS, judge_user
from gpushare.core.analysis.doctor.webhook import Bundle, judge_trials
from gpushare.core.analysis.effective_settings import read_setup
from gpushare.core.analysis.finding import Finding, Severity, Unseen

Json = dict[str, Any]

_STYLES = {
    Severity.ERROR: "bold red",
    Severity.WARNING: "yellow",
    Severity.INFO: "cyan",
    Severity.OK: "green",
}
_PARTS = [kind for kind in Kind if kind is not Kind.DEPLOYMENTS]
"""The others are read with the installation."""
_NOT_KEPT = Unseen("a snapshot holds nothing of it")


def examine(access: Access, namespace: str, operator_namespace: str | None) -> list[Finding]:
    """What is found, the worst first.

    `namespace` is where a pod is created for trial, and `operator_namespace` where the operator
    is; None: found out.
    """
    if access.snapshot is not None:
        cluster = access.read(*Kind)
        seen = observe_cluster(cluster)
        return build_page(
            judge_installation(_NOT_KEPT, crd={}, version=__version__, now=cluster.taken_at),
            [judge_setup(seen.known)],
            judge_machines(seen, {}, cluster.taken_at),
            judge_user(_NOT_KEPT),
            judge_trials(_NOT_KEPT, None, namespace),
        )
    return asyncio.run(_examine_live(access, namespace, operator_namespace))


async def _examine_live(
    access: Access, namespace: str, operator_namespace: str | None
) -> list[Finding]:
    from gpushare.kube.resources.deployments import list_deployments
    from gpushare.kube.resources.dry_runs import ask_for_rights, try_webhook
    from gpushare.kube.resources.installation import read_installation

    async with await access.connect() as api:
        now = datetime.now(UTC)
        deployments = await list_deployments(api, operator_namespace)
        installation = await read_installation(api, deployments, operator_namespace)
        cluster, unseen = await _read_parts(api, now)
        if Kind.NAMESPACES not in unseen:
            check_namespace(cluster, namespace)
            check_namespace(cluster, operator_namespace)
        if operator_namespace is not None and not installation.is_inhabited:
            found = await read_installation(api, deployments, None)
            if found.is_inhabited and found.namespace != operator_namespace:
                raise CommandError(
                    Exit.NOT_FOUND,
                    f"there is no installation in namespace {operator_namespace}; "
                    f"there is one in {found.namespace}",
                )
        allowed = await ask_for_rights(api, YOURS)
        tried: list[Finding] = []
        if configuration := installation.configuration:
            exempt = {names.EXEMPT_NAMESPACE, installation.namespace}
            trials = await try_webhook(api, namespace, exempt)
            tried += judge_trials(trials, configuration, namespace)
    seen = observe_cluster(cluster)
    seen = replace(seen, known=read_setup(installation.variables, seen.snapshot))
    return build_page(
        judge_installation(
            installation, _read_bundles(installation), crd=build_crd(), version=__version__, now=now
        ),
        [judge_setup(seen.known)],
        judge_machines(seen, unseen, now),
        judge_user(allowed),
        tried,
    )


async def _read_parts(api: Any, now: datetime) -> tuple[Cluster, dict[str, Unseen]]:
    """The kinds that one may read, and why not the others."""
    from gpushare.kube.partial_read import see
    from gpushare.kube.resources.clusters import read_cluster

    cluster, unseen = Cluster(now), {}
    for kind in _PARTS:
        found = await see(read_cluster(api, (kind,), now))
        if isinstance(found, Unseen):
            unseen[str(kind)] = found
        elif kind in found.unread:
            unseen[str(kind)] = Unseen(found.unread[kind])
        else:
            cluster = replace(cluster, **{str(kind): getattr(found, kind)})
    return cluster, unseen


def _read_bundles(installation: Installation) -> tuple[Bundle, ...]:
    """What the API server trusts when it calls each webhook."""
    from gpushare.certs.identity import load_certificates
    from gpushare.kube.resources.webhook_configurations import list_ca_bundles

    if not isinstance(installation.configuration, dict):
        return ()
    return tuple(
        Bundle(bool(pem), tuple(each.not_valid_after_utc for each in load_certificates(pem)))
        for pem in list_ca_bundles(installation.configuration)
    )


def build_answer(findings: Sequence[Finding]) -> Answer:
    """The findings, as data and for people."""
    counts = Counter(finding.severity for finding in findings)
    return Answer(
        document={
            "findings": [_describe(finding) for finding in findings],
            "counts": {str(severity): counts[severity] for severity in reversed(Severity)},
        },
        build=lambda wide: (_build_wide if wide else _build_table)(findings, counts),
        exit_code=Exit.ERRORS_FOUND if counts[Severity.ERROR] else Exit.OK,
    )


def _describe(finding: Finding) -> Json:
    return {
        "severity": str(finding.severity),
        "code": str(finding.code),
        "object": finding.object,
        "message": finding.message,
        "remedy": finding.remedy,
    }


def _build_table(findings: Sequence[Finding], counts: Counter[Severity]) -> Iterator[Line]:
    """One line each, and below what is wrong what to do."""
    rows = [(_show(each), str(each.code), each.object, each.message) for each in findings]
    header, *lines = lay_out(("SEVERITY", "CODE", "OBJECT", "FINDING"), rows)
    yield header
    for finding, line in zip(findings, lines, strict=True):
        yield line
        if finding.remedy and finding.severity in (Severity.WARNING, Severity.ERROR):
            yield ("  to do: ", finding.remedy)
    yield from _sum_up(counts)


def _build_wide(findings: Sequence[Finding], counts: Counter[Severity]) -> Iterator[Line]:
    rows = [
        (_show(each), str(each.code), each.object, each.message, each.remedy or "-")
        for each in findings
    ]
    yield from lay_out(("SEVERITY", "CODE", "OBJECT", "FINDING", "TO DO"), rows)
    yield from _sum_up(counts)


def _show(finding: Finding) -> Styled:
    return Styled(str(finding.severity), _STYLES[finding.severity])


def _sum_up(counts: Counter[Severity]) -> Iterator[Line]:
    yield ()
    told = (f"{counts[severity]} {severity}" for severity in reversed(Severity))
    yield (", ".join(told),)
