"""Builds the answer of `gpushare doctor`: findings about the operator, plugins and pools."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from datetime import UTC, datetime
from typing import Any

from gpushare import __version__, names
from gpushare.analysis.doctor.admission_policy import judge_admission_policy
from gpushare.analysis.doctor.report import (
    Installation,
    judge_installation,
    judge_machines,
    judge_setup,
    sort_findings,
)
from gpushare.analysis.doctor.rights import YOURS, judge_user
from gpushare.analysis.doctor.webhook import judge_trials
from gpushare.analysis.effective_settings import read_setup
from gpushare.analysis.finding import Finding, Severity, Unseen, skip
from gpushare.analysis.kueue.objects import KueueObjects
from gpushare.analysis.observed_cluster import ObservedCluster
from gpushare.api.crd import build_crd
from gpushare.api.pruned.cluster import STATE_KINDS, Cluster, Kind
from gpushare.cli.cluster.access import Access, check_namespace, run_coroutine
from gpushare.cli.cluster.snapshot import observe_cluster
from gpushare.cli.exit_codes import CommandError, Exit
from gpushare.cli.output.answer import Answer, Line, Styled, lay_out
from gpushare.settings import Variable

Json = dict[str, Any]

_STYLES = {
    Severity.ERROR: "bold red",
    Severity.WARNING: "yellow",
    Severity.INFO: "cyan",
    Severity.OK: "green",
}
_PARTS = [kind for kind in STATE_KINDS if kind is not Kind.DEPLOYMENTS]
"""The others are read with the installation."""
_NOT_KEPT = Unseen("A snapshot does not contain it")


def examine(access: Access, namespace: str, operator_namespace: str | None) -> list[Finding]:
    """Find what is wrong, the worst first.

    In `namespace` a pod is created as a dry run; the operator is in `operator_namespace`, which is
    searched for where it is None.
    """
    if access.snapshot is not None:
        cluster = access.read(*STATE_KINDS)
        unseen: dict[str, Unseen] = {}
        kueue: KueueObjects | Unseen | None = None
        seen, now = observe_cluster(cluster), cluster.taken_at
        found = [
            skip(
                "installation", _NOT_KEPT, "Run the command against the cluster, without --snapshot"
            ),
            skip("your rights", _NOT_KEPT),
            skip(f"dry runs in namespace {namespace}", _NOT_KEPT),
        ]
    else:
        now = datetime.now(UTC)
        found, seen, unseen, kueue = run_coroutine(
            _read_live(access, namespace, operator_namespace, now)
        )
    judged = judge_machines(seen, unseen, now, kueue)
    return sort_findings([*found, judge_setup(seen.known), *judged])


async def _read_live(
    access: Access, namespace: str, operator_namespace: str | None, now: datetime
) -> tuple[list[Finding], ObservedCluster, dict[str, Unseen], KueueObjects | Unseen | None]:
    """Return findings on installation and rights, the cluster, why parts of it are not read, and
    the objects of Kueue."""
    from gpushare.cli.cluster.deployments import list_deployments
    from gpushare.cli.doctor.admission_policy import read_admission_policy
    from gpushare.cli.doctor.dry_runs import ask_for_rights, try_webhook
    from gpushare.cli.doctor.installation import read_installation
    from gpushare.cli.doctor.kueue import read_kueue

    async with await access.connect() as api:
        deployments = await list_deployments(api, operator_namespace)
        installation = await read_installation(api, deployments, operator_namespace)
        cluster, unseen = await _read_parts(api, now)
        if Kind.NAMESPACES not in unseen:
            check_namespace(cluster, namespace)
            check_namespace(cluster, operator_namespace)
        if operator_namespace is not None and not installation.is_inhabited:
            other = await read_installation(api, deployments, None)
            if other.is_inhabited and other.namespace != operator_namespace:
                raise CommandError(
                    Exit.NOT_FOUND,
                    f"no installation found in namespace {operator_namespace}, but in namespace "
                    f"{other.namespace}",
                )
        # Without all pools nothing can be said of its flavors.
        kueue = None if Kind.POOLS in unseen else await read_kueue(api, cluster.namespaces)
        bundles = _read_bundles(installation)
        found = list(judge_installation(installation, bundles, build_crd(), __version__, now))
        if installation.is_inhabited:
            is_wanted = installation.settings.get(Variable.ADMISSION_TABLE) == "true"
            found += judge_admission_policy(await read_admission_policy(api, is_wanted=is_wanted))
        found += judge_user(await ask_for_rights(api, YOURS))
        if configuration := installation.configuration:
            exempt = {names.EXEMPT_NAMESPACE, installation.namespace}
            trials = await try_webhook(api, namespace, exempt)
            found += judge_trials(trials, configuration, namespace, installation.namespace)
    known = None if isinstance(deployments, Unseen) else deployments
    seen = observe_cluster(replace(cluster, deployments=known))
    seen = replace(seen, known=read_setup(installation.variables, seen.snapshot))
    return found, seen, unseen, kueue


async def _read_parts(api: Any, now: datetime) -> tuple[Cluster, dict[str, Unseen]]:
    """Read the kinds that the user may read, and tell why not the others."""
    from gpushare.cli.cluster.objects import read_cluster
    from gpushare.cli.cluster.partial_read import see

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


def _read_bundles(installation: Installation) -> list[list[datetime] | None]:
    """Return for each webhook when the CAs expire that the API server trusts; None where it trusts
    none."""
    from gpushare.certs.identity import load_certificates
    from gpushare.kube.resources.webhook_configurations import list_ca_bundles

    if not isinstance(installation.configuration, dict):
        return []
    return [
        [each.not_valid_after_utc for each in load_certificates(bundle)] if bundle else None
        for bundle in list_ca_bundles(installation.configuration)
    ]


def build_answer(findings: Sequence[Finding]) -> Answer:
    """Build the answer from the findings."""
    counts = Counter(finding.severity for finding in findings)
    return Answer(
        document={
            "findings": [_describe(finding) for finding in findings],
            "counts": {str(severity): counts[severity] for severity in reversed(Severity)},
        },
        build_page=_build_page,
        exit_code=Exit.ERRORS_FOUND if counts[Severity.ERROR] else Exit.OK,
    )


def _describe(finding: Finding) -> Json:
    return {field: str(value) for field, value in asdict(finding).items()}


def _build_page(document: Json, wide: bool) -> Iterator[Line]:
    """Build a line for each finding, with what to do below it, or beside it where it is `wide`."""
    findings = document["findings"]
    header = ["SEVERITY", "CODE", "OBJECT", "FINDING"]
    rows: list[Line] = []
    for finding in findings:
        severity = Styled(finding["severity"], _STYLES[finding["severity"]])
        row = (severity, finding["code"], finding["object"], finding["message"])
        rows.append((*row, finding["remedy"] or "-") if wide else row)
    title, *lines = lay_out([*header, "TO DO"] if wide else header, rows)
    yield title
    for finding, line in zip(findings, lines, strict=True):
        yield line
        is_wrong = finding["severity"] in (Severity.WARNING, Severity.ERROR)
        if is_wrong and finding["remedy"] and not wide:
            yield ("  to do: ", finding["remedy"])
    yield ()
    yield (", ".join(f"{count} {severity}" for severity, count in document["counts"].items()),)
