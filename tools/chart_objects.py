"""`python -m tools.chart_objects` prints what `gpushare doctor` compares an installation with:
the chart's roles and webhooks, as Helm renders them."""

import json
import os
import subprocess
from collections.abc import Iterator
from typing import Any

import yaml

from devcluster.startup import CHART
from devcluster.toolchain import ensure_binaries

Json = dict[str, Any]
_VALUES = {
    "image.repository": "example.com/gpushare-operator",
    # All that gives an account rights; doctor leaves out what an installation does without.
    "eviction.enabled": "true",
    "admissionPolicy.enabled": "true",
    "teardown.jobs.enabled": "true",
    "teardown.jobs.image.repository": "example.com/shell",
    "teardown.jobs.image.tag": "v1",
    # Else nobody could tell it from the extender's namespace.
    "pluginNamespace": "gpushare-plugins",
    # Its account is there for as long as an uninstallation takes.
    "uninstall.hook": "false",
}
_PARTS = {
    "ClusterRole": "rules",
    "Role": "rules",
    "MutatingWebhookConfiguration": "webhooks",
}
"""Fields that are compared, by kind."""


def render_objects() -> str:
    """Build the text of the program's file. Raises `CalledProcessError` and `ToolchainError`."""
    helm = ensure_binaries(os.environ) / "helm"
    settings = [f"--set={key}={value}" for key, value in _VALUES.items()]
    command = [str(helm), "template", "gpushare", str(CHART), "--namespace=gpushare-system"]
    rendered = subprocess.run([*command, *settings], check=True, capture_output=True, text=True)
    return json.dumps(list(_pick(rendered.stdout)), indent=2) + "\n"


def _pick(rendered: str) -> Iterator[Json]:
    for found in yaml.safe_load_all(rendered):
        if found and (part := _PARTS.get(found["kind"])):
            metadata = found["metadata"]
            kept = {key: metadata[key] for key in ("name", "namespace") if key in metadata}
            yield {"kind": found["kind"], "metadata": kept, part: found[part]}


if __name__ == "__main__":
    print(render_objects(), end="")
