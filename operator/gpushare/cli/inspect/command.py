"""The commands that read a cluster or its snapshot, and write nothing to it."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gpushare.cli.errors.failures import errors_as_sentences
from gpushare.cli.input import options
from gpushare.cli.input.examples import CommandWithExamples
from gpushare.cli.input.object_names import check_name, check_namespace_name

if TYPE_CHECKING:
    from gpushare.cli.cluster.access import Access
    from gpushare.cli.output.answer import Answer


def add_inspect_commands(app: typer.Typer) -> None:
    """Add them to `app`. What a command needs is imported when it runs: `--help` is quick."""
    app.command(
        cls=CommandWithExamples,
        epilog="""
        inspect
        inspect -d cn-beijing.192.168.8.4
        inspect --pools -o wide
        inspect --snapshot cluster.json -o json
        """,
    )(options.reads_cluster(inspect))
    app.command(
        cls=CommandWithExamples,
        epilog="""
        snapshot -o cluster.json
        snapshot --context production -o cluster.json
        """,
    )(snapshot)


def inspect(
    access: "Access",
    node: Annotated[
        str, typer.Argument(help="Only this node, whether it shares or not.", callback=check_name)
    ] = "",
    details: Annotated[
        bool, typer.Option("-d", "--details", help="Show the pods of each node.")
    ] = False,
    pools: Annotated[
        bool,
        typer.Option(
            "--pools",
            help="Pool by pool: each card, the largest free block, memory that is stranded on "
            "cards with less of it than the median pod asks for, and pods that wait, with why.",
        ),
    ] = False,
    namespace: Annotated[
        str | None,
        typer.Option(
            "--namespace",
            "-n",
            help="With --pools: of pods that wait, only its own.",
            callback=check_namespace_name,
        ),
    ] = None,
) -> "Answer":
    """Show what the cards hold, in the layout of `kubectl inspect gpushare` and `inspect cgpu`.

    The operator need not be installed, but for --pools. Nodes are sorted by name; all else is as
    the original prints it, to the byte. Amounts are in the device plugin's unit. With -o wide each
    card has a line, which names its pods.
    """
    if pools and (node or details):
        raise typer.BadParameter("goes without NODE and -d", param_hint="--pools")
    if namespace is not None and not pools:
        raise typer.BadParameter("goes with --pools", param_hint="-n")
    if pools:
        from gpushare.cli.inspect.pools_view import inspect_pools

        return inspect_pools(access, namespace)
    from gpushare.cli.inspect.view import inspect_nodes

    return inspect_nodes(access, node, details=details)


def snapshot(
    output: Annotated[
        Path,
        typer.Option("--output", "-o", help="File to write, which only you can read; - is stdout."),
    ],
    kubeconfig: options.Kubeconfig = None,
    context: options.Context = None,
) -> None:
    """Write what the other commands read of the cluster to a file, for their --snapshot.

    Secrets and logs are not read; of ConfigMaps only those of kube-system that tell of unhealthy
    cards are kept. Of a pod that asks for GPUs, or runs a device
    plugin, only where it may run and what it asks of GPUs is kept; of other pods nothing; of the
    operator's Deployments how it is set. The manual (docs/cli.md) lists each field.
    """
    with errors_as_sentences():
        from gpushare.api.pruned.cluster import Kind
        from gpushare.cli.cluster.access import Access
        from gpushare.cli.cluster.snapshot_file import build_snapshot, write_file

        cluster = Access(kubeconfig, context).read(*Kind)
        write_file(output, build_snapshot(cluster))
