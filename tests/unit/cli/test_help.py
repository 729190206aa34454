"""Help: quick, with examples; and the name by which the program was called, in all that it says."""

import re
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest
from typer.main import get_command

from gpushare.cli.main import app
from tests.kit.cluster.command_line import CommandResult, run_command, start_command, start_python

PROCESSES = {"controller", "webhook", "run", "uninstall"}
"""Started by a Deployment or a hook, not typed."""
LARGE = ("aiohttp", "kopf", "kubernetes", "gpushare.api", "rich", "yaml", "jinja2", "asyncio")


def list_commands(group: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from list_commands(command, (*path, name))
        else:
            yield (*path, name)


COMMANDS = sorted(set(list_commands(get_command(app))) - {(p,) for p in PROCESSES})


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_the_help_of_a_command_ends_with_two_examples_whose_options_there_are(
    command: tuple[str, ...],
) -> None:
    options, examples = run_command(*command, "--help").out.split("Examples:\n")
    lines = examples.splitlines()
    assert len(lines) >= 2
    assert all(line.startswith(f"  gpushare {' '.join(command)}") for line in lines)
    named = set(re.findall(r"(?<= )--?[a-z][a-z-]*", examples))
    assert named <= set(re.findall(r"--?[a-z][a-z-]*", options))


def test_help_imports_nothing_large() -> None:
    """The time that a person waits is that of the imports."""
    script = (
        "import sys; from gpushare.cli.main import app\n"
        "try: app(['inspect', '--help'])\n"
        f"except SystemExit: print([m for m in {LARGE} if m in sys.modules], file=sys.stderr)"
    )
    assert start_python("-c", script).err == "[]\n"


def start_plugin(*arguments: str) -> CommandResult:
    script = "from gpushare.cli.entrypoint import kubectl_gpushare; kubectl_gpushare()"
    return start_python("-c", script, *arguments)


def test_the_plugin_calls_itself_as_kubectl_does() -> None:
    shown = start_plugin("inspect", "--help").out
    assert shown.startswith("Usage: kubectl gpushare inspect ")
    assert "\n  kubectl gpushare inspect --pools -o wide\n" in shown


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish", "kubectl"])
def test_there_is_a_completion_for_each_shell(shell: str) -> None:
    shown = run_command("completion", shell)
    assert (shown.code, shown.err) == (0, "")
    assert "gpushare" in shown.out


def test_a_shell_completes_commands_and_options() -> None:
    def complete(*words: str) -> list[str]:
        asked = {"COMP_WORDS": " ".join(["gpushare", *words]), "COMP_CWORD": str(len(words))}
        return start_command(_GPUSHARE_COMPLETE="complete_bash", **asked).out.split()

    assert complete("insp") == ["inspect"]
    assert complete("inspect", "--out") == ["--output"]
    assert complete("inspect", "-o", "w") == ["wide"]


def test_bash_takes_its_script() -> None:
    script = f"{run_command('completion', 'bash').out}\ncomplete -p gpushare"
    told = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True)
    assert told.stdout == "complete -o default -F _gpushare_completion gpushare\n"


@pytest.mark.parametrize(
    ("words", "answer"),
    [
        (["inspect", ""], ":4\n"),
        (["inspect", "--snapshot", ""], ":0\n"),
        (["inspect", "'a b'", "--out"], "--output\n:4\n"),
    ],
)
def test_kubectl_offers_files_only_where_an_option_wants_one(words: list[str], answer: str) -> None:
    assert start_plugin("__complete", *words).out == answer


def test_commands_have_the_name_that_the_user_typed_and_all_else_is_as_it_is() -> None:
    script = (
        "import sys\n"
        "from gpushare.analysis.program_name import name_command\n"
        "from gpushare.cli import main\n"
        "from gpushare.cli.output.answer import print_note\n"
        "main.app = lambda prog_name: print_note(f'gpushare plan: {name_command(\"plan\")}')\n"
        "getattr(main, sys.argv[1])()"
    )
    for name, called in (("gpushare", "gpushare"), ("kubectl_gpushare", "kubectl gpushare")):
        assert start_python("-c", script, name).err == f"gpushare plan: {called} plan\n"
