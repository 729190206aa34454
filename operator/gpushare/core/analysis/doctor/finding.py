"""What a look at a cluster found: how bad, where, and what mends it."""

from dataclasses import dataclass
from enum import StrEnum

from gpushare.names import Reason


class Severity(StrEnum):
    """How bad a finding is."""

    OK = "ok"
    INFO = "info"
    """Worth knowing, or not looked at."""
    WARNING = "warning"
    """Something is not as it should be, and pods still go where they should."""
    ERROR = "error"
    """Something does not work, or will give cards out twice."""


class Code(StrEnum):
    """Findings about an installation, and about what no pool's node says of itself.

    Those about nodes and pools carry the reason codes that their status has.
    """

    severity: Severity
    meaning: str

    def __new__(cls, code: str, severity: Severity, meaning: str) -> "Code":
        member = str.__new__(cls, code)
        member._value_ = code
        member.severity = severity
        member.meaning = meaning
        return member

    NOT_INSTALLED = (
        "NotInstalled", Severity.INFO,
        "Nothing of the operator is in the cluster.",
    )  # fmt: skip
    ONLY_POOLS_LEFT = (
        "OnlyPoolsLeft", Severity.INFO,
        "Of the operator only the CustomResourceDefinition is there, as after an uninstallation "
        "that keeps the pools.",
    )  # fmt: skip
    SKIPPED = (
        "Skipped", Severity.INFO,
        "A part was not looked at: a right is missing, or a snapshot does not hold it.",
    )  # fmt: skip
    OPERATOR_FOUND = (
        "OperatorFound", Severity.OK,
        "A Deployment of the operator has all its replicas.",
    )  # fmt: skip
    NO_DEPLOYMENTS = (
        "NoDeployments", Severity.INFO,
        "Parts of an installation are there, its Deployments are not: it runs outside of the "
        "cluster, or was removed and its pools kept.",
    )  # fmt: skip
    SETUP_READ = (
        "SetupRead", Severity.OK,
        "How the installation is set, by the Deployment that says so; a default where none does.",
    )  # fmt: skip
    SETUP_ASSUMED = (
        "SetupAssumed", Severity.INFO,
        "How the installation is set could not be read, wholly or in part: what is said of nodes "
        "and pools holds for one that is set so.",
    )  # fmt: skip
    REPLICAS_MISSING = (
        "ReplicasMissing", Severity.WARNING,
        "Some replicas of a Deployment are not ready.",
    )  # fmt: skip
    OPERATOR_DOWN = (
        "OperatorDown", Severity.ERROR,
        "No replica of a Deployment is ready.",
    )  # fmt: skip
    OTHER_VERSION = (
        "OtherVersion", Severity.WARNING,
        "The cluster runs another version than this program's: what it says of plans and rights "
        "is that of its own.",
    )  # fmt: skip
    CONTROLLER_ACTIVE = (
        "ControllerActive", Severity.OK,
        "A controller holds the Lease and renews it.",
    )  # fmt: skip
    CONTROLLER_SILENT = (
        "ControllerSilent", Severity.ERROR,
        "No controller renews the Lease: pools are not acted on.",
    )  # fmt: skip
    CRD_CURRENT = (
        "CrdCurrent", Severity.OK,
        "The CustomResourceDefinition is this program's.",
    )  # fmt: skip
    CRD_MISSING = (
        "CrdMissing", Severity.ERROR,
        "The operator is installed, and there is no CustomResourceDefinition.",
    )  # fmt: skip
    CRD_DIFFERS = (
        "CrdDiffers", Severity.ERROR,
        "The CustomResourceDefinition lacks fields, or has others in their place: the API server "
        "drops what it does not know.",
    )  # fmt: skip
    CRD_NEWER = (
        "CrdNewer", Severity.WARNING,
        "The CustomResourceDefinition has fields that this program does not know.",
    )  # fmt: skip
    WEBHOOK_CONFIGURED = (
        "WebhookConfigured", Severity.OK,
        "The webhook configuration has the chart's policies, selectors and rules.",
    )  # fmt: skip
    WEBHOOK_MISSING = (
        "WebhookMissing", Severity.ERROR,
        "The webhook configuration, or one of its webhooks, is not there: GPU pods are not routed.",
    )  # fmt: skip
    WEBHOOK_CHANGED = (
        "WebhookChanged", Severity.WARNING,
        "A webhook's policies, selectors, rules, conditions or place are not the chart's.",
    )  # fmt: skip
    WEBHOOK_SERVED = (
        "WebhookServed", Severity.OK,
        "The webhook's Service has endpoints that are ready.",
    )  # fmt: skip
    WEBHOOK_WITHOUT_ENDPOINTS = (
        "WebhookWithoutEndpoints", Severity.ERROR,
        "The webhook's Service is not there, or none of its endpoints is ready.",
    )  # fmt: skip
    CERTIFICATE_TRUSTED = (
        "CertificateTrusted", Severity.OK,
        "The caBundle has a CA that is valid, for so many days.",
    )  # fmt: skip
    CERTIFICATE_EXPIRING = (
        "CertificateExpiring", Severity.WARNING,
        "The last CA of the caBundle expires within 14 days.",
    )  # fmt: skip
    CERTIFICATE_UNTRUSTED = (
        "CertificateUntrusted", Severity.ERROR,
        "The caBundle is empty, unreadable or expired: the API server can't call the webhook.",
    )  # fmt: skip
    WEBHOOK_ANSWERS = (
        "WebhookAnswers", Severity.OK,
        "The API server asked the webhook about what was created for trial (dry run): a pod, and a "
        "Deployment.",
    )  # fmt: skip
    WEBHOOK_SILENT = (
        "WebhookSilent", Severity.ERROR,
        "A pod that was created for trial (dry run) came back without the webhook's decision, or "
        "its call failed.",
    )  # fmt: skip
    WORKLOADS_UNWARNED = (
        "WorkloadsUnwarned", Severity.WARNING,
        "A Deployment that was created for trial (dry run) came back without the webhook's "
        "warning: who applies a workload is not told where its pods go.",
    )  # fmt: skip
    TRIAL_REFUSED = (
        "TrialRefused", Severity.WARNING,
        "Something else refused the pod that was created for trial (dry run): a quota, a policy.",
    )  # fmt: skip
    RIGHTS_COMPLETE = (
        "RightsComplete", Severity.OK,
        "The operator's accounts have the rights that this version needs.",
    )  # fmt: skip
    RIGHTS_MISSING = (
        "RightsMissing", Severity.ERROR,
        "An account of the operator lacks rights, or its role or binding.",
    )  # fmt: skip
    YOUR_RIGHTS = (
        "YourRights", Severity.OK,
        "You may read all that commands read.",
    )  # fmt: skip
    YOUR_RIGHTS_MISSING = (
        "YourRightsMissing", Severity.INFO,
        "You lack rights that some commands need.",
    )  # fmt: skip
    PLUGINS_SERVE = (
        "PluginsServe", Severity.OK,
        "So many labelled nodes are as their labels say, by plugin, components and resource.",
    )  # fmt: skip
    NOTHING_SHARED = (
        "NothingShared", Severity.INFO,
        "No node carries a label by which GPUs are shared.",
    )  # fmt: skip
    LABELLED_MANUALLY = (
        "LabelledManually", Severity.INFO,
        "A node shares its GPUs by labels, and no pool has it.",
    )  # fmt: skip
    UNKNOWN_MODE = (
        "UnknownMode", Severity.WARNING,
        "A node's mode label has a value that is no mode.",
    )  # fmt: skip
    UNITS_MIXED = (
        "UnitsMixed", Severity.ERROR,
        "Some plugins count GPU memory in GiB, others in MiB: one request means two amounts.",
    )  # fmt: skip
    UNIT_IS_MIB = (
        "UnitIsMiB", Severity.INFO,
        "All plugins count GPU memory in MiB. A node with more than about 68,000 of them offers "
        "none: the kubelet refuses so long a list.",
    )  # fmt: skip
    STATIC_POD = (
        "StaticPod", Severity.INFO,
        "The whole-card plugin of a node is a static pod: only its file restarts or ends it.",
    )  # fmt: skip
    NOT_ECS = (
        "NotEcs", Severity.WARNING,
        "A node in a mode that isolates by cGPU is no ECS instance, by its providerID.",
    )  # fmt: skip
    CONTAINER_OS = (
        "ContainerOs", Severity.INFO,
        "A node in a mode that isolates by cGPU runs ContainerOS, which needs ack-ai-installer "
        "1.12.6 or newer.",
    )  # fmt: skip
    PLUGINS_EVICTABLE = (
        "PluginsEvictable", Severity.WARNING,
        "DaemonSets of the vendor's plugins lack the priorityClassName system-node-critical.",
    )  # fmt: skip
    POOLS_AS_PLANNED = (
        "PoolsAsPlanned", Severity.OK,
        "No pool is in conflict, halted or unreadable.",
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at."""

    severity: Severity
    code: Code | Reason
    object: str
    """What it is about: a kind and a name."""
    message: str
    remedy: str = ""
    """What to do; empty where nothing is."""


@dataclass(frozen=True, slots=True)
class Unseen:
    """A part that was not read."""

    why: str
    """Such as the right that is missing."""


def look_up(reason: Reason) -> str:
    """The remedy where a page has more than a line about it."""
    return f"see docs/reasons.md#{reason.lower()}"


def find(code: Code, about: str, message: str, remedy: str = "") -> Finding:
    """A finding of this code."""
    return Finding(code.severity, code, about, message, remedy)


def skip(part: str, unseen: Unseen, remedy: str = "") -> Finding:
    """That a part was not looked at."""
    return find(Code.SKIPPED, part, unseen.why, remedy)
