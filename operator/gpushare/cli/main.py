"""The `gpushare` command. What a role needs is imported when it starts: `--help` is quick."""

import os
import sys
from collections.abc import Callable, Coroutine
from functools import partial
from io import TextIOWrapper
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gpushare import __version__
from gpushare.analysis.program_name import CALLED
from gpushare.cli.adopt.command import add_adopt
from gpushare.cli.completion import (
    COMPLETE,
    Shell,
    build_script,
    complete_for_kubectl,
    enable_completion,
)
from gpushare.cli.doctor.command import add_doctor_command
from gpushare.cli.errors.failures import errors_as_sentences
from gpushare.cli.explain.command import add_explain_commands
from gpushare.cli.freeze.command import add_freeze_commands
from gpushare.cli.imports import importing
from gpushare.cli.input.examples import CommandWithExamples
from gpushare.cli.inspect.command import add_inspect_commands
from gpushare.cli.migrate.command import add_migrate
from gpushare.cli.output.answer import give_output_up, print_note, print_text
from gpushare.cli.plan.command import add_plan_commands
from gpushare.cli.render.command import render
from gpushare.cli.simulate.command import add_simulate_command
from gpushare.cli.ui.command import add_ui_command
from gpushare.cli.usage.command import add_usage_command
from gpushare.names import PoolFate

if TYPE_CHECKING:
    from gpushare.settings import Settings

    Role = Callable[[Settings], Coroutine[Any, Any, None]]

app = typer.Typer(
    name="gpushare",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    # Plain help: it takes half the time, and the manual is made of it.
    rich_markup_mode=None,
    context_settings={"max_content_width": 100, "help_option_names": ["-h", "--help"]},
)
add_inspect_commands(app)
add_explain_commands(app)
add_ui_command(app)
add_plan_commands(app)
add_simulate_command(app)
add_usage_command(app)
add_freeze_commands(app)
add_adopt(app)
add_migrate(app)
add_doctor_command(app)
app.add_typer(render, name="render", no_args_is_help=True)


def _tell_version(is_asked: bool) -> None:
    if is_asked:
        with errors_as_sentences():
            print_text(f"gpushare {__version__}\n")
        raise typer.Exit


@app.callback()
def begin(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_tell_version, is_eager=True, help="Print the version."),
    ] = False,
) -> None:
    """Inspect, plan and change GPU-sharing node pools, and run the operator's processes."""


@app.command()
def webhook() -> None:
    """Run the admission webhook, which assigns pods that ask for shared GPU to pools."""
    with importing():
        from gpushare.webhook.manager import run_webhook

    _run_role(run_webhook)


@app.command()
def controller() -> None:
    """Run the controller, which keeps nodes as their pools specify; one is active, by a Lease."""
    with importing():
        from gpushare.controller.manager import run_controller

    _run_role(run_controller)


@app.command()
def run() -> None:
    """Run controller and webhook in one process, for small clusters and development."""
    with importing():
        from gpushare.controller.manager import run_controller
        from gpushare.webhook.manager import Webhook

    async def run_both(settings: "Settings") -> None:
        await run_controller(settings, build_webhook=Webhook)

    _run_role(run_both)


@app.command()
def uninstall(
    pools: Annotated[
        PoolFate,
        typer.Option(
            help="delete: release their nodes as each deletionPolicy says; the controller must "
            "run. keep: change neither pools nor nodes, for a later installation."
        ),
    ],
    timeout_seconds: Annotated[
        float,
        typer.Option(min=1, help="Fail after this time, and report what is still waited for."),
    ] = 210.0,
) -> None:
    """Delete or keep the pools when the operator is removed. `helm uninstall` runs this."""
    from gpushare.controller.uninstall import uninstall as uninstall_pools

    tell = partial(print, flush=True)

    async def remove(settings: "Settings") -> None:
        await uninstall_pools(settings, fate=pools, timeout_seconds=timeout_seconds, tell=tell)

    if (problem := _run(remove)) is not None:
        # A user reads it, as the lines above it.
        typer.echo(f"gpushare: {problem}", err=True)
        raise typer.Exit(1)


@app.command(
    cls=CommandWithExamples,
    epilog="""
    completion bash > ~/.local/share/bash-completion/completions/gpushare
    completion kubectl > ~/bin/kubectl_complete-gpushare
    """,
)
def completion(
    shell: Annotated[Shell, typer.Argument(help="The shell, or kubectl.")],
) -> None:
    """Print the script that completes `gpushare` in a shell, or `kubectl gpushare` in kubectl.

    bash, zsh and fish read it at their start; for kubectl, save it as the executable file
    `kubectl_complete-gpushare` in a folder of PATH.
    """
    with errors_as_sentences():
        print_text(build_script(app, shell))


def gpushare() -> None:
    """Run the program."""
    enable_completion()
    _start("gpushare")


def kubectl_gpushare() -> None:
    """Run the program as kubectl's plugin, under the name by which a user calls it."""
    if sys.argv[1:2] == [COMPLETE]:
        typer.echo(complete_for_kubectl(app, sys.argv[2:]), nl=False)
        return
    _start("kubectl gpushare")


def _start(program: str) -> None:
    """Run what was typed; help that can't be written is a sentence too."""
    if isinstance(sys.stdout, TextIOWrapper):
        # Of a name in Chinese, a terminal without it shows what it can.
        sys.stdout.reconfigure(errors="backslashreplace")
    CALLED.set(program)
    try:
        app(prog_name=program)
    except OSError as error:
        if error.filename is not None:
            raise
        print_note(f"gpushare: {give_output_up(error)}")
        sys.exit(1)


def _run_role(role: "Role") -> None:
    """Run a process; whatever ends it too soon is a line of its log too, and exit status 1."""
    import logging

    from gpushare.observe.logs import configure_logs, log_what_nobody_caught

    # Until it is known which level is wanted.
    configure_logs("INFO")
    log_what_nobody_caught()
    log = logging.getLogger(__name__)
    try:
        if (problem := _run(role)) is None:
            return
        log.critical("%s", problem)
    except Exception:
        log.critical("internal error, please report it", exc_info=True)
    raise typer.Exit(1)


def _run(role: "Role") -> str | None:
    """Run `role` to its end; return what ended it too soon, if a user can fix that."""
    import asyncio

    from gpushare.kube.errors import KubeError, describe_failure
    from gpushare.observe.connections import shrink_read_buffers
    from gpushare.observe.logs import configure_logs
    from gpushare.settings import Settings

    try:
        settings = Settings.read(os.environ)
        configure_logs(settings.log_level)
    except ValueError as error:
        return str(error)
    # Connections to the API server, too, have 256 KiB each otherwise.
    shrink_read_buffers()
    try:
        asyncio.run(role(settings))
    except (KubeError, OSError) as error:
        return describe_failure(error)
    except ExceptionGroup as group:
        if (unforeseen := group.split((KubeError, OSError))[1]) is not None:
            raise unforeseen from group
        return describe_failure(_first_of(group))
    return None


def _first_of(group: ExceptionGroup[Exception]) -> Exception:
    first = group.exceptions[0]
    return _first_of(first) if isinstance(first, ExceptionGroup) else first
