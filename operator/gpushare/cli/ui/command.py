"""Defines the command `ui` and its options."""

from typing import Annotated

import typer

from gpushare.cli.errors.failures import errors_as_sentences
from gpushare.cli.input import options
from gpushare.cli.input.examples import CommandWithExamples
from gpushare.cli.usage import prometheus_options


def add_ui_command(app: typer.Typer) -> None:
    """Add the command to `app`."""
    app.command(
        cls=CommandWithExamples,
        epilog="""
        ui
        ui --port 8765 --no-browser
        ui --snapshot cluster.json
        ui --prometheus http://prometheus.monitoring:9090
        """,
    )(ui)


def ui(
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Port on 127.0.0.1; 0 means any free port.")
    ] = 0,
    no_browser: Annotated[
        bool, typer.Option("--no-browser", help="Only print the address of the page.")
    ] = False,
    prometheus: prometheus_options.Url = "",
    prometheus_service: prometheus_options.Service = "",
    prometheus_config: prometheus_options.Config = None,
    prometheus_label: prometheus_options.Labels = None,
    snapshot: options.Snapshot = None,
    kubeconfig: options.Kubeconfig = None,
    context: options.Context = None,
) -> None:
    """Serve a page on 127.0.0.1 that shows the pools and updates itself, until Ctrl-C.

    Nodes are rows, cards bars with their pods in them; beside them the mode, isolation, the change
    in progress, and why a node waits. A second page moves nodes between pools by sliders, and shows
    what `simulate` says of that. It reads what `inspect --pools` reads, with your rights, and
    writes nothing. Its address holds a secret: other users of the machine can't read the page.

    With --prometheus or --prometheus-service, it also shows how much memory pods use, beside what
    they asked for. docs/usage.md lists the exporters by which that is known.
    """
    given = prometheus_options.parse_prometheus(
        prometheus, prometheus_service, prometheus_config, prometheus_label
    )
    with errors_as_sentences():
        from gpushare.cli.cluster.access import Access
        from gpushare.cli.ui.page import show_page

        access = Access(kubeconfig, context, snapshot)
        show_page(access, port, given, opens_browser=not no_browser)
