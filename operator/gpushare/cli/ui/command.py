"""Defines the command `ui` and its options."""

from typing import Annotated

import typer

from gpushare.cli.errors.failures import errors_as_sentences
from gpushare.cli.input import options
from gpushare.cli.input.examples import CommandWithExamples


def add_ui_command(app: typer.Typer) -> None:
    """Add the command to `app`."""
    app.command(
        cls=CommandWithExamples,
        epilog="""
        ui
        ui --port 8765 --no-browser
        ui --snapshot cluster.json
        """,
    )(ui)


def ui(
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Port on 127.0.0.1; 0 means any free port.")
    ] = 0,
    no_browser: Annotated[
        bool, typer.Option("--no-browser", help="Only print the address of the page.")
    ] = False,
    snapshot: options.Snapshot = None,
    kubeconfig: options.Kubeconfig = None,
    context: options.Context = None,
) -> None:
    """Serve a page on 127.0.0.1 that shows the pools and updates itself, until Ctrl-C.

    Nodes are rows, cards bars with their pods in them; beside them the mode, isolation, the change
    in progress, and why a node waits. A second page moves nodes between pools by sliders, and shows
    what `simulate` says of that. It reads what `inspect --pools` reads, with your rights, and
    writes nothing. Its address holds a secret: other users of the machine can't read the page.
    """
    with errors_as_sentences():
        from gpushare.cli.cluster.access import Access
        from gpushare.cli.ui.page import show_page

        show_page(Access(kubeconfig, context, snapshot), port, opens_browser=not no_browser)
