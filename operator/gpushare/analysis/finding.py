"""A problem found in a cluster: how bad, where, and how to fix it."""

from dataclasses import dataclass
from enum import StrEnum

from gpushare.names import Reason


class Severity(StrEnum):
    """Severity of a finding."""

    OK = "ok"
    INFO = "info"
    """Worth knowing, or not checked."""
    WARNING = "warning"
    """Something is not as it should be, but pods still go where they should."""
    ERROR = "error"
    """Something does not work, or lets cards be allocated twice."""

    @property
    def rank(self) -> int:
        """Rank of the severity; a higher one is worse."""
        return tuple(Severity).index(self)


class FindingCode(StrEnum):
    """Codes of findings that are not reasons of a pool or node; docs/doctor.md has a line for each.

    Those about nodes and pools carry the reason codes that their status has.
    """

    severity: Severity

    def __new__(cls, code: str, severity: Severity) -> "FindingCode":
        member = str.__new__(cls, code)
        member._value_ = code
        member.severity = severity
        return member

    NOT_INSTALLED = "NotInstalled", Severity.INFO
    ONLY_POOLS_LEFT = "OnlyPoolsLeft", Severity.INFO
    SKIPPED = "Skipped", Severity.INFO
    OPERATOR_FOUND = "OperatorFound", Severity.OK
    NO_DEPLOYMENTS = "NoDeployments", Severity.INFO
    SETUP_READ = "SetupRead", Severity.OK
    SETUP_ASSUMED = "SetupAssumed", Severity.INFO
    REPLICAS_MISSING = "ReplicasMissing", Severity.WARNING
    OPERATOR_DOWN = "OperatorDown", Severity.ERROR
    OTHER_VERSION = "OtherVersion", Severity.WARNING
    CONTROLLER_ACTIVE = "ControllerActive", Severity.OK
    CONTROLLER_SILENT = "ControllerSilent", Severity.ERROR
    CRD_CURRENT = "CrdCurrent", Severity.OK
    CRD_MISSING = "CrdMissing", Severity.ERROR
    CRD_DIFFERS = "CrdDiffers", Severity.ERROR
    CRD_NEWER = "CrdNewer", Severity.WARNING
    WEBHOOK_CONFIGURED = "WebhookConfigured", Severity.OK
    WEBHOOK_MISSING = "WebhookMissing", Severity.ERROR
    WEBHOOK_CHANGED = "WebhookChanged", Severity.WARNING
    WEBHOOK_NARROWED = "WebhookNarrowed", Severity.INFO
    WEBHOOK_SERVED = "WebhookServed", Severity.OK
    WEBHOOK_WITHOUT_ENDPOINTS = "WebhookWithoutEndpoints", Severity.ERROR
    CERTIFICATE_TRUSTED = "CertificateTrusted", Severity.OK
    CERTIFICATE_EXPIRING = "CertificateExpiring", Severity.WARNING
    CERTIFICATE_UNTRUSTED = "CertificateUntrusted", Severity.ERROR
    WEBHOOK_ANSWERS = "WebhookAnswers", Severity.OK
    WEBHOOK_NOT_INSTALLED = "WebhookNotInstalled", Severity.OK
    WEBHOOK_SILENT = "WebhookSilent", Severity.ERROR
    WORKLOADS_UNWARNED = "WorkloadsUnwarned", Severity.WARNING
    POLICY_MISSING = "PolicyMissing", Severity.WARNING
    TABLE_MISSING = "TableMissing", Severity.WARNING
    TABLE_DIFFERS = "TableDiffers", Severity.WARNING
    TABLE_OMITS_POOLS = "TableOmitsPools", Severity.WARNING
    TABLE_CURRENT = "TableCurrent", Severity.OK
    TRIAL_REFUSED = "TrialRefused", Severity.WARNING
    RIGHTS_COMPLETE = "RightsComplete", Severity.OK
    RIGHTS_MISSING = "RightsMissing", Severity.ERROR
    YOUR_RIGHTS = "YourRights", Severity.OK
    YOUR_RIGHTS_MISSING = "YourRightsMissing", Severity.INFO
    PLUGINS_SERVE = "PluginsServe", Severity.OK
    NOTHING_SHARED = "NothingShared", Severity.INFO
    LABELLED_MANUALLY = "LabelledManually", Severity.INFO
    UNKNOWN_MODE = "UnknownMode", Severity.WARNING
    UNITS_MIXED = "UnitsMixed", Severity.ERROR
    UNIT_IS_MIB = "UnitIsMiB", Severity.INFO
    STATIC_POD = "StaticPod", Severity.INFO
    NOT_ECS = "NotEcs", Severity.WARNING
    CONTAINER_OS = "ContainerOs", Severity.INFO
    WITHOUT_CARD = "WithoutCard", Severity.WARNING
    UNREQUESTED_CARDS = "UnrequestedCards", Severity.WARNING
    ALL_DEVICES = "AllDevices", Severity.INFO
    UNKNOWN_PLUGIN = "UnknownPlugin", Severity.INFO
    PLUGINS_EVICTABLE = "PluginsEvictable", Severity.WARNING
    POOLS_AS_PLANNED = "PoolsAsPlanned", Severity.OK
    KUEUE_FITS = "KueueFits", Severity.OK
    FLAVOR_POOL_MISSING = "FlavorPoolMissing", Severity.WARNING
    FLAVOR_WITHOUT_POOL = "FlavorWithoutPool", Severity.WARNING
    POOLS_IN_TWO_GROUPS = "PoolsInTwoGroups", Severity.WARNING
    QUOTA_ABOVE_POOL = "QuotaAbovePool", Severity.WARNING
    POOL_WITHOUT_FLAVOR = "PoolWithoutFlavor", Severity.INFO


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check."""

    severity: Severity
    code: FindingCode | Reason
    object: str
    """Kind and name of the object that the finding is about."""
    message: str
    remedy: str = ""
    """Sentences that say what to do; empty where nothing is to be done."""


@dataclass(frozen=True, slots=True)
class Unseen:
    """A part that was not read."""

    why: str
    """Such as the right that is missing."""


def look_up(reason: Reason) -> str:
    """Return the remedy for a reason: the page that explains it."""
    return f"Read docs/reasons.md#{reason.lower()}"


def report(code: FindingCode, about: str, message: str, remedy: str = "") -> Finding:
    """Build a finding of this code."""
    return Finding(code.severity, code, about, message, remedy)


def skip(part: str, unseen: Unseen, remedy: str = "") -> Finding:
    """Build the finding that a part was not checked."""
    return report(FindingCode.SKIPPED, part, unseen.why, remedy)
