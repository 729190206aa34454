"""The `gpushare` command. What a role needs is imported when it starts: `--help` is quick."""

import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gpushare.cli.completion import (
    COMPLETE,
    Shell,
    build_script,
    complete_for_kubectl,
    enable_completion,
)
from gpushare.cli.examples import CommandWithExamples
from gpushare.cli.reading import add_reading_commands
from gpushare.names import PoolFate

if TYPE_CHECKING:
    from gpushare.settings import Settings

app = typer.Typer(
    name="gpushare",
    help="GPU-sharing node pools: the operator's processes and its manifests.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    # Plain help: it takes half the time, and the manual is made of it.
    rich_markup_mode=None,
    context_settings={"max_content_width": 100},
)
add_reading_commands(app)
render = typer.Typer(
    help="Print a manifest for a component that the operator relies on.", rich_markup_mode=None
)
app.add_typer(render, name="render", no_args_is_help=True)


@render.command(
    "scheduler-config",
    cls=CommandWithExamples,
    epilog="""
    render scheduler-config --extender-url http://127.0.0.1:32766
    render scheduler-config --extender-url http://10.0.0.1:32766 --kubeconfig scheduler.conf
    """,
)
def render_scheduler_config(
    extender_url: Annotated[
        str, typer.Option(help="Where kube-scheduler reaches the gpushare scheduler extender.")
    ],
    kubeconfig: Annotated[
        Path | None, typer.Option(help="The scheduler's own kubeconfig, on its machine.")
    ] = None,
) -> None:
    """The configuration that wires the gpushare extender into kube-scheduler."""
    from gpushare.render import render as render_template

    typer.echo(
        render_template(
            "kube-scheduler-config.yaml.j2",
            extender_url=extender_url,
            kubeconfig=str(kubeconfig) if kubeconfig else None,
        ),
        nl=False,
    )


@app.command(
    "teardown-commands",
    cls=CommandWithExamples,
    epilog="""
    teardown-commands cn-beijing.192.168.8.4
    teardown-commands cn-beijing.192.168.8.4 > teardown.sh
    """,
)
def teardown_commands(
    node: Annotated[str, typer.Argument(help="Name of the node that must not isolate any more.")],
) -> None:
    """What to type where a person removes the cGPU kernel module from a node."""
    from gpushare.render.teardown import render_teardown_commands

    typer.echo(render_teardown_commands(node), nl=False)


@app.command()
def webhook() -> None:
    """Send pods that ask for shared GPU to a pool: the admission webhook, until SIGTERM."""
    from gpushare.webhook.role import run_webhook

    _run_role(run_webhook)


@app.command()
def controller() -> None:
    """Keep the nodes of all pools as their specs say, until SIGTERM; one is active by a Lease."""
    from gpushare.controller.role import run_controller

    _run_role(run_controller)


@app.command()
def run() -> None:
    """Controller and webhook in one process, for small clusters and development."""
    from gpushare.controller.role import run_controller
    from gpushare.webhook.role import Webhook

    async def run_both(settings: "Settings") -> None:
        await run_controller(settings, build_webhook=Webhook)

    _run_role(run_both)


@app.command()
def uninstall(
    pools: Annotated[
        PoolFate,
        typer.Option(
            help="delete: give their nodes back as each deletionPolicy says; the controller must "
            "run. keep: leave them for a later installation, and their nodes as they are."
        ),
    ],
    timeout_seconds: Annotated[
        float, typer.Option(min=1, help="Fail, and say what is waited for, after so long.")
    ] = 210.0,
) -> None:
    """See to the pools when the operator is removed. `helm uninstall` runs this by itself."""
    from gpushare.controller.uninstall import uninstall as uninstall_pools

    def tell(line: str) -> None:
        typer.echo(line)
        sys.stdout.flush()

    async def remove(settings: "Settings") -> None:
        await uninstall_pools(settings, fate=pools, timeout_seconds=timeout_seconds, tell=tell)

    _run_role(remove)


@app.command(
    cls=CommandWithExamples,
    epilog="""
    completion bash > ~/.local/share/bash-completion/completions/gpushare
    completion kubectl > ~/bin/kubectl_complete-gpushare
    """,
)
def completion(
    shell: Annotated[Shell, typer.Argument(help="Who is to complete.")],
) -> None:
    """Print the script by which a shell completes `gpushare`, or kubectl `kubectl gpushare`.

    bash, zsh and fish read it at their start; for kubectl it is to be an executable file
    `kubectl_complete-gpushare` in a folder of PATH.
    """
    typer.echo(build_script(app, shell), nl=False)


def gpushare() -> None:
    """The program."""
    enable_completion()
    app(prog_name="gpushare")


def kubectl_gpushare() -> None:
    """The program as kubectl's plugin, under the name by which a person calls it."""
    if sys.argv[1:2] == [COMPLETE]:
        typer.echo(complete_for_kubectl(app, sys.argv[2:]), nl=False)
        return
    app(prog_name="kubectl gpushare")


def _run_role(role: "Callable[[Settings], Coroutine[Any, Any, None]]") -> None:
    """Run a process role; what a person can put right is one line and exit status 1."""
    import asyncio

    from gpushare.kube.errors import KubeError
    from gpushare.observe.logs import configure_logs
    from gpushare.settings import Settings

    try:
        settings = Settings()
        configure_logs(settings.log_level)
    except ValueError as error:
        raise _refusal(error) from error
    try:
        asyncio.run(role(settings))
    except (KubeError, OSError) as error:
        raise _refusal(error) from error
    except ExceptionGroup as group:
        if (unforeseen := group.split((KubeError, OSError))[1]) is not None:
            raise unforeseen from group
        raise _refusal(_first_of(group)) from group


def _first_of(group: ExceptionGroup[Exception]) -> Exception:
    first = group.exceptions[0]
    return _first_of(first) if isinstance(first, ExceptionGroup) else first


def _refusal(error: Exception) -> typer.Exit:
    typer.echo(f"gpushare: {error}", err=True)
    return typer.Exit(1)
