"""What a pool says of NVIDIA's device plugin, and which configuration that loads."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, ClassVar

from pydantic import ConfigDict, Field

from gpushare.api.model import ApiModel, rule

FOLLOWING_LABELS = (
    "nvidia.com/gpu.product",
    "nvidia.com/gpu.replicas",
    "nvidia.com/gpu.sharing-strategy",
    "nvidia.com/mps.capable",
)
"""Labels of GPU feature discovery whose values depend on the mode: `gpu.product` ends with
`-SHARED` where cards are shared (internal/lm of NVIDIA/k8s-device-plugin)."""


def refuse_following_labels(condition: str) -> list[dict[str, str]]:
    """Build rules of the CRD: where `condition` holds, no pool selects by these labels."""
    message = (
        "nodes.selector must not use a label that changes with nvidia.config "
        f"({', '.join(FOLLOWING_LABELS)})"
    )
    return [
        rule(
            f"!({condition}) || !has(self.nodes.selector) || !has(self.nodes.selector.{part}) || "
            f"self.nodes.selector.{part}.all(k, !({key} in {list(FOLLOWING_LABELS)}))",
            message,
        )
        for part, key in (("matchLabels", "k"), ("matchExpressions", "k.key"))
    ]


class SharingStrategy(StrEnum):
    """How NVIDIA's device plugin shares cards; the values of `nvidia.com/gpu.sharing-strategy`."""

    NONE = "none"
    TIME_SLICING = "time-slicing"
    MPS = "mps"


@dataclass(frozen=True, slots=True)
class NvidiaConfig:
    """A configuration of NVIDIA's device plugin, which is a mode of the NVIDIA edition.

    Records on nodes contain it. Its text is for display.
    """

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="ignore")

    key: Annotated[str, Field(max_length=63)]
    """Key of the plugin's ConfigMap; empty where a node has no label."""
    strategy: SharingStrategy | None = None
    """None as long as the entry under the key has not been read."""
    replicas: Annotated[int, Field(ge=1, le=9999)] = 1
    renamed: bool = False
    """The resource of shared cards has a name of its own."""
    digest: Annotated[str, Field(pattern="^([0-9a-f]{8})?$")] = ""
    """Of the entry's text: an edited entry is another configuration."""

    def __str__(self) -> str:
        if self.strategy is None:
            return f"config={self.key}"
        replicas = "" if self.strategy is SharingStrategy.NONE else f"={self.replicas}"
        renamed = ",renamed" if self.renamed else ""
        return f"config={self.key},{self.strategy}{replicas}{renamed},hash={self.digest}"


class ConfigChangePolicy(StrEnum):
    """What happens when the content of a pool's configuration changes in the ConfigMap."""

    REPORT = "Report"
    ROLL_OUT = "RollOut"


class NvidiaPlugin(ApiModel):
    """Which configuration NVIDIA's device plugin loads."""

    config: str = Field(
        min_length=1,
        max_length=63,
        pattern="^[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$",
        description="Key of the ConfigMap of NVIDIA's device plugin. Its entry says the mode: "
        "whole cards, time-slicing or MPS, with the number of replicas.",
    )
    on_config_change: ConfigChangePolicy = Field(
        default=ConfigChangePolicy.REPORT,
        description="What happens when the content of that key changes. Report: the nodes keep the "
        "configuration that they have loaded, and the change is reported (ConfigChanged). "
        "RollOut: it is rolled out as an isolation change.",
    )
