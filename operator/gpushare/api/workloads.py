"""Defines which pods a pool accepts: `spec.workloads` of a GPUSharePool."""

from enum import StrEnum
from typing import Annotated

from pydantic import ConfigDict, Field

from gpushare.api.model import ApiModel, rule, rules
from gpushare.api.selector import LabelKey, LabelSelector, LabelValue


class Selection(StrEnum):
    """Whether admission may choose a pool by itself."""

    AUTOMATIC = "Automatic"
    ON_REQUEST = "OnRequest"


class Binding(StrEnum):
    """Which node labels a pod selects that is assigned to a pool."""

    POOL = "Pool"
    MODE = "Mode"


class TolerationOperator(StrEnum):
    """How a toleration compares its value with the taint's."""

    EQUAL = "Equal"
    EXISTS = "Exists"


class TaintEffect(StrEnum):
    """Effect of a taint on pods that don't tolerate it."""

    NO_SCHEDULE = "NoSchedule"
    PREFER_NO_SCHEDULE = "PreferNoSchedule"
    NO_EXECUTE = "NoExecute"


class TolerationSpec(ApiModel):
    """A toleration, as in a pod's spec ("Taints and Tolerations" in the Kubernetes docs)."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            rule(
                "has(self.key) || (has(self.operator) && self.operator == 'Exists')",
                "operator must be Exists if key is not set, which tolerates every taint",
            ),
            rule(
                "!has(self.value) || !has(self.operator) || self.operator == 'Equal'",
                "value must not be set if operator is Exists",
            ),
            rule(
                "!has(self.tolerationSeconds) || (has(self.effect) && self.effect == 'NoExecute')",
                "effect must be NoExecute if tolerationSeconds is set",
            ),
        )
    )

    key: LabelKey | None = Field(default=None, description="Key of the taint.")
    operator: TolerationOperator | None = Field(
        default=None, description="Equal (default) or Exists."
    )
    value: LabelValue | None = Field(default=None, description="Value of the taint, with Equal.")
    effect: TaintEffect | None = Field(
        default=None, description="Effect of the taint. If not set, every effect matches."
    )
    toleration_seconds: int | None = Field(
        default=None, description="How long the taint is tolerated, with effect NoExecute."
    )


class Workloads(ApiModel):
    """Which pods admission may assign to a pool, and what is added to them."""

    namespace_selector: LabelSelector = Field(
        default=LabelSelector(),
        description="Selects the namespaces of the pods. Empty: every namespace.",
    )
    pod_selector: LabelSelector = Field(
        default=LabelSelector(), description="Selects pods by their labels. Empty: every pod."
    )
    selection: Selection = Field(
        default=Selection.AUTOMATIC,
        description="Which pods the pool accepts. Automatic: pods whose requests fit the pool's "
        "mode. OnRequest: only pods that request the pool, by the annotation gpushare.io/pool or "
        "by the label gpushare.io/default-pool of their namespace.",
    )
    binding: Binding = Field(
        default=Binding.POOL,
        description="Which node labels assigned pods select. Pool: gpushare.io/pool, which stays "
        "the same when the pool's mode changes. Mode: the labels of the mode.",
    )
    tolerations: Annotated[tuple[TolerationSpec, ...], Field(max_length=20)] = Field(
        default=(), description="Tolerations that are added to the assigned pods."
    )
