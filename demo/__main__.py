"""``python -m demo``: the guides, replayed on a control plane of their own."""

import os
import signal
import sys
from collections.abc import Callable, Mapping
from enum import StrEnum
from pathlib import Path
from types import FrameType
from typing import Annotated

import typer
from rich.console import Console

from demo.operators import HelmRelease, OneProcess, Operator, PolicyAlone
from demo.scenes import ALONE, SCENES
from demo.stage import KEPT_LOGS, Stage
from demo.story import Scene, Story
from devcluster.cluster import Cluster
from devcluster.errors import DevclusterError
from devcluster.startup import PROJECT

_WIDTH = 100
_LOOK_AROUND = """
The cluster and the operator stay up; `make cluster-down` ends them. To look around:

  export KUBECONFIG={kubeconfig} PATH={programs}:{binaries}:$PATH
  kubectl get gsp
  kubectl gpushare inspect --pools
  kubectl get nodes -L gpushare.io/pool,cgpu,cgpu.disable.isolation,ack.node.gpu.schedule,gpushare
"""
_ADVICE = """
The operator's, simulator's and control plane's logs of this run are in {logs}.
To look around where it failed, in a cluster that stays up: make demo SCENE={scene} KEEP=1{helm}
"""


class Installed(StrEnum):
    """How the operator is installed."""

    PROCESS = "process"
    HELM = "helm"
    POLICY = "policy"


_OPERATORS: Mapping[Installed, Callable[[Cluster], Operator]] = {
    Installed.PROCESS: OneProcess,
    Installed.HELM: HelmRelease,
    Installed.POLICY: PolicyAlone,
}

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


def _find_scenes(installation: Installed, given: list[str] | None) -> Mapping[str, Scene]:
    """Find the scenes of these names; without names all of the installation. Raises an error that
    lists them for an unknown one."""
    known = ALONE if installation is Installed.POLICY else SCENES
    for name in given or ():
        if name not in known:
            raise typer.BadParameter(f"{name!r} is none; there are {', '.join(known)}.")
    return {name: known[name] for name in given or known}


@app.command()
def play(
    keep: Annotated[bool, typer.Option(help="Leave the cluster and the operator up.")] = False,
    folder: Annotated[
        Path, typer.Option(help="The cluster's folder.", show_default=".dev")
    ] = PROJECT / ".dev",
    installation: Annotated[
        Installed,
        typer.Option(
            help="process: `gpushare run`; helm: the chart, as pods of a release; policy: the same "
            "without a webhook, with a scene of its own."
        ),
    ] = Installed.PROCESS,
    scenes: Annotated[
        list[str] | None,
        typer.Option("--scene", help=f"Only this one, of {', '.join(SCENES)}."),
    ] = None,
) -> None:
    """Replay the guides on GPU-sharing node pools with the operator at work."""
    played = _find_scenes(installation, scenes)
    console = Console(highlight=False)
    console.width = min(_WIDTH, console.width) if console.is_terminal else _WIDTH
    stage = Stage(folder.absolute(), _OPERATORS[installation])
    os.chdir(PROJECT)  # the commands that are shown name files from here
    stage.open(report=lambda text: console.print(text, style="dim", soft_wrap=True))
    story = Story(stage, console)
    kept = False
    try:
        failed = [name for name, scene in played.items() if not story.play(scene)]
        kept = keep
        if failed:
            stage.keep_logs()
    finally:
        if not kept:
            stage.close()
    if kept:
        look_around = _LOOK_AROUND.format(
            kubeconfig=stage.cluster.kubeconfig,
            programs=stage.cluster.programs,
            binaries=stage.cluster.binaries,
        )
        console.print(look_around, soft_wrap=True)
    if failed:
        helm = "" if installation is Installed.PROCESS else f" {installation.upper()}=1"
        advice = _ADVICE.format(logs=KEPT_LOGS, scene=failed[0], helm=helm)
        console.print(advice, soft_wrap=True)
    console.print(f"\n{story.summary()}", markup=False, soft_wrap=True)
    sys.exit(1 if failed else 0)


def _interrupt(signum: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def main() -> None:
    """Run the demo; an error is one message and status 1, an interrupt status 130."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _interrupt)
    try:
        app()
    except DevclusterError as error:
        print(f"demo: {error}", file=sys.stderr)
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
