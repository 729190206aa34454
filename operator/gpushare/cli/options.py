"""Options that reading commands have in common."""

from pathlib import Path
from typing import Annotated

import typer

from gpushare.cli.output import Format

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
