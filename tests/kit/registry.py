"""A registry for images and charts on loopback."""

import os
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

from devcluster.toolchain import REGISTRY, ensure_binaries


@contextmanager
def run_registry() -> Iterator[str]:
    """Its host and port; it speaks plain HTTP, and what it holds ends with it."""
    program = ensure_binaries(os.environ, REGISTRY) / "registry"
    command = [str(program), "-port", "0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr is not None
            said = process.stderr.readline()
            match = re.search(r"serving on port (\d+)", said)
            assert match is not None, said
            yield f"localhost:{match[1]}"
        finally:
            process.kill()
