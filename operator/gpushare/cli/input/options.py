"""Defines the options that commands have in common."""

import inspect
from collections.abc import Callable, Sequence
from enum import StrEnum
from functools import wraps
from pathlib import Path
from typing import Annotated, Any

import typer

from gpushare.cli.errors.failures import errors_as_sentences
from gpushare.cli.imports import importing
from gpushare.cli.output.answer import Answer, Format, print_answer

Kubeconfig = Annotated[
    Path | None,
    typer.Option(
        help="Kubeconfig file; by default KUBECONFIG, ~/.kube/config, or the Pod's account."
    ),
]
Context = Annotated[
    str | None, typer.Option(help="Context of the kubeconfig; by default the current one.")
]
Snapshot = Annotated[
    Path | None,
    typer.Option(help="Read this file of `gpushare snapshot` instead of a cluster."),
]
Recursive = Annotated[
    bool, typer.Option("--recursive", "-R", help="With -f: search subfolders too.")
]


class PageFormat(StrEnum):
    """Output formats of answers without lines."""

    TABLE = "table"
    WIDE = "wide"
    JSON = "json"
    YAML = "yaml"


class Printed(StrEnum):
    """Output formats of manifests."""

    DIFF = "diff"
    YAML = "yaml"
    JSON = "json"


class Unisolated(StrEnum):
    """Target mode of Basic nodes whose isolation is off."""

    CGPU = "cgpu"
    SHARE = "share"


def filename(what: str) -> Any:
    """Build the option -f, for manifests; `what` says of what, and instead of what."""
    how = "A file or a folder; - is standard input. May be given several times."
    return typer.Option("--filename", "-f", metavar="<path>", help=f"{what} {how}")


def check_recursive(files: Sequence[Path] | None, *, recursive: bool) -> None:
    """Raise `BadParameter` for a -R that has no folder."""
    if recursive and not files:
        raise typer.BadParameter("requires -f", param_hint="-R")


_OUTPUT = typer.Option("--output", "-o", help="Output format.")
_KUBECONFIG, _CONTEXT, _SNAPSHOT, _PAGE, _LINES = (
    inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=option)
    for name, option, default in (
        ("kubeconfig", Kubeconfig, None),
        ("context", Context, None),
        ("snapshot", Snapshot, None),
        ("output", Annotated[PageFormat, _OUTPUT], PageFormat.TABLE),
        ("output", Annotated[Format, _OUTPUT], Format.TABLE),
    )
)


def reads_cluster(answer: Callable[..., Answer]) -> Callable[..., None]:
    """Build the command that prints this answer, with the options for the cluster or snapshot, and
    for the format. `answer` gets an `Access` first, then what else is typed."""
    return _build_command(answer, (_PAGE, _SNAPSHOT, _KUBECONFIG, _CONTEXT))


def reads_cluster_for_lines(answer: Callable[..., Answer]) -> Callable[..., None]:
    """Build the same command with the format csv besides."""
    return _build_command(answer, (_LINES, _SNAPSHOT, _KUBECONFIG, _CONTEXT))


def writes_cluster(answer: Callable[..., Answer]) -> Callable[..., None]:
    """Build a command that writes to the cluster: it has no --snapshot."""
    return _build_command(answer, (_PAGE, _KUBECONFIG, _CONTEXT))


def _build_command(
    answer: Callable[..., Answer], shared: Sequence[inspect.Parameter]
) -> Callable[..., None]:
    @wraps(answer)
    def run(
        *,
        output: PageFormat | Format,
        kubeconfig: Path | None,
        context: str | None,
        snapshot: Path | None = None,
        **typed: Any,
    ) -> None:
        with errors_as_sentences():
            with importing():
                from gpushare.cli.cluster.access import Access

            told = answer(Access(kubeconfig, context, snapshot), **typed)
            print_answer(told, Format(output))
            if told.exit_code:
                raise typer.Exit(told.exit_code)

    _, *own = inspect.signature(answer).parameters.values()
    every = [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in (*own, *shared)]
    # By these typer knows what may be typed.
    run.__dict__["__signature__"] = inspect.Signature(every)
    run.__annotations__ = {each.name: each.annotation for each in every}
    return run
