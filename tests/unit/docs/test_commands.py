"""Commands that pages print do what they say, also on a cluster where something runs already."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from gpushare.cli.main import app
from tests.kit.values.doc_pages import DOCS, PROJECT, Page

PAGES = sorted([*DOCS.glob("*.md"), *PROJECT.glob("*.md"), PROJECT / "chart" / "README.md"])
_OURS = re.compile(r"(?:^|[|;&] *)(?:kubectl )?gpushare (\w[^|>#;&]+)")
_KEEPS_VALUES = re.compile(r"--values |--reset-then-reuse-values")


def _find_commands(command: str) -> Iterator[str]:
    """Each use of `command` on a page, to the end of its line or of its code span."""
    for page in PAGES:
        text = re.sub(r"\\\n\s*", "", page.read_text())
        for found in re.findall(rf"\b{command} [^`\n]+", text):
            yield f"{page.name}: {found}"


def test_a_helm_upgrade_keeps_the_values_of_the_release() -> None:
    commands = [
        each
        for verb in ("helm upgrade", "helm install")
        for each in _find_commands(verb)
        if " chart " in f"{each} "
    ]
    assert len(commands) > 5
    assert [each for each in commands if not _KEEPS_VALUES.search(each)] == []


def test_a_command_in_a_pod_follows_two_dashes() -> None:
    # kubectl refuses `kubectl exec POD COMMAND` since 1.31.
    commands = [*_find_commands("kubectl exec"), *_find_commands("kubectl debug")]
    assert len(commands) > 5
    assert [each for each in commands if " -- " not in each] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_each_command_of_ours_has_the_options_that_a_page_gives_it(page: Path) -> None:
    for command in Page(page).commands:
        for typed in _OURS.findall(command):
            _parse(shlex.split(typed))


def _parse(words: list[str]) -> None:
    """Parse the words after `gpushare`, without running them. Raises click's UsageError."""
    command: Any = get_command(app)
    while hasattr(command, "commands") and words and words[0] in command.commands:
        command, words = command.commands[words[0]], words[1:]
    command.make_context(command.name, words)
