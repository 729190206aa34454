"""What a pool says of NVIDIA's device plugin."""

from enum import StrEnum

from pydantic import Field

from gpushare.api.model import ApiModel, rule

CONFIG_PREFIX = "config="
"""Of the names of NVIDIA's modes; then the key of the plugin's ConfigMap."""

FOLLOWING_LABELS = (
    "nvidia.com/gpu.product",
    "nvidia.com/gpu.replicas",
    "nvidia.com/gpu.sharing-strategy",
    "nvidia.com/mps.capable",
)
"""Of GPU feature discovery, and another value in another mode: `gpu.product` ends with `-SHARED`
where cards are shared (internal/lm of NVIDIA/k8s-device-plugin)."""


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
