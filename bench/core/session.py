"""Runs a benchmark on its own control plane, which ends with it."""

import os
import signal
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import typer

from devcluster.cluster import Cluster
from tests.kit.cluster.operator_processes import KUBELET_PERIOD_SECONDS


@contextmanager
def own_cluster() -> Iterator[Cluster]:
    """Run a new cluster within the block."""
    with tempfile.TemporaryDirectory(prefix="gpushare-bench-") as folder:
        name = f"bench-{os.getpid()}"
        cluster = Cluster(name, Path(folder), kubelet_period_seconds=KUBELET_PERIOD_SECONDS)
        try:
            cluster.up()
            yield cluster
        finally:
            cluster.down()


def say(line: str) -> None:
    """Print a line of a benchmark's progress, with the time of day."""
    print(f"{time.strftime('%H:%M:%S')}  {line}", flush=True)


def run(command: Callable[..., None]) -> None:
    """Run a command line; SIGTERM and SIGHUP end it and its cluster as Ctrl-C does."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _interrupt)
    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    app.command()(command)
    app()


def _interrupt(signum: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt
