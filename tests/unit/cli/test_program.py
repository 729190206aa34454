"""Hints name our commands as the person called the program."""

from collections.abc import Iterator

import pytest
from typer.main import get_command

from gpushare.cli.main import app
from gpushare.cli.program_name import CALLED, NAME, NAMED, name_program
from tests.kit.cluster.command_line import start_python

PLUGIN = "kubectl gpushare"
ROLES = {"webhook", "controller", "run", "uninstall"}


@pytest.fixture
def by_kubectl() -> Iterator[None]:
    token = CALLED.set(PLUGIN)
    yield
    CALLED.reset(token)


def test_all_commands_but_those_that_start_a_process_are_known() -> None:
    assert set(NAMED) | ROLES == set(get_command(app).commands)  # type: ignore[attr-defined]


@pytest.mark.usefixtures("by_kubectl")
@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("to agree to it: gpushare approve p", "to agree to it: kubectl gpushare approve p"),
        ("`gpushare render teardown n`", "`kubectl gpushare render teardown n`"),
        ("(gpushare explain node n)", "(kubectl gpushare explain node n)"),
        ("kubectl gpushare plan pool p", "kubectl gpushare plan pool p"),
        ("kubectl-gpushare plan", "kubectl-gpushare plan"),
        ("vision/gpushare plan-b", "vision/gpushare plan-b"),
        ("the gpushare webhook is away", "the gpushare webhook is away"),
        ("gpushare: there is no pool p", "gpushare: there is no pool p"),
    ],
)
def test_a_hint_is_for_kubectl_where_kubectl_called_us(text: str, named: str) -> None:
    assert name_program(text) == named


def test_else_it_is_as_it_stands() -> None:
    assert CALLED.get() == NAME
    assert name_program("gpushare approve p") == "gpushare approve p"


def test_the_plugin_names_itself_in_errors_too() -> None:
    script = (
        "import sys\n"
        "from gpushare.cli import main\n"
        "from gpushare.cli.output.answer import print_note\n"
        "main.app = lambda prog_name: print_note('first: gpushare plan pool p')\n"
        "main.kubectl_gpushare()"
    )
    assert start_python("-c", script).err == "first: kubectl gpushare plan pool p\n"
