"""Reads the settings of an installation from the variables GPUSHARE_*, as one frozen tree."""

import json
import socket
import uuid
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StringConstraints,
    model_validator,
)

from gpushare import names
from gpushare.names import SETTINGS_PREFIX
from gpushare.workload_kinds import AddedKinds

DNS_LABEL = r"^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$"

DAEMONSET_NAME = r"^[a-z0-9]([-.a-z0-9]{0,251}[a-z0-9])?$"


def _check_daemonsets(given: Mapping[str, str]) -> Mapping[str, str]:
    standard = sorted(names.STANDARD_DAEMONSETS)
    owners: dict[str, str] = {}
    for key, name in {**{each: each for each in standard}, **given}.items():
        if key not in standard:
            raise ValueError(f"unknown key {key} ({name}). Allowed keys: {', '.join(standard)}")
        if (other := owners.setdefault(name, key)) != key:
            raise ValueError(
                f"{other} and {key} have the same name {name}. Set a different name for each"
            )
    return given


def _decode(given: Any) -> Any:
    """Decode a variable's value as JSON. Raises ValueError."""
    try:
        return json.loads(given) if isinstance(given, str) else given
    except ValueError as error:
        raise ValueError(f"expected JSON: {error}") from None


Names = Annotated[tuple[str, ...], BeforeValidator(_decode)]
Namespace = Annotated[str, StringConstraints(pattern=DNS_LABEL)]
DaemonSetName = Annotated[str, StringConstraints(pattern=DAEMONSET_NAME)]
DaemonSetNames = Annotated[
    Mapping[str, DaemonSetName], BeforeValidator(_decode), AfterValidator(_check_daemonsets)
]
WorkloadKinds = Annotated[AddedKinds, BeforeValidator(_decode)]
LabelKey = Annotated[str, StringConstraints(min_length=1, max_length=317)]
LabelKeys = Annotated[tuple[LabelKey, ...], BeforeValidator(_decode), Field(max_length=20)]
Seconds = Annotated[float, Field(ge=0, le=7 * 86400, allow_inf_nan=False)]
Port = Annotated[int, Field(ge=0, le=65535)]
Lifetime = Annotated[float, Field(ge=10, le=100 * 365 * 86400, allow_inf_nan=False)]
"""Seconds, at most a century: a later date may be beyond the year 9999."""
LONGEST_LEASE_SECONDS = 600.0
"""Limit of the time that others wait for the holder of a Lease, also where the Lease, which the
operator did not write then, has a longer duration."""


class Variable(StrEnum):
    """The variables of the operator's containers from which commands read its settings."""

    ADMISSION_TABLE = f"{SETTINGS_PREFIX}ADMISSION_TABLE"
    ALLOW_EVICTION = f"{SETTINGS_PREFIX}ALLOW_EVICTION"
    ALLOW_TEARDOWN_JOBS = f"{SETTINGS_PREFIX}ALLOW_TEARDOWN_JOBS"
    BACKOFF_SECONDS = f"{SETTINGS_PREFIX}BACKOFF_SECONDS"
    CERTIFICATE_MODE = f"{SETTINGS_PREFIX}CERTIFICATE_MODE"
    RELEASE_PATIENCE_SECONDS = f"{SETTINGS_PREFIX}RELEASE_PATIENCE_SECONDS"
    MAX_JOINS = f"{SETTINGS_PREFIX}MAX_JOINS"
    MEMORY_UNIT = f"{SETTINGS_PREFIX}MEMORY_UNIT"
    NVIDIA_NAMESPACE = f"{SETTINGS_PREFIX}NVIDIA_NAMESPACE"
    ON_NO_POOL = f"{SETTINGS_PREFIX}ON_NO_POOL"
    PLUGIN_DAEMONSETS = f"{SETTINGS_PREFIX}PLUGIN_DAEMONSETS"
    PLUGIN_NAMESPACE = f"{SETTINGS_PREFIX}PLUGIN_NAMESPACE"
    READY_TIMEOUT_SECONDS = f"{SETTINGS_PREFIX}READY_TIMEOUT_SECONDS"
    RESOURCE_SETTLE_SECONDS = f"{SETTINGS_PREFIX}RESOURCE_SETTLE_SECONDS"
    SCHEDULERS = f"{SETTINGS_PREFIX}SCHEDULERS"
    RECHECK_SECONDS = f"{SETTINGS_PREFIX}RECHECK_SECONDS"
    TEARDOWN_NAMESPACE = f"{SETTINGS_PREFIX}TEARDOWN_NAMESPACE"
    WORKLOAD_KINDS = f"{SETTINGS_PREFIX}WORKLOAD_KINDS"
    ZERO_PATIENCE_SECONDS = f"{SETTINGS_PREFIX}ZERO_PATIENCE_SECONDS"


class Settings(BaseModel):
    """The settings of one process.

    Raises pydantic's ValidationError, which names the setting, where a value is invalid.
    """

    model_config = ConfigDict(frozen=True)

    @classmethod
    def read(cls, environment: Mapping[str, str]) -> Self:
        """Read the settings from the variables of a process; unset ones have their defaults."""
        variables = {setting: f"{SETTINGS_PREFIX}{setting.upper()}" for setting in cls.model_fields}
        return cls.model_validate(
            {
                setting: environment[name]
                for setting, name in variables.items()
                if name in environment
            }
        )

    kubeconfig: Path | None = None
    """Kubeconfig file; without one the Pod's own ServiceAccount is used."""
    service_account: Path = Path("/var/run/secrets/kubernetes.io/serviceaccount")
    """Folder with the ServiceAccount's `token` and the API server's `ca.crt`."""
    namespace: Namespace = "gpushare-system"
    """Namespace of the installation: its Lease and its certificate Secret are there."""
    identity: Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)] = Field(
        default_factory=lambda: f"{socket.gethostname()}_{uuid.uuid4().hex[:8]}"
    )
    """Holder of the Lease; in a cluster the Pod's name, so that a restarted container takes its own
    Lease back at once. No two processes may share one."""

    plugin_namespace: Namespace = names.PLUGIN_NAMESPACE
    """Namespace of the device plugins' DaemonSets; pods are deleted there and in the next one."""
    nvidia_namespace: Namespace | Literal[""] = ""
    """Namespace of NVIDIA's device plugin and of its ConfigMap; pods are deleted there too. Empty:
    pools of the edition NVIDIA wait."""
    plugin_daemonsets: DaemonSetNames = {}
    """Names of the device plugins' DaemonSets in the cluster, by their names in ACK's charts, which
    are the default. Pods of other DaemonSets are never deleted."""
    recheck_seconds: Seconds = 2.0
    """Gap between the two readings of a cordoned node's pods: longer than a binding that was
    under way when the node was cordoned takes to arrive."""
    backoff_seconds: Seconds = 30.0
    """Wait after a late binding before the same node is cordoned again."""
    ready_timeout_seconds: Annotated[Seconds, Field(gt=0)] = 600.0
    """Limit of the time from the labels to the verified plugin, with the pull of its image."""
    resource_settle_seconds: Seconds = 12.0
    """How long a new plugin must be Ready before a resource that was never zero counts: the kubelet
    reports devices at most every 10 s."""
    zero_patience_seconds: Seconds = 60.0
    """How long a Ready plugin may offer no resource before it is restarted once more."""
    max_joins: int = Field(16, ge=4)
    """How many joining nodes are changed at once, over all pools."""
    allow_eviction: bool = False
    """Allows pools to evict pods that block a change (`rollout.workloads: Evict`)."""
    allow_teardown_jobs: bool = False
    """Allows pools to remove the kernel module by a privileged Job
    (`isolationTeardown.policy: Job`)."""
    teardown_namespace: Namespace = "gpushare-teardown"
    """Namespace of the teardown Jobs, and of nothing else."""
    teardown_image: str = ""
    """Image of the teardown Jobs, with a shell and nsenter."""
    memory_unit: Literal["GiB", "MiB"] = "GiB"
    """Unit in which the cluster's device plugins count GPU memory."""
    admission_table: bool = False
    """Keeps the object that the chart's MutatingAdmissionPolicy reads equal to the pools."""
    node_label_keys: LabelKeys = ()
    """Further keys of node labels that the pools' status publishes for admission."""
    release_patience_seconds: Seconds = 600.0
    """How long a pool that is being deleted waits for its next node to finish; then the pool is
    removed, and the other nodes keep their labels."""
    resync_seconds: Annotated[Seconds, Field(gt=0)] = 30.0
    """Longest time between two passes of the loop."""
    write_concurrency: int = Field(64, ge=1)
    """Limit of writes to nodes in flight at once, and likewise of reads of a node, and of
    evictions; the API server's priority and fairness limits their rate."""

    lease_name: str = "gpushare-controller"
    lease_duration_seconds: Annotated[Seconds, Field(gt=0, le=LONGEST_LEASE_SECONDS)] = 10.0
    """How long others wait for a holder that does not renew the Lease."""
    lease_renew_seconds: Annotated[Seconds, Field(gt=0)] = 2.0

    @model_validator(mode="after")
    def _renews_in_time(self) -> Self:
        if self.lease_renew_seconds * 2 > self.lease_duration_seconds:
            raise ValueError(
                f"lease_renew_seconds ({self.lease_renew_seconds:g}) must be at most half of "
                f"lease_duration_seconds ({self.lease_duration_seconds:g})"
            )
        return self

    webhook_host: str = ""
    """Address at which the webhook listens. Empty: all addresses of IPv4 and IPv6."""
    webhook_port: Port = 9443
    webhook_configuration: str = "gpushare-webhook"
    """MutatingWebhookConfiguration whose caBundle is kept equal to our CA."""
    certificate_secret: str = "gpushare-webhook-tls"
    webhook_dns_names: Names = ()
    """Names in the certificate besides the Service's and 127.0.0.1."""
    webhook_service: str = "gpushare-webhook"
    webhook_replicas: int = Field(2, ge=1)
    """Number of webhooks, or the most that an autoscaler may start: each counts its own decisions
    that many times, until the pools' capacity shows them."""
    on_no_pool: Literal["allow", "deny"] = "allow"
    """What happens to pods that no pool accepts; a namespace's label takes precedence."""
    schedulers: Names = (names.DEFAULT_SCHEDULER,)
    """Schedulers that allocate GPU memory by card; pods of other schedulers are not changed."""
    workload_kinds: WorkloadKinds = ()
    """Kinds of objects that create pods besides those of `gpushare.workload_kinds`, or instead."""
    stale_seconds: Annotated[Seconds, Field(ge=30)] = 60.0
    """How long a watch may be silent before calls, and /readyz, fail. A healthy watch is not: the
    API server ends it after 20 s at the latest."""
    drain_seconds: Seconds = 5.0
    """How long after SIGTERM calls are still accepted while /readyz fails, until Endpoints are
    updated."""
    max_calls_in_flight: int = Field(256, ge=1)
    """How many calls may wait for their body at once; of more, the slowest is rejected."""

    certificate_mode: Literal["self", "cert-manager", "provided"] = "self"
    """Issuer of the webhook's certificate: the webhook, cert-manager, or the user. The Secret of
    the latter two is only read."""
    certificate_lifetime_seconds: Lifetime = 90 * 86400.0
    """Lifetime of the webhook's own certificate, renewed when a third of it is left."""
    authority_lifetime_seconds: Annotated[Lifetime, Field(ge=30)] = 3650 * 86400.0
    """Lifetime of the webhook's own CA."""

    stall_seconds: Annotated[Seconds, Field(ge=45)] = 90.0
    """How long an open watch may be silent before /livez fails, so that the process is restarted. A
    healthy watch ends every 20 s, and one with a dead connection is replaced after 25 s and ends by
    45 s; after 90 s three in a row were silent. Requests without an answer end after 30 s, and a
    Retry-After holds them back for at most 60 s: both count as signs of life."""
    per_application_metrics: bool = True
    """Whether the controller reports the GPU memory of each workload, by its namespace and name."""
    per_node_metrics: bool = False
    """Whether the controller reports each node and the memory of each card: one series for each
    node, and two for each card."""
    metrics_host: str = ""
    """Address at which metrics and probes listen. Empty: all addresses."""
    metrics_port: Port = 8080
    log_level: str = "INFO"
