"""Reads the panels of the chart's dashboards, and their queries."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

from devcluster.startup import CHART
from gpushare import names
from gpushare.observe.metrics.controller import ControllerMetrics
from tests.kit.values.manifests import Json

FILES = tuple(sorted((CHART / "dashboards").glob("*.json")))
_DCGM_MEMORY = {"AllocateMode", "Hostname", "NamespaceName", "NodeName", "PodName", "gpu"}
FOREIGN = {
    "DCGM_FI_DEV_FB_FREE": _DCGM_MEMORY,
    "DCGM_FI_DEV_FB_USED": _DCGM_MEMORY,
    "DCGM_FI_DEV_GPU_UTIL": {"Hostname", "NodeName", "gpu"},
    "DCGM_CUSTOM_PROCESS_MEM_USED": {"NamespaceName", "NodeName", "PodName"},
    "hami_vgpu_memory_used_bytes": {"namespace", "pod"},
    "vGPU_device_memory_usage_in_bytes": {"podname", "podnamespace"},
    "nvidia_gpu_memory_total_bytes": {
        "allocate_mode",
        "minor_number",
        "namespace_name",
        "node_name",
        "pod_name",
    },
    "nvidia_gpu_memory_used_bytes": {"minor_number", "namespace_name", "node_name", "pod_name"},
    "process_cpu_seconds_total": {"instance"},
    "process_resident_memory_bytes": {"instance"},
    "up": {"job", "namespace"},
}
"""Metrics of others with the used labels: DCGM's exporter, ACK's of both generations, HAMi's
monitor in both of its forms, processes."""
OWN = frozenset({"process_cpu_seconds_total", "process_resident_memory_bytes", "up"})
"""Metrics of others that need no exporter on nodes."""
_RECORD_OF_USE = "gpushare:namespace_pool_memory_used_bytes:avg1h"
RECORDS = {
    "gpushare:namespace_pool_memory_allocated_bytes:avg1h": {"namespace", "pool"},
    _RECORD_OF_USE: {"namespace", "pool"},
    "gpushare:pool_memory_bytes:avg1h": {"pool"},
}
"""What chart/files/rules-usage.yaml records, with its labels."""
FROM_EXPORTERS = (FOREIGN.keys() - OWN) | {_RECORD_OF_USE}
"""Metrics that are missing where no exporter runs on the nodes."""
_VARIABLE = re.compile(r"\$\{?(\w+)\}?")


def read(file: Path) -> Json:
    page: Json = json.loads(file.read_text())
    return page


def list_panels(page: Json) -> list[Json]:
    """List all panels except rows."""
    return [panel for panel in page["panels"] if panel["type"] != "row"]


def list_queries(page: Json) -> Iterator[tuple[str, str]]:
    """List each query with the title of its panel; template variables match everything."""
    for panel in list_panels(page):
        for target in panel["targets"]:
            yield panel["title"], fill_in(target["expr"])


def fill_in(expression: str) -> str:
    """Build the query that Grafana sends while no variable but the price is set."""
    known = {"__rate_interval": "5m", "__interval": "1d", "__range": "30d", "price": "1.5"}
    return _VARIABLE.sub(
        lambda found: found[0] if found[1].isdigit() else known.get(found[1], ".*"), expression
    )


def list_known() -> dict[str, set[str]]:
    """List our series by name, with their labels."""
    known: dict[str, set[str]] = {}
    for family in ControllerMetrics(per_node=True).families:
        labels = set(family.labels)
        if family.kind == "histogram":
            suffixes = {"_bucket": {"le"}, "_sum": set(), "_count": set()}
            known |= {f"{family.full_name}{each}": labels | more for each, more in suffixes.items()}
        else:
            known[family.full_name] = labels
    assert all(name.startswith(f"{names.METRIC_PREFIX}_") for name in known)
    return known
