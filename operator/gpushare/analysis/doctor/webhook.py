"""Checks the webhook: its configuration against the chart's, whatever its values; its CA, its
endpoints, and whether it answers."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum, auto
from typing import Any

from gpushare import names
from gpushare.analysis.doctor.chart import (
    OTHER_PODS,
    OTHER_WORKLOADS,
    PODS,
    WEBHOOK,
    read_webhooks,
)
from gpushare.analysis.doctor.differences import find_differences
from gpushare.analysis.finding import Finding, FindingCode, Severity, Unseen, report, skip
from gpushare.api.field_managers import find_owners

ABOUT = f"webhook configuration {WEBHOOK}"
_CHART_REMEDY = "Run helm upgrade with the release's values: it writes the configuration again"
_ADDED_REMEDY = (
    "It can stay. To upgrade with Helm 4, add --force-conflicts, or switch the enforcer off by "
    "webhook.annotations (docs/upgrade.md)"
)
_URL = re.compile(r"(https://[^/?#]+)/mutate-pods")
"""URL of the webhook as the chart's value webhook.url sets it."""
_NAMESPACE = "kubernetes.io/metadata.name"
_ENFORCED_KEYS = frozenset({"control-plane", "kubernetes.azure.com/managedby"})
"""Labels of AKS's own namespaces, which its admissions enforcer excludes."""
_EXCLUDING = frozenset({"NotIn", "DoesNotExist"})
SOON = timedelta(days=14)
_OTHER_NAMESPACE = "Try another namespace with -n"
Json = Mapping[str, Any]


class Trial(Enum):
    """The outcome of creating an object as a dry run."""

    ANSWERED = auto()
    SILENT = auto()
    REFUSED = auto()


@dataclass(frozen=True, slots=True)
class Tried:
    """An outcome, and the API server's message."""

    outcome: Trial
    message: str = ""


Trials = tuple[Tried | Unseen, Tried | Unseen]
"""The dry runs of a pod, and of a Deployment of such pods; nothing is stored."""


def judge_configuration(found: Json | Unseen | None, namespace: str) -> Iterator[Finding]:
    """Check the MutatingWebhookConfiguration (None: missing) of an operator in `namespace`."""
    if isinstance(found, Unseen):
        yield skip(ABOUT, found)
        return
    webhooks = {each["name"]: each for each in (found or {}).get("webhooks") or ()}
    expected = read_webhooks()
    if missing := sorted(expected.keys() - webhooks.keys()):
        told = f"Webhooks are missing from the configuration: {', '.join(missing)}"
        if found is None:
            told = "The configuration is not in the cluster"
        yield report(FindingCode.WEBHOOK_MISSING, ABOUT, told, _CHART_REMEDY)
        return
    _fill_in(expected, webhooks[PODS], namespace)
    # Of the kinds that the value webhook.workloadKinds adds or takes away.
    expected[OTHER_WORKLOADS]["rules"] = webhooks[OTHER_WORKLOADS].get("rules")
    webhooks, added = _strip_added(expected, webhooks)
    if added:
        yield report(
            FindingCode.WEBHOOK_NARROWED, ABOUT, _tell_added(added, found or {}), _ADDED_REMEDY
        )
    changes = [
        f"{name}: {difference}"
        for name, webhook in expected.items()
        for difference in find_differences(webhook, webhooks[name])
        # A newer API server may add fields, and the CA is judged by itself.
        if difference.path[0] in webhook and difference.path[-1] != "caBundle"
    ]
    for told in changes:
        yield report(FindingCode.WEBHOOK_CHANGED, ABOUT, told, _CHART_REMEDY)
    if not (changes or added):
        told = f"The {len(expected)} webhooks are as the chart writes them"
        yield report(FindingCode.WEBHOOK_CONFIGURED, ABOUT, told)


def _strip_added(
    expected: Mapping[str, Json], webhooks: Mapping[str, Json]
) -> tuple[dict[str, Json], list[str]]:
    """Return the webhooks without the expressions that AKS's admissions enforcer added to their
    namespaceSelectors, and these as text, each once. Any other, and one that is added to one of the
    webhooks alone, is a change."""
    added: dict[str, tuple[Json, ...]] = {}
    for name in expected:
        listed = (webhooks[name].get("namespaceSelector") or {}).get("matchExpressions") or ()
        added[name] = tuple(
            each
            for each in listed
            if each["key"] in _ENFORCED_KEYS and each["operator"] in _EXCLUDING
        )
    first, *others = added.values()
    if not first or any(each != first for each in others):
        return dict(webhooks), []
    stripped: dict[str, Json] = {
        name: {
            **webhook,
            "namespaceSelector": {
                **webhook["namespaceSelector"],
                "matchExpressions": [
                    each
                    for each in webhook["namespaceSelector"]["matchExpressions"]
                    if each not in first
                ],
            },
        }
        for name, webhook in webhooks.items()
        if name in expected
    }
    told = [" ".join((e["key"], e["operator"], ", ".join(e.get("values") or ()))) for e in first]
    return stripped, [each.strip() for each in told]


def _tell_added(added: Sequence[str], found: Json) -> str:
    owners = find_owners(found.get("metadata") or {}, "webhooks", "namespaceSelector")
    who = f"Field manager {', '.join(owners)}" if owners else "Another field manager"
    return (
        f"{who} added to the namespaceSelector of every webhook: {'; '.join(added)}. Pods of "
        "namespaces that this excludes are not assigned to pools"
    )


def _fill_in(webhooks: Mapping[str, dict[str, Any]], pods: Json, namespace: str) -> None:
    """Give the chart's `webhooks` the values of this installation, which the one for `pods` shows:
    one value makes all of them."""
    url = (pods.get("clientConfig") or {}).get("url")
    for name, webhook in webhooks.items():
        if name != OTHER_WORKLOADS:
            webhook["timeoutSeconds"] = pods.get("timeoutSeconds")
        service = webhook["clientConfig"]["service"]
        service["namespace"] = namespace
        if url is not None:
            origin = found[1] if (found := _URL.fullmatch(url)) else "https://HOST:PORT"
            webhook["clientConfig"] = {"url": f"{origin}{service['path']}"}
        exempt, *_ = webhook["namespaceSelector"]["matchExpressions"]
        exempt["values"] = _find_exempt(pods, namespace)
    if pods.get("failurePolicy") == "Fail":
        webhooks[PODS]["failurePolicy"], webhooks[OTHER_PODS]["failurePolicy"] = "Fail", "Ignore"
        for name in (PODS, OTHER_PODS):
            *_, policy = webhooks[name]["namespaceSelector"]["matchExpressions"]
            policy["values"] = [names.FAILURE_POLICY_IGNORE]


def _find_exempt(pods: Json, namespace: str) -> list[str]:
    """Find the exempt namespaces that the chart may leave out: its own, and that of teardowns'
    Jobs, which has any name."""
    least = [*dict.fromkeys((names.EXEMPT_NAMESPACE, namespace))]
    for each in (pods.get("namespaceSelector") or {}).get("matchExpressions") or ():
        values = each.get("values") or []
        if each["key"] == _NAMESPACE and set(least) <= set(values) and len(values) <= 3:
            return list(values)
    return least


def judge_bundles(
    bundles: Sequence[Sequence[datetime] | None], operator_namespace: str, now: datetime
) -> Iterator[Finding]:
    """Check the CAs by which the API server trusts the webhook: of each bundle their expiries, none
    where it can't be read; None for an empty one."""
    remedy = (
        "With webhook.certificate.mode self the caBundle is written within minutes. If not, "
        f"{_tell_log(operator_namespace, 'certificate')}. With cert-manager, check its cainjector. "
        "Otherwise set webhook.caBundle (docs/certificates.md)"
    )
    for expiries in bundles:
        if expiries is None:
            code, told = FindingCode.CERTIFICATE_UNTRUSTED, "The caBundle is empty"
        elif not expiries:
            code, told = (
                FindingCode.CERTIFICATE_UNTRUSTED,
                "The caBundle has no readable certificate",
            )
        elif (last := max(expiries)) <= now:
            code = FindingCode.CERTIFICATE_UNTRUSTED
            told = f"The last CA of the caBundle expired at {last.isoformat()}"
        else:
            is_soon = last - now < SOON
            code = FindingCode.CERTIFICATE_EXPIRING if is_soon else FindingCode.CERTIFICATE_TRUSTED
            told = f"The CA of the caBundle is valid for {(last - now).days} more days"
        yield report(code, ABOUT, told, "" if code.severity is Severity.OK else remedy)


def judge_endpoints(ready: int | Unseen, service: str) -> Finding:
    """Check that `service` has ready endpoints."""
    about = f"service {service}"
    if isinstance(ready, Unseen):
        return skip(about, ready)
    namespace, _, _ = service.partition("/")
    if not ready:
        remedy = (
            f"Check the webhook's pods with `kubectl -n {namespace} get pods`. If they run but are "
            f"not ready, {_tell_log(namespace, 'answers 503')} to see why"
        )
        told = "The Service has no ready endpoint"
        return report(FindingCode.WEBHOOK_WITHOUT_ENDPOINTS, about, told, remedy)
    return report(FindingCode.WEBHOOK_SERVED, about, f"Ready endpoints: {ready}")


def _tell_log(namespace: str, pattern: str) -> str:
    """Tell how to search the log of all processes of the operator in `namespace`."""
    return (
        f"run `kubectl -n {namespace} logs -l app.kubernetes.io/name=gpushare-operator --prefix "
        f"--tail=-1 | grep -iE '{pattern}'`"
    )


def judge_trials(
    trials: Trials | Unseen,
    configuration: Json | Unseen | None,
    namespace: str,
    operator_namespace: str,
) -> Iterator[Finding]:
    """Check that the webhook of this `configuration` answered the dry runs in `namespace`."""
    silence_remedy = (
        f"To see why, {_tell_log(operator_namespace, '503|certificate|interrupted')}. Check that "
        "the webhook's pods run, that the caBundle matches their certificate "
        "(docs/certificates.md), that no network policy blocks the API server, and the API "
        "server's log for failed calls"
    )
    about = f"namespace {namespace}"
    if isinstance(trials, Unseen):
        yield skip(f"dry runs in {about}", trials)
        return
    pod, workload = trials
    for kind, tried, silence in (
        ("pod", pod, FindingCode.WEBHOOK_SILENT),
        ("Deployment", workload, FindingCode.WORKLOADS_UNWARNED),
    ):
        said = f": {tried.message}" if isinstance(tried, Tried) and tried.message else ""
        what = f"{kind} that asks for GPU memory (dry run)"
        match tried:
            case Unseen():
                yield skip(f"dry run of a {kind} in {about}", tried)
            case Tried(Trial.ANSWERED):
                yield report(
                    FindingCode.WEBHOOK_ANSWERS, about, f"The webhook answers for a {what}"
                )
            case Tried(Trial.SILENT, "") if isinstance(configuration, Unseen):
                why = "No webhook answered, and you may not read whether one is configured"
                yield skip(f"dry run of a {kind} in {about}", Unseen(why))
            case Tried(Trial.SILENT):
                told = f"The webhook does not answer for a {what}{said}"
                yield report(silence, about, told, silence_remedy)
            case Tried(Trial.REFUSED):
                told = f"The {what} was refused before the webhook could answer{said}"
                yield report(FindingCode.TRIAL_REFUSED, about, told, _OTHER_NAMESPACE)
