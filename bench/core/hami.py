"""Builds HAMi's webhook from a folder of its source, and runs it as its chart does.

The webhook is part of the binary of HAMi's scheduler, which needs an API server.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import yaml

from bench.core.goprogram import find_ports, run_go, serving
from devcluster.cluster import Cluster

_TEMPLATES = "templates/scheduler"


async def build_hami(source: Path, folder: Path) -> None:
    """Build HAMi's scheduler into `folder`."""
    build = ("build", "-mod=readonly", "-o", str(folder), "./cmd/scheduler")
    # It links NVML, so it needs a C compiler.
    await asyncio.to_thread(partial(run_go, source, *build, cgo=True))


@asynccontextmanager
async def serving_hami(
    cluster: Cluster, source: Path, certificate: Path, folder: Path, *flags: str
) -> AsyncIterator[tuple[int, str]]:
    """Run the scheduler in `folder` with the chart's configuration and flags; return PID and port.

    `flags` come after the chart's; the last of two equal flags counts.
    """
    (config,) = _render(cluster, source, "device-configmap")
    (deployment,) = _render(cluster, source, "deployment")
    devices = folder / "device-config.yaml"
    devices.write_text(config["data"][devices.name])
    containers = deployment["spec"]["template"]["spec"]["containers"]
    (shipped,) = (each["command"] for each in containers if each["command"][0] == "scheduler")
    port, metrics, *_ = find_ports(cluster)
    own = {
        "http_bind": f"127.0.0.1:{port}",
        "metrics-bind-address": f"127.0.0.1:{metrics}",
        "cert_file": certificate,
        "key_file": certificate,
        "device-config-file": devices,
        "leader-elect": "false",
    }
    here = (f"--{name}={value}" for name, value in own.items())
    command = (str(folder / "scheduler"), *shipped[1:], *here, *flags)
    # It gets one core, as each server here.
    async with serving(cluster, command, port, {"GOMAXPROCS": "1"}) as pid:
        yield pid, str(port)


def _render(cluster: Cluster, source: Path, template: str) -> list[dict[str, Any]]:
    chart, name = source / "charts/hami", f"{_TEMPLATES}/{template}.yaml"
    manifests = cluster.helm("template", "hami", str(chart), f"--show-only={name}")
    return [each for each in yaml.safe_load_all(manifests) if each]
