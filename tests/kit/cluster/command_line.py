"""Runs commands as a user or a script does: outputs and exit code."""

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from typer.testing import CliRunner

from gpushare.cli.main import app

SOURCE = Path(__file__).parents[3] / "operator"
NOBODY = {"HOME": "/nonexistent", "KUBECONFIG": "", "KUBERNETES_SERVICE_HOST": ""}
_TIMEOUT_SECONDS = 60


@dataclass(frozen=True)
class CommandResult:
    code: int
    out: str
    err: str


def run_command(*arguments: str, kubeconfig: Path | None = None, **environ: str) -> CommandResult:
    """Run `gpushare ARGUMENTS` with a kubeconfig, or without one. Runs in this process, since the
    imports take most of the time."""
    own = {"KUBECONFIG": str(kubeconfig)} if kubeconfig is not None else {}
    done = CliRunner().invoke(
        app, list(arguments), env=NOBODY | own | environ, prog_name="gpushare"
    )
    return CommandResult(done.exit_code, done.stdout, done.stderr)


def start_command(*arguments: str, **environ: str) -> CommandResult:
    """Run `gpushare ARGUMENTS` in its own process."""
    return start_python("-m", "gpushare", *arguments, **environ)


def start_python(*arguments: str, **environ: str) -> CommandResult:
    """Run Python with the program on its path, and few variables of ours."""
    own = {"PATH": os.environ["PATH"], "PYTHONPATH": str(SOURCE), "HOME": "/nonexistent"}
    ended = subprocess.run(
        [sys.executable, *arguments],
        env=own | environ,
        capture_output=True,
        text=True,
        timeout=_TIMEOUT_SECONDS,
        check=False,
    )
    return CommandResult(ended.returncode, ended.stdout, ended.stderr)


def expect_error(ended: CommandResult, code: int, *parts: str) -> None:
    """Check the exit code, one sentence with these parts, and an empty standard output."""
    assert (ended.code, ended.out) == (code, ""), ended
    (sentence,) = ended.err.splitlines()
    assert sentence.startswith("gpushare: ")
    for part in parts:
        assert part in sentence, sentence
