"""A bench's run: on a control plane of its own, which ends with it, however that comes."""

import os
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import aiohttp
import typer

from devcluster.cluster import Cluster
from devcluster.errors import DevclusterError
from tests.bench.waiting import BenchError
from tests.kit.operator import KUBELET_PERIOD_SECONDS


@contextmanager
def own_cluster(bench: str) -> Iterator[Cluster]:
    """A new cluster for as long as the block lasts.

    What went wrong in the block is told in a sentence each, under the name of the `bench`, and
    the process exits with status 1.
    """
    reasons: list[Exception] = []
    with tempfile.TemporaryDirectory(prefix="gpushare-bench-") as folder:
        cluster = Cluster(
            f"bench-{os.getpid()}", Path(folder), kubelet_period_seconds=KUBELET_PERIOD_SECONDS
        )
        try:
            cluster.up()
            yield cluster
        except* (BenchError, DevclusterError, AssertionError, aiohttp.ClientError) as errors:
            reasons += _find_reasons(errors)
        finally:
            cluster.down()
    for reason in reasons:
        print(f"{bench}: not finished: {reason}", file=sys.stderr)
    if reasons:
        sys.exit(1)


def say(line: str) -> None:
    """Print a line of a bench's progress, with the time of day."""
    print(f"{time.strftime('%H:%M:%S')}  {line}", flush=True)


def run(app: typer.Typer) -> None:
    """Run a bench's command line; SIGTERM and SIGHUP end it as Ctrl-C does, and its cluster too."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _interrupt)
    app()


def _find_reasons(errors: BaseExceptionGroup[Exception]) -> Iterator[Exception]:
    """The errors themselves, out of however many groups of tasks."""
    for error in errors.exceptions:
        if isinstance(error, BaseExceptionGroup):
            yield from _find_reasons(error)
        else:
            yield error


def _interrupt(signum: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt
