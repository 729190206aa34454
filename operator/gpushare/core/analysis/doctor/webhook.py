"""The webhook: its configuration, who is trusted, who listens, and whether it answers."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum, auto
from typing import Any

from gpushare import names
from gpushare.core.analysis.doctor.finding import Code, Finding, Unseen, find, skip
from gpushare.core.analysis.doctor.webhook_calls import find_call_changes, find_disagreements
from gpushare.core.analysis.doctor.webhook_names import NAME, OTHER_PODS, PODS, WORKLOADS

SOON = timedelta(days=14)
_ABOUT = f"webhook configuration {NAME}"
_REMEDY = "run helm upgrade with the release's values: the chart writes it anew"
_BUNDLE_REMEDY = (
    "with webhook.certificate.mode self or cert-manager it is written within minutes: see the "
    "webhook's log; else set webhook.caBundle (docs/certificates.md)"
)
_SILENCE_REMEDY = (
    "see that webhooks run, that the caBundle is the CA of what they serve (docs/certificates.md), "
    "that no network policy is between them and the API server, and what the API server's log says "
    "of failed calls"
)
_OTHER_NAMESPACE = "try another namespace with -n"
_HOST = "kubernetes.io/metadata.name"
_WEBHOOKS = frozenset({PODS, OTHER_PODS, WORKLOADS})
Json = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Bundle:
    """The CAs that one or more webhooks of the configuration trust."""

    is_set: bool
    expiries: tuple[datetime, ...] = ()
    """Of each certificate in it; none where it can't be read."""


class Trial(Enum):
    """What became of an object that was created for trial."""

    ANSWERED = auto()
    SILENT = auto()
    REFUSED = auto()


@dataclass(frozen=True, slots=True)
class Tried:
    """That, and what the API server said to it."""

    outcome: Trial
    message: str = ""


def judge_configuration(found: Json | Unseen | None, namespace: str) -> Iterator[Finding]:
    """The MutatingWebhookConfiguration (None: it is not there) against the chart's."""
    if isinstance(found, Unseen):
        yield skip(_ABOUT, found)
        return
    webhooks = {each["name"]: each for each in (found or {}).get("webhooks") or ()}
    missing = sorted(_WEBHOOKS - webhooks.keys())
    if missing:
        told = "it is not in the cluster" if found is None else f"it lacks {', '.join(missing)}"
        yield find(Code.WEBHOOK_MISSING, _ABOUT, told, _REMEDY)
        if found is None:
            return
    changes = [
        f"{name}: {told}"
        for name, webhook in sorted(webhooks.items())
        if name in _WEBHOOKS
        for told in _find_changes(webhook, webhooks, namespace)
    ]
    ours = [each for name, each in webhooks.items() if name in _WEBHOOKS]
    changes += find_disagreements(ours, namespace)
    for told in changes:
        yield find(Code.WEBHOOK_CHANGED, _ABOUT, told, _REMEDY)
    if not (missing or changes):
        told = f"its {len(webhooks)} webhooks are as the chart makes them, whatever its values"
        yield find(Code.WEBHOOK_CONFIGURED, _ABOUT, told)


def _find_changes(webhook: Json, webhooks: Mapping[str, Json], namespace: str) -> Iterator[str]:
    name = webhook["name"]
    policy = webhook.get("failurePolicy")
    if name == WORKLOADS and policy != "Ignore":
        yield f"failurePolicy is {policy}, and Ignore was expected"
    if name == OTHER_PODS and policy == (webhooks.get(PODS) or {}).get("failurePolicy"):
        yield f"failurePolicy is {policy}, as that of {PODS}: one of each was expected"
    if webhook.get("sideEffects") != "None":
        yield f"sideEffects is {webhook.get('sideEffects')}, and None was expected"
    if any((webhook.get("objectSelector") or {}).values()):
        yield "it has an objectSelector, and none was expected: other pods are not routed"
    selector = webhook.get("namespaceSelector") or {}
    if (told := _find_selector_change(selector, name, webhooks, namespace)) is not None:
        yield f"its namespaceSelector {told}"
    yield from find_call_changes(webhook, namespace)


def _find_selector_change(
    selector: Json, name: str, webhooks: Mapping[str, Json], namespace: str
) -> str | None:
    if selector.get("matchLabels"):
        return "has matchLabels, and none were expected: other namespaces are left out"
    found = {
        (each["key"], each["operator"]): frozenset(each.get("values") or ())
        for each in selector.get("matchExpressions") or ()
    }
    exempt = found.pop((_HOST, "NotIn"), frozenset())
    # Besides these two only the namespace of teardowns' Jobs, which has any name.
    if lacking := sorted({names.EXEMPT_NAMESPACE, namespace} - exempt):
        return f"does not exempt {' and '.join(lacking)}: they must start without a webhook"
    if len(exempt) > 3:
        return f"exempts {len(exempt)} namespaces: pods in those are not routed"
    wanted = {(names.LABEL_INJECT, "NotIn"): frozenset({names.INJECT_DISABLED})}
    if name != WORKLOADS:
        other = (webhooks.get(PODS) or {}).get("failurePolicy") == "Ignore"
        policy = names.FAILURE_POLICY_FAIL if other else names.FAILURE_POLICY_IGNORE
        operator = "NotIn" if name == PODS else "In"
        wanted[names.LABEL_FAILURE_POLICY, operator] = frozenset({policy})
    if found != wanted:
        shown = sorted({key for key, _ in found.keys() ^ wanted.keys()} or {k for k, _ in wanted})
        return f"is not the chart's ({', '.join(shown)})"
    return None


def judge_bundles(bundles: tuple[Bundle, ...], now: datetime) -> Iterator[Finding]:
    """The CAs by which the API server knows the webhook."""
    for bundle in bundles:
        living = [expiry for expiry in bundle.expiries if expiry > now]
        if not living:
            told = (
                "its caBundle is empty"
                if not bundle.is_set
                else "its caBundle holds no certificate that can be read"
                if not bundle.expiries
                else f"the last CA of its caBundle expired at {max(bundle.expiries).isoformat()}"
            )
            yield find(Code.CERTIFICATE_UNTRUSTED, _ABOUT, told, _BUNDLE_REMEDY)
            continue
        last = max(living)
        told = f"the CA of its caBundle is valid for {(last - now).days} days more"
        if last - now < SOON:
            yield find(Code.CERTIFICATE_EXPIRING, _ABOUT, told, _BUNDLE_REMEDY)
        else:
            yield find(Code.CERTIFICATE_TRUSTED, _ABOUT, told)


def judge_endpoints(ready: int | Unseen, service: str) -> Finding:
    """How many endpoints of `service` are ready."""
    about = f"service {service}"
    if isinstance(ready, Unseen):
        return skip(about, ready)
    namespace, _, _ = service.partition("/")
    if not ready:
        remedy = f"see why no webhook is ready: kubectl -n {namespace} get pods, and their logs"
        return find(Code.WEBHOOK_WITHOUT_ENDPOINTS, about, "none of its endpoints is ready", remedy)
    return find(Code.WEBHOOK_SERVED, about, f"{ready} endpoints are ready")


@dataclass(frozen=True, slots=True)
class Trials:
    """What became of what was created for trial; nothing of it is stored."""

    pod: Tried | Unseen
    workload: Tried | Unseen
    """A Deployment of such pods."""


def _doubt(tried: Tried | Unseen, configuration: Json | Unseen | None) -> Tried | Unseen:
    """`tried`; but a silence is none where nobody may see whether there is a webhook."""
    silent = isinstance(tried, Tried) and tried.outcome is Trial.SILENT and not tried.message
    if silent and isinstance(configuration, Unseen):
        return Unseen("nobody decided on it, and whether there is a webhook may not be read")
    return tried


def judge_trials(
    trials: Trials | Unseen, configuration: Json | Unseen | None, namespace: str
) -> Iterator[Finding]:
    """Whether the webhook of this `configuration` answered about what `namespace` was to get."""
    about = f"namespace {namespace}"
    if isinstance(trials, Unseen):
        yield skip(f"trials in {about}", trials)
        return
    yield _judge(_doubt(trials.pod, configuration), _POD, about)
    yield _judge(_doubt(trials.workload, configuration), _WORKLOAD, about)


@dataclass(frozen=True, slots=True)
class _Tale:
    """How to tell what became of a kind of object."""

    kind: str
    answered: str
    silent: str
    silence: Code


_POD = _Tale(
    "pod",
    "a pod that asks for GPU memory was decided on by the webhook (dry run)",
    "a pod that asks for GPU memory comes back without the webhook's decision",
    Code.WEBHOOK_SILENT,
)
_WORKLOAD = _Tale(
    "Deployment",
    "who applies a Deployment of such pods is told by the webhook of them (dry run)",
    "a Deployment of such pods comes back without the webhook's warning",
    Code.WORKLOADS_UNWARNED,
)


def _judge(tried: Tried | Unseen, tale: _Tale, about: str) -> Finding:
    if isinstance(tried, Unseen):
        return skip(f"trial {tale.kind} in {about}", tried)
    said = f": {tried.message}" if tried.message else ""
    match tried.outcome:
        case Trial.ANSWERED:
            return find(Code.WEBHOOK_ANSWERS, about, tale.answered)
        case Trial.SILENT:
            return find(tale.silence, about, f"{tale.silent}{said}", _SILENCE_REMEDY)
        case Trial.REFUSED:
            told = f"the trial {tale.kind} was refused before anybody could tell{said}"
            return find(Code.TRIAL_REFUSED, about, told, _OTHER_NAMESPACE)
