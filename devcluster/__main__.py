"""``python -m devcluster``: the cluster from the command line, for make and for people."""

import os
import signal
import sys
import time
from pathlib import Path
from types import FrameType
from typing import Annotated

import typer

from devcluster.chromium import ensure_chromium
from devcluster.cluster import Cluster
from devcluster.company.kueue import running_kueue
from devcluster.editions import EDITIONS, Edition, install_edition
from devcluster.errors import DevclusterError
from devcluster.images import build_operator_image
from devcluster.installation import Installation
from devcluster.node.cluster import NodeCluster
from devcluster.node.plugins import import_plugin, install_plugin
from devcluster.node.release import NodeRelease, provide_image
from devcluster.nodes import (
    OtherKind,
    add_nodes,
    build_gpu_node,
    build_other_node,
    reboot_node,
    remove_nodes,
    restart_kubelet,
)
from devcluster.toolchain import COMPANY, KUBE_SCORE, PROMETHEUS, ensure_binaries
from devcluster.versions import ensure_version

app = typer.Typer(
    help=__doc__, no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False
)
nodes = typer.Typer(help="Simulated nodes.", no_args_is_help=True)
app.add_typer(nodes, name="nodes")

Name = Annotated[str, typer.Option(help="The cluster's name.")]
Folder = Annotated[Path, typer.Option(help="The cluster's folder.")]
DEMO, DEV = "demo", Path(".dev")
NODE = DEV / "node"
_CARDS, _CARD_GIB = 2, 8
"""Cards of the real node, and memory of each."""


def _report(text: str) -> None:
    typer.echo(f"devcluster: {text}", err=True)


@app.command()
def build(
    kube_score: Annotated[bool, typer.Option("--kube-score", help="kube-score, too.")] = False,
    prometheus: Annotated[bool, typer.Option("--prometheus", help="Prometheus, too.")] = False,
    company: Annotated[
        bool, typer.Option("--company", help="Other projects' controllers, too.")
    ] = False,
    kubernetes: Annotated[
        str | None,
        typer.Option(
            metavar="VERSION",
            help="Instead, another version's control plane (1.34 or 1.34.4); its folder is "
            "printed, for DEVCLUSTER_BIN.",
        ),
    ] = None,
) -> None:
    """Build the control plane's binaries, where that has not been done on this machine."""
    if kubernetes is not None:
        typer.echo(ensure_version(kubernetes, os.environ, report=_report))
        return
    _report(f"the binaries are in {ensure_binaries(os.environ, report=_report)}")
    if kube_score:
        folder = ensure_binaries(os.environ, KUBE_SCORE, report=_report)
        _report(f"kube-score is in {folder}")
    if prometheus:
        folder = ensure_binaries(os.environ, PROMETHEUS, report=_report)
        _report(f"prometheus and promtool are in {folder}")
    for module in COMPANY if company else ():
        folder = ensure_binaries(os.environ, module, report=_report)
        _report(f"{module.programs} is in {folder}")


@app.command()
def browser() -> None:
    """Find a Chromium, or get Debian's, where this machine has none."""
    _report(f"Chromium is {ensure_chromium(os.environ, report=_report).program}")


@app.command()
def image(
    tag: Annotated[str, typer.Argument(help="The image's name.")],
    build_arg: Annotated[list[str] | None, typer.Option(help="NAME=VALUE, repeatable.")] = None,
) -> None:
    """Build the operator's image by buildah, where there is no container engine."""
    build_args = dict(_parse_pair(text) for text in build_arg or [])
    build_operator_image(tag, build_args=build_args, report=typer.echo)


@app.command()
def up(
    name: Name = DEMO,
    folder: Folder = DEV,
    kubelet_period_seconds: Annotated[
        float | None, typer.Option(help="Between reports of simulated kubelets; 10 as real ones.")
    ] = None,
) -> None:
    """Start the cluster, building its binaries if that has not been done on this machine."""
    Cluster(name, folder, kubelet_period_seconds=kubelet_period_seconds).up(report=_report)


@app.command()
def down(name: Name = DEMO, folder: Folder = DEV) -> None:
    """End the cluster: no process and no file of it stays."""
    Cluster(name, folder).down()
    _report(f"cluster {name} is down")


@app.command()
def node(
    name: Name = "node",
    folder: Folder = NODE,
    edition: Annotated[
        str | None,
        typer.Option(
            help=f"One of {', '.join(EDITIONS)}: also install its device plugin, with "
            f"{_CARDS} cards of {_CARD_GIB} GiB, and by Helm the operator as this checkout has it."
        ),
    ] = None,
) -> None:
    """Start a cluster with a real node: kubelet and containerd in namespaces of their own."""
    wanted = _parse_edition(edition) if edition is not None else None
    cluster = NodeCluster(name, folder)
    cluster.up(report=_report)
    if wanted is None:
        return
    provide_image(cluster, report=_report)
    import_plugin(cluster, report=_report)
    install_plugin(cluster, wanted, cards=_CARDS, card_gib=_CARD_GIB)
    _report("installing the operator by Helm")
    NodeRelease(cluster).bring_up_to_date()
    _report(f"the operator and the {wanted} edition are installed; docs/testing.md has a pool")


@app.command("node-down")
def node_down(name: Name = "node", folder: Folder = NODE) -> None:
    """End that cluster: no process, mount, cgroup and file of it stays."""
    NodeCluster(name, folder).down()
    _report(f"cluster {name} is down")


@app.command()
def edition(
    edition: Annotated[str, typer.Argument(help=f"One of {', '.join(EDITIONS)}.")],
    name: Name = DEMO,
    folder: Folder = DEV,
) -> None:
    """Install an edition's DaemonSets in place of another's."""
    known = _parse_edition(edition)
    install_edition(Cluster(name, folder), known)
    _report(f"{known} is installed")


@nodes.command("add")
def nodes_add(
    names: Annotated[list[str], typer.Argument(help="Names of the nodes.")],
    cards: Annotated[int, typer.Option(min=1, help="GPU cards of each.")] = 1,
    card_memory_gib: Annotated[int, typer.Option(min=1, help="Memory of a card, GiB.")] = 15,
    label: Annotated[list[str] | None, typer.Option(help="KEY=VALUE, repeatable.")] = None,
    kind: Annotated[OtherKind | None, typer.Option(help="Nodes without cards.")] = None,
    name: Name = DEMO,
    folder: Folder = DEV,
) -> None:
    """Add nodes, with cards if no kind is given, and wait until they are Ready."""
    labels = dict(_parse_pair(text) for text in label or [])
    add_nodes(
        Cluster(name, folder),
        [
            build_gpu_node(node, cards=cards, card_memory_gib=card_memory_gib, labels=labels)
            if kind is None
            else build_other_node(kind, node, labels=labels)
            for node in names
        ],
    )


@nodes.command("remove")
def nodes_remove(
    names: Annotated[list[str], typer.Argument(help="Names of the nodes.")],
    name: Name = DEMO,
    folder: Folder = DEV,
) -> None:
    """Delete nodes."""
    remove_nodes(Cluster(name, folder), names)


@nodes.command("reboot")
def nodes_reboot(
    names: Annotated[list[str], typer.Argument(help="Names of the nodes.")],
    name: Name = DEMO,
    folder: Folder = DEV,
) -> None:
    """Let nodes be in another boot: their plugins start anew, their GPU pods are Failed."""
    for node in names:
        boot_id = reboot_node(Cluster(name, folder), node)
        _report(f"{node} is in boot {boot_id}")


@nodes.command("restart-kubelet")
def nodes_restart_kubelet(
    names: Annotated[list[str], typer.Argument(help="Names of the nodes.")],
    name: Name = DEMO,
    folder: Folder = DEV,
) -> None:
    """Restart the kubelets of nodes: pods go on, device plugins read their node's labels again."""
    for node in names:
        restart_kubelet(Cluster(name, folder), node)


@app.command()
def operator(name: Name = DEMO, folder: Folder = DEV) -> None:
    """Install the operator from the chart and run it beside the cluster until Ctrl-C."""
    installation = Installation(Cluster(name, folder))
    installation.apply()
    process = installation.start("run", identity="operator")
    _report(f"gpushare run is started; it logs to {process.log}; Ctrl-C ends it")
    try:
        while process.alive:
            time.sleep(0.2)
    except KeyboardInterrupt:
        process.stop()
        return
    raise DevclusterError(f"gpushare run ended with status {process.process.returncode}.")


@app.command()
def kueue(name: Name = DEMO, folder: Folder = DEV) -> None:
    """Install Kueue, built if that has not been done, and run it beside the cluster until
    Ctrl-C."""
    try:
        with running_kueue(Cluster(name, folder), report=_report) as started:
            _report(f"Kueue is started; it logs to {started.log}; Ctrl-C ends and removes it")
            while started.alive:
                time.sleep(0.2)
    except KeyboardInterrupt:
        return
    raise DevclusterError(f"Kueue ended; see {started.log}.")


def _parse_edition(text: str) -> Edition:
    known: dict[str, Edition] = {item.lower(): item for item in EDITIONS}
    if text.lower() not in known:
        raise typer.BadParameter(f"{text!r}: use one of {', '.join(known.values())}")
    return known[text.lower()]


def _parse_pair(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not (key and equals):
        raise typer.BadParameter(f"{text!r}: write it as KEY=VALUE")
    return key, value


def _interrupt(signum: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def main() -> None:
    """Run the command line; an error is one message and status 1, an interrupt status 130."""
    # A SIGTERM (of make, of CI) and a closed terminal clear up as Ctrl-C does.
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _interrupt)
    try:
        app(standalone_mode=True)
    except DevclusterError as error:
        _report(str(error))
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
