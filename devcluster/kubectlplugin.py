"""Installs the kubectl plugin of this checkout on PATH."""

import os
import subprocess
import sys
from pathlib import Path

from devcluster.startup import PROJECT

_EXECUTABLE = 0o755


def write_plugin(folder: Path) -> None:
    """Write this checkout's program into `folder` as a kubectl plugin, with its completion."""
    folder.mkdir(parents=True, exist_ok=True)
    source = PROJECT / "operator"
    start = "from gpushare.cli.entrypoint import kubectl_gpushare; kubectl_gpushare()"
    plugin = f'PYTHONPATH="{source}" exec "{sys.executable}" -c "{start}" "$@"'
    _write_script(folder / "kubectl-gpushare", f"#!/bin/sh\n{plugin}\n")
    completion = subprocess.run(
        [sys.executable, "-m", "gpushare", "completion", "kubectl"],
        env={**os.environ, "PYTHONPATH": str(source)},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    _write_script(folder / "kubectl_complete-gpushare", completion.stdout)


def _write_script(path: Path, text: str) -> None:
    path.write_text(text)
    path.chmod(_EXECUTABLE)
