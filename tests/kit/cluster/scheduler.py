"""Runs a kube-scheduler with a test's configuration."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from devcluster.ports import is_free
from devcluster.processes import spawn
from tests.kit.bench import Bench


@contextmanager
def scheduled_by(bench: Bench, text: str, folder: Path) -> Iterator[Path]:
    """Run kube-scheduler with this configuration within the block, while the cluster's pauses;
    return its log."""
    cluster = bench.cluster
    configuration, log = folder / "scheduler.yaml", folder / "scheduler.log"
    configuration.write_text(text)
    port = next(port for port in reversed(cluster.ports.spare) if is_free(port))
    own = {"--config": str(configuration), "--secure-port": str(port)}
    with bench.paused("kube-scheduler") as pid:
        command = Path(f"/proc/{pid}/cmdline").read_bytes().decode().split("\0")[:-1]
        kept = [each for each in command if each.partition("=")[0] not in own]
        assert len(kept) == len(command) - len(own), command
        process = spawn(
            [*kept, *(f"{flag}={value}" for flag, value in own.items())],
            folder=cluster.folder,
            working_folder=folder,
            log=log,
            env=os.environ,
        )
        try:
            yield log
        finally:
            process.kill()
            process.wait()
