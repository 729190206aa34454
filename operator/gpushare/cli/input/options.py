"""Options that commands have in common."""

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
    typer.Option(help="Kubeconfig file; else those of KUBECONFIG, ~/.kube/config, or the Pod's."),
]
Context = Annotated[str | None, typer.Option(help="Context of the kubeconfig; else its current.")]
Snapshot = Annotated[
    Path | None,
    typer.Option(help="Read this file of `gpushare snapshot`, and no cluster."),
]
Output = Annotated[Format, typer.Option("--output", "-o", help="How to print it.")]
Recursive = Annotated[
    bool, typer.Option("--recursive", "-R", help="With -f: the folders in a folder, too.")
]


class Printed(StrEnum):
    """What is printed of manifests."""

    DIFF = "diff"
    YAML = "yaml"
    JSON = "json"


class Unisolated(StrEnum):
    """What nodes of the Basic edition become whose isolation is off."""

    CGPU = "cgpu"
    SHARE = "share"


def filename(what: str) -> Any:
    """The option -f, for manifests; `what` says of what, and in place of what."""
    how = "A file or a folder, - is standard input; may be given several times."
    return typer.Option("--filename", "-f", metavar="<path>", help=f"{what} {how}")


def check_recursive(files: Sequence[Path] | None, *, recursive: bool) -> None:
    """Raise `BadParameter` for a -R that has no folder."""
    if recursive and not files:
        raise typer.BadParameter("goes with -f", param_hint="-R")


_KUBECONFIG, _CONTEXT, _SNAPSHOT, _OUTPUT = (
    inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=option)
    for name, option, default in (
        ("kubeconfig", Kubeconfig, None),
        ("context", Context, None),
        ("snapshot", Snapshot, None),
        ("output", Output, Format.TABLE),
    )
)


def reads_cluster(answer: Callable[..., Answer]) -> Callable[..., None]:
    """The command that prints this answer, with the options that say from which cluster or
    snapshot, and how. `answer` is given an `Access` first, then what else is typed."""
    return _build_command(answer, (_OUTPUT, _SNAPSHOT, _KUBECONFIG, _CONTEXT))


def writes_cluster(answer: Callable[..., Answer]) -> Callable[..., None]:
    """The same for a command that writes to the cluster, which a snapshot can't stand for."""
    return _build_command(answer, (_OUTPUT, _KUBECONFIG, _CONTEXT))


def _build_command(
    answer: Callable[..., Answer], shared: Sequence[inspect.Parameter]
) -> Callable[..., None]:
    @wraps(answer)
    def run(
        *,
        output: Format,
        kubeconfig: Path | None,
        context: str | None,
        snapshot: Path | None = None,
        **typed: Any,
    ) -> None:
        with errors_as_sentences():
            with importing():
                from gpushare.cli.cluster.access import Access

            told = answer(Access(kubeconfig, context, snapshot), **typed)
            print_answer(told, output)
            if told.exit_code:
                raise typer.Exit(told.exit_code)

    _, *own = inspect.signature(answer).parameters.values()
    every = [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in (*own, *shared)]
    # By these typer knows what may be typed.
    run.__dict__["__signature__"] = inspect.Signature(every)
    run.__annotations__ = {each.name: each.annotation for each in every}
    return run
