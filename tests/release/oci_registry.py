"""A registry for images and charts on loopback."""

import os
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import NamedTemporaryFile

from devcluster.toolchain import REGISTRY, ensure_binaries
from devcluster.waiting import wait_until

_START_SECONDS = 60


@contextmanager
def run_registry() -> Iterator[str]:
    """Its host and port; it speaks plain HTTP, and what it holds ends with it."""
    program = ensure_binaries(os.environ, REGISTRY) / "registry"
    command = [str(program), "-port", "0"]
    # A file, since it logs every request, and nobody reads on.
    with NamedTemporaryFile("r+") as log, subprocess.Popen(command, stderr=log) as process:
        try:

            def find_port() -> re.Match[str] | None:
                return re.search(r"serving on port (\d+)", Path(log.name).read_text())

            wait_until(
                lambda: find_port() is not None,
                expectation="the registry serves",
                timeout_seconds=_START_SECONDS,
                advice=lambda: Path(log.name).read_text(),
            )
            port = find_port()
            assert port is not None
            yield f"localhost:{port[1]}"
        finally:
            process.kill()
