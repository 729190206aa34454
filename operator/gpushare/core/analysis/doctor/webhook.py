"""The webhook: who is trusted, who listens, and whether it answers."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum, auto
from typing import Any

from gpushare.core.analysis.doctor.webhook_configuration import ABOUT
from gpushare.core.analysis.finding import Code, Finding, Unseen, find, skip

SOON = timedelta(days=14)
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
            yield find(Code.CERTIFICATE_UNTRUSTED, ABOUT, told, _BUNDLE_REMEDY)
            continue
        last = max(living)
        told = f"the CA of its caBundle is valid for {(last - now).days} days more"
        if last - now < SOON:
            yield find(Code.CERTIFICATE_EXPIRING, ABOUT, told, _BUNDLE_REMEDY)
        else:
            yield find(Code.CERTIFICATE_TRUSTED, ABOUT, told)


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


def judge_trials(
    trials: Trials | Unseen, configuration: Json | Unseen | None, namespace: str
) -> Iterator[Finding]:
    """Whether the webhook of this `configuration` answered about what `namespace` was to get."""
    about = f"namespace {namespace}"
    if isinstance(trials, Unseen):
        yield skip(f"trials in {about}", trials)
        return
    for kind, tried, silence in (
        ("pod", trials.pod, Code.WEBHOOK_SILENT),
        ("Deployment", trials.workload, Code.WORKLOADS_UNWARNED),
    ):
        said = f": {tried.message}" if isinstance(tried, Tried) and tried.message else ""
        match tried:
            case Unseen():
                yield skip(f"trial {kind} in {about}", tried)
            case Tried(Trial.ANSWERED):
                told = f"the webhook answered about a {kind} that asks for GPU memory (dry run)"
                yield find(Code.WEBHOOK_ANSWERS, about, told)
            case Tried(Trial.SILENT, "") if isinstance(configuration, Unseen):
                why = "nobody decided on it, and whether there is a webhook may not be read"
                yield skip(f"trial {kind} in {about}", Unseen(why))
            case Tried(Trial.SILENT):
                told = f"a {kind} that asks for GPU memory comes back without the webhook's answer"
                yield find(silence, about, f"{told}{said}", _SILENCE_REMEDY)
            case Tried(Trial.REFUSED):
                told = f"the trial {kind} was refused before anybody could tell{said}"
                yield find(Code.TRIAL_REFUSED, about, told, _OTHER_NAMESPACE)
