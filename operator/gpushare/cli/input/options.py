"""Options that commands have in common."""

from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from gpushare.cli.output.answer import Format

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
