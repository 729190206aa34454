"""`gpushare teardown-commands`: what a person types on a node that must not isolate any more."""

from typer.testing import CliRunner

from gpushare.cli.main import app
from gpushare.render.teardown import render_teardown_commands


def test_it_prints_what_the_nodes_event_says() -> None:
    done = CliRunner().invoke(app, ["teardown-commands", "cn-beijing.192.168.8.4"])
    assert (done.exit_code, done.stdout) == (0, render_teardown_commands("cn-beijing.192.168.8.4"))


def test_without_a_node_it_says_what_is_missing() -> None:
    done = CliRunner().invoke(app, ["teardown-commands"])
    assert done.exit_code == 2
    assert "node" in done.output
