"""Defines the GPUSharePool, from which its CRD, checks and documentation are generated."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any, Self

from pydantic import ConfigDict, Field, model_validator

from gpushare import names
from gpushare.api.field_managers import find_manager, find_writers
from gpushare.api.model import ApiModel, rule, rules
from gpushare.api.nvidia_plugin import NvidiaConfig, NvidiaPlugin, refuse_following_labels
from gpushare.api.rollout import DemandPolicy, IsolationTeardown, Rollout
from gpushare.api.selector import Nodes
from gpushare.api.status import PoolStatus
from gpushare.api.workloads import Workloads


class Edition(StrEnum):
    """Product whose labels are written; `gpushare.editions` describes each."""

    PROFESSIONAL = "Professional"
    BASIC = "Basic"
    OPEN_SOURCE = "OpenSource"
    NVIDIA = "NVIDIA"


class Schedule(StrEnum):
    """How the GPUs of a node are given out; the values of `ack.node.gpu.schedule`."""

    DEFAULT = "default"
    SHARE = "share"
    CGPU = "cgpu"
    CORE_MEM = "core_mem"
    MPS = "mps"
    TOPOLOGY = "topology"
    DISABLED = "disabled"


_Name = Annotated[str, Field(max_length=128)]
ModeName = Annotated[Schedule | NvidiaConfig | _Name, Field(union_mode="left_to_right")]
"""A Schedule, in the NVIDIA edition a configuration, or a label's own value that is unknown."""


class Placement(StrEnum):
    """Which card of a node a pod gets; the values of `ack.node.gpu.placement`."""

    BINPACK = "binpack"
    SPREAD = "spread"


class ReconcilePolicy(StrEnum):
    """Whether the operator acts on a pool."""

    ENFORCE = "Enforce"
    OBSERVE = "Observe"
    PAUSED = "Paused"


class ConflictPolicy(StrEnum):
    """Policy for a label of the operator that another manager keeps writing."""

    REPORT = "Report"
    FORCE = "Force"


class DeletionPolicy(StrEnum):
    """Policy for the labels of a node that leaves its pool."""

    RETAIN = "Retain"
    WHOLE_CARD = "WholeCard"
    RESTORE = "Restore"


class RestartPolicy(StrEnum):
    """When the operator restarts a node's device plugin."""

    ON_ISOLATION_CHANGE = "OnIsolationChange"
    NEVER = "Never"


EDITION_SCHEDULES: dict[Edition, tuple[Schedule, ...]] = {
    Edition.PROFESSIONAL: tuple(Schedule),
    Edition.BASIC: (Schedule.DEFAULT, Schedule.SHARE, Schedule.CGPU),
    Edition.OPEN_SOURCE: (Schedule.DEFAULT, Schedule.SHARE),
}
"""The modes that each edition has (vendor's guides on labels, and the open-source installation)."""
DEFAULT_EDITION = Edition.PROFESSIONAL
EDITIONS_WITH_PLACEMENT = frozenset({Edition.PROFESSIONAL})
"""Editions whose pools may set a `placement`."""
EDITIONS_WITH_CONFIG = frozenset({Edition.NVIDIA})
"""Editions whose pools set a configuration instead of a `schedule`."""
_IS_NVIDIA = f"self.edition == '{Edition.NVIDIA}'"
_HAS_MODE = (
    f"the {Edition.NVIDIA} edition requires nvidia.config and has no schedule. The other editions "
    "require schedule and have no nvidia"
)


class DevicePlugin(ApiModel):
    """Settings for the device plugin of a node whose isolation changes."""

    restart: RestartPolicy = Field(
        default=RestartPolicy.ON_ISOLATION_CHANGE,
        description="When the operator restarts the device plugin. OnIsolationChange: its pod is "
        "deleted once per isolation change, while the node is cordoned. Never: only the labels are "
        "written, and the node is reported until a user restarts the plugin.",
    )


class PoolSpec(ApiModel):
    """The desired state of a pool's nodes."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            rule(
                "!has(self.placement) || self.edition in "
                f"{sorted(map(str, EDITIONS_WITH_PLACEMENT))}",
                "placement is supported by the "
                f"{' and '.join(sorted(EDITIONS_WITH_PLACEMENT))} edition only. Remove it",
            ),
            rule(
                f"{_IS_NVIDIA} ? has(self.nvidia) && !has(self.schedule) : has(self.schedule) && "
                "!has(self.nvidia)",
                _HAS_MODE,
            ),
            *refuse_following_labels(_IS_NVIDIA),
            rule(
                "!has(self.demand) || has(self.nodes.size)",
                "demand requires nodes.size, by which nodes may move",
            ),
            # Its plugin follows the label at once, and no label stands for whole cards.
            rule(
                f"!({_IS_NVIDIA}) || (self.deletionPolicy == '{DeletionPolicy.RETAIN}' && "
                f"self.devicePlugin.restart == '{RestartPolicy.ON_ISOLATION_CHANGE}')",
                f"the {Edition.NVIDIA} edition supports only deletionPolicy "
                f"{DeletionPolicy.RETAIN} and devicePlugin.restart "
                f"{RestartPolicy.ON_ISOLATION_CHANGE}",
            ),
            *(
                rule(
                    f"self.edition != '{edition}' || !has(self.schedule) || "
                    f"self.schedule in {list(map(str, schedules))}",
                    f"the {edition} edition supports only the schedules " + ", ".join(schedules),
                )
                for edition, schedules in EDITION_SCHEDULES.items()
                if schedules != tuple(Schedule)
            ),
        )
    )

    nodes: Nodes = Field(description="Selects the nodes that are members of the pool.")
    edition: Annotated[
        Edition,
        Field(
            json_schema_extra=rules(
                rule(
                    "self == oldSelf",
                    "edition is immutable. Delete the pool (its nodes keep their labels), and "
                    "create one with the other edition",
                )
            )
        ),
    ] = Field(
        default=DEFAULT_EDITION,
        description="The product whose labels are written: Professional (ack-ai-installer), Basic "
        "(ack-cgpu on dedicated clusters), OpenSource (gpushare-device-plugin) or NVIDIA (NVIDIA's "
        "device plugin). Immutable.",
    )
    schedule: ModeName = Field(
        default="",
        description="GPU sharing mode of the nodes: default (whole cards), share (memory is "
        "counted, not isolated), cgpu (memory isolated), core_mem (memory and compute isolated), "
        "mps, topology or disabled. Required in all editions but NVIDIA.",
    )
    nvidia: NvidiaPlugin | None = Field(
        default=None, description="The mode of the nodes in the NVIDIA edition."
    )
    placement: Placement | None = Field(
        default=None,
        description="How pods are placed on the cards of a node: binpack or spread. Professional "
        "edition only. If not set, the label is not written, or is removed again.",
    )
    priority: int = Field(
        default=100,
        ge=0,
        le=1_000_000,
        description="If two pools claim a node, the pool with the higher priority gets it. "
        "Admission prefers pools with a higher priority.",
    )
    reconcile: ReconcilePolicy = Field(
        default=ReconcilePolicy.ENFORCE,
        description="Whether the operator acts. Enforce: nodes are changed as the spec requires. "
        "Observe: only the status is written, which shows what would be done. Paused: no new "
        "change begins and labels changed by users stay, but changes under way are finished.",
    )
    conflicts: ConflictPolicy = Field(
        default=ConflictPolicy.REPORT,
        description="What happens when another field manager keeps writing a label of this pool. "
        "Report: after its third write within 10 minutes the operator leaves the label to it, and "
        "the condition Conflicting names it. Force: the label is restored, at most 6 times a "
        "minute on a node.",
    )
    deletion_policy: DeletionPolicy = Field(
        default=DeletionPolicy.RETAIN,
        description="What happens to a node that leaves the pool, or whose pool is deleted. "
        "Retain: it keeps its labels. WholeCard: it is changed to mode default. Restore: it is "
        "changed back to the labels that it had before it joined.",
    )
    device_plugin: DevicePlugin = Field(
        default=DevicePlugin(),
        description="How the device plugin of a node is restarted when its isolation changes.",
    )
    demand: DemandPolicy | None = Field(
        default=None,
        description="Whether idle nodes move to and from this pool, by where pods wait. Requires "
        "nodes.size. If not set, none does.",
    )
    rollout: Rollout = Field(
        default=Rollout(), description="How an isolation change is rolled out to the pool's nodes."
    )
    isolation_teardown: IsolationTeardown = Field(
        default=IsolationTeardown(),
        description="How isolation is removed from a node that changes from cgpu or core_mem to "
        "share (Professional edition only).",
    )
    workloads: Workloads = Field(
        default=Workloads(),
        description="Which pods admission may assign to the pool, and what is added to them.",
    )

    @model_validator(mode="after")
    def _has_mode(self) -> Self:
        """Set the mode of an NVIDIA pool by its key. Raises ValueError without a mode."""
        if self.nvidia is not None and self.edition is Edition.NVIDIA:
            # Frozen, but for this moment.
            object.__setattr__(self, "schedule", NvidiaConfig(self.nvidia.config))
        elif self.nvidia is not None or self.edition in EDITIONS_WITH_CONFIG:
            raise ValueError(_HAS_MODE)
        elif not isinstance(self.schedule, Schedule):
            allowed = ", ".join(Schedule)
            raise ValueError(f"schedule is {self.schedule!r}, expected one of {allowed}")
        return self


_MAX_START_NOW = 128
"""Limit of the annotation `gpushare.io/start-now` in characters: the status repeats it."""


class Pool(ApiModel):
    """A GPUSharePool as it is read from the API server."""

    name: str
    uid: str
    resource_version: int = 0
    """Version of the object; the higher of two is the newer."""
    generation: int
    created: datetime
    deleting: bool
    finalizers: frozenset[str]
    retry: str = ""
    """Value of the annotation `gpushare.io/retry`; a new value resumes a halted rollout."""
    start_now: str = ""
    """Value of the annotation `gpushare.io/start-now`: a plan that starts outside the windows."""
    start_now_manager: str = ""
    """Field manager of the annotation `gpushare.io/start-now`."""
    accept_move: str = ""
    """Value of the annotation `gpushare.io/accept-move`: a move that a user accepts."""
    invalid_windows: str = ""
    """Why the windows are invalid and left out; no change begins until they are valid."""
    writers: Mapping[str, str] = {}
    """Last writers of the spec's fields: a field manager, and its application if known."""
    spec: PoolSpec
    status: PoolStatus

    @property
    def acts(self) -> bool:
        """Whether the operator writes to the pool's nodes; also while the pool is being deleted."""
        return self.deleting or self.spec.reconcile is ReconcilePolicy.ENFORCE

    @property
    def observes(self) -> bool:
        """Whether the status only shows the changes that would be made."""
        return self.spec.reconcile is ReconcilePolicy.OBSERVE

    @property
    def has_our_finalizer(self) -> bool:
        return names.FINALIZER in self.finalizers

    @classmethod
    def parse(cls, raw: dict[str, Any], spec: PoolSpec | None = None) -> Self:
        """Parse a Pool from the API server's JSON. Raises pydantic's ValidationError.

        `spec` replaces the spec of `raw`.
        """
        meta = raw["metadata"]
        annotations = meta.get("annotations") or {}
        return cls(
            name=meta["name"],
            uid=meta["uid"],
            resource_version=meta.get("resourceVersion", 0),
            generation=meta.get("generation", 0),
            created=meta.get("creationTimestamp"),
            deleting="deletionTimestamp" in meta,
            finalizers=meta.get("finalizers") or (),
            retry=annotations.get(names.ANNOTATION_RETRY, ""),
            start_now=annotations.get(names.ANNOTATION_START_NOW, "")[:_MAX_START_NOW],
            start_now_manager=find_manager(meta, names.ANNOTATION_START_NOW)
            if names.ANNOTATION_START_NOW in annotations
            else "",
            accept_move=annotations.get(names.ANNOTATION_ACCEPT_MOVE, "")[:_MAX_START_NOW],
            writers=find_writers(meta),
            spec=PoolSpec.model_validate(raw.get("spec", {})) if spec is None else spec,
            status=PoolStatus.model_validate(raw.get("status") or {}),
        )


@dataclass(frozen=True, slots=True)
class UnreadablePool:
    """A GPUSharePool that this version can't read, as after a downgrade, with its readable fields
    and the error."""

    name: str
    uid: str
    generation: int
    status: PoolStatus
    error: str
    resource_version: int = 0

    @property
    def part(self) -> str:
        """The invalid part: `spec`, `status` or `metadata`."""
        return self.error.partition(":")[0].partition(".")[0]
