"""Finds, builds and starts Go programs beside a cluster."""

import json
import os
import subprocess
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from bench.core.waiting import BenchError, until
from devcluster.cluster import Cluster
from devcluster.ports import is_free
from devcluster.startup import tail
from devcluster.toolchain import install_go, observe_toolchain

_LISTENS_SECONDS = 120


def run_go(folder: Path, *arguments: str, cgo: bool = False) -> str:
    """Run `go` and return its output. Raises `BenchError` with its message."""
    go = observe_toolchain(os.environ).go or install_go(print)
    own = {"CGO_ENABLED": str(int(cgo)), "GOTOOLCHAIN": "local", "GOWORK": "off"}
    done = subprocess.run(
        [str(go), *arguments],
        cwd=folder,
        env={**os.environ, **own},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise BenchError(f"`go {' '.join(arguments)}` in {folder}:\n{done.stderr[-2000:]}")
    return done.stdout


def find_source(folder: Path, module: str) -> Path:
    """Find the source of a module in the folder's ``go.mod``; its hash is checked."""
    download = json.loads(run_go(folder, "mod", "download", "-json", module))
    return Path(download["Dir"])


def find_ports(cluster: Cluster) -> list[int]:
    """Find free ports from the end of the block; the operator's processes use its start."""
    return [port for port in reversed(cluster.ports.spare) if is_free(port)]


@asynccontextmanager
async def serving(
    cluster: Cluster, command: Sequence[str], port: int, env: Mapping[str, str]
) -> AsyncIterator[int]:
    """Run a process that listens on `port` as administrator in the block, which gets the PID."""
    name = f"{Path(command[0]).name}-{port}"
    process = cluster.spawn(command, log=f"{name}.log", env={**cluster.environment, **env})

    async def listens() -> bool:
        if process.poll() is not None:
            raise BenchError(f"{name} ended by itself:\n{tail(cluster.logs / f'{name}.log')}")
        return not is_free(port)

    try:
        await until(listens, f"{name} listens", seconds=_LISTENS_SECONDS)
        yield process.pid
    finally:
        process.kill()
        process.wait()
