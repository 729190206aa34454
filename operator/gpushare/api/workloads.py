"""Which pods a pool takes, and what it gives them: `spec.workloads` of a GPUSharePool."""

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
    """Which node labels a pod that is sent to a pool selects."""

    POOL = "Pool"
    MODE = "Mode"


class TolerationOperator(StrEnum):
    """How a toleration compares its value with the taint's."""

    EQUAL = "Equal"
    EXISTS = "Exists"


class TaintEffect(StrEnum):
    """What a taint does to pods that don't tolerate it."""

    NO_SCHEDULE = "NoSchedule"
    PREFER_NO_SCHEDULE = "PreferNoSchedule"
    NO_EXECUTE = "NoExecute"


class Toleration(ApiModel):
    """A toleration, as in a pod's spec ("Taints and Tolerations" in the Kubernetes docs)."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            rule(
                "has(self.key) || (has(self.operator) && self.operator == 'Exists')",
                "without a key, operator must be Exists: it tolerates every taint",
            ),
            rule(
                "!has(self.value) || !has(self.operator) || self.operator == 'Equal'",
                "operator Exists takes no value",
            ),
            rule(
                "!has(self.tolerationSeconds) || (has(self.effect) && self.effect == 'NoExecute')",
                "tolerationSeconds goes with effect NoExecute only",
            ),
        )
    )

    key: LabelKey | None = Field(default=None, description="Key of the taint.")
    operator: TolerationOperator | None = Field(
        default=None, description="Equal (also when absent) or Exists."
    )
    value: LabelValue | None = Field(default=None, description="Value of the taint, for Equal.")
    effect: TaintEffect | None = Field(
        default=None, description="Effect of the taint; absent: any effect."
    )
    toleration_seconds: int | None = Field(
        default=None, description="With NoExecute: how long the taint is tolerated."
    )


class Workloads(ApiModel):
    """Which pods admission may send to a pool, and what they get."""

    namespace_selector: LabelSelector = Field(
        default=LabelSelector(), description="Namespaces of the pods; empty: all."
    )
    pod_selector: LabelSelector = Field(
        default=LabelSelector(), description="Labels of the pods; empty: all."
    )
    selection: Selection = Field(
        default=Selection.AUTOMATIC,
        description="Automatic: pods are sent here whose request fits the pool's mode. OnRequest: "
        "only pods that ask for the pool, by the annotation gpushare.io/pool or by their "
        "namespace's label gpushare.io/default-pool.",
    )
    binding: Binding = Field(
        default=Binding.POOL,
        description="Pool: routed pods select gpushare.io/pool, which stays while the mode of the "
        "pool changes. Mode: they select the labels of the mode.",
    )
    tolerations: Annotated[tuple[Toleration, ...], Field(max_length=20)] = Field(
        default=(), description="Added to the pods that are sent here."
    )
