"""Completes commands: scripts for shells, and answers for kubectl, which asks its plugins."""

import os
import shlex
from contextlib import redirect_stdout, suppress
from enum import StrEnum
from io import StringIO

import typer

_VARIABLE = "_GPUSHARE_COMPLETE"
"""Variable by which a shell's script selects what is printed."""
_FILES, _NO_FILES = 0, 4
"""Directives for kubectl's completion: with files, without (ShellCompDirective of cobra)."""
_KUBECTL_SCRIPT = """\
#!/bin/sh
# For `kubectl gpushare`: as kubectl_complete-gpushare on PATH, executable.
exec kubectl-gpushare __complete "$@"
"""
COMPLETE = "__complete"
"""First argument of the plugin where kubectl's script asks what may follow the others."""


class Shell(StrEnum):
    """A shell that completes commands, or kubectl."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"
    KUBECTL = "kubectl"


def build_script(app: typer.Typer, shell: Shell) -> str:
    """Build the script with which `shell` completes `gpushare`; kubectl `kubectl gpushare`."""
    if shell is Shell.KUBECTL:
        return _KUBECTL_SCRIPT
    return _ask(app, f"source_{shell}")


def complete_for_kubectl(app: typer.Typer, words: list[str]) -> str:
    """Complete the last of `words`: a line for each proposal, as kubectl wants it."""
    os.environ |= {
        "COMP_WORDS": shlex.join(["gpushare", *words]),
        "COMP_CWORD": str(len(words)),
    }
    found = _ask(app, "complete_bash").split()
    wants_value = words[-2:-1] and words[-2].startswith("-")
    offers_files = wants_value and not found
    return "\n".join([*found, f":{_FILES if offers_files else _NO_FILES}", ""])


def enable_completion() -> None:
    """Register the shells with typer where a shell asks; otherwise that would only take time."""
    if _VARIABLE in os.environ:
        from typer.completion import get_completion_inspect_parameters

        get_completion_inspect_parameters()


def _ask(app: typer.Typer, question: str) -> str:
    """Return what `app` answers to a shell's `question`."""
    os.environ[_VARIABLE] = question
    enable_completion()
    said = StringIO()
    with redirect_stdout(said), suppress(SystemExit):
        app(args=[], prog_name="gpushare")
    del os.environ[_VARIABLE]
    return said.getvalue()
