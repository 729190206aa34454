"""Defines the commands `inspect` and `snapshot` and their options."""

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
        str,
        typer.Argument(help="Show only this node, even if it does not share.", callback=check_name),
    ] = "",
    details: Annotated[
        bool, typer.Option("-d", "--details", help="Show the pods of each node.")
    ] = False,
    pools: Annotated[
        bool,
        typer.Option(
            "--pools",
            help="Show each pool with its cards, the largest free block, memory stranded on cards "
            "with less of it than the median pod asks for, and pods that wait, and why.",
        ),
    ] = False,
    namespace: Annotated[
        str | None,
        typer.Option(
            "--namespace",
            "-n",
            help="With --pools: show only waiting pods of this namespace.",
            callback=check_namespace_name,
        ),
    ] = None,
) -> "Answer":
    """Show what the cards hold, in the layout of `kubectl inspect gpushare` and `inspect cgpu`.

    Only --pools needs an installed operator. Nodes are sorted by name; everything else is printed
    as by the original, to the byte. Amounts are in the device plugin's unit. With -o wide each card
    has a line with its pods.
    """
    if pools and (node or details):
        raise typer.BadParameter("can't be combined with NODE or -d", param_hint="--pools")
    if namespace is not None and not pools:
        raise typer.BadParameter("requires --pools", param_hint="-n")
    if pools:
        from gpushare.cli.inspect.pools_view import inspect_pools

        return inspect_pools(access, namespace)
    from gpushare.cli.inspect.view import inspect_nodes

    return inspect_nodes(access, node, details=details)


def snapshot(
    output: Annotated[
        Path,
        typer.Option("--output", "-o", help="File to write, readable only by you; - is stdout."),
    ],
    kubeconfig: options.Kubeconfig = None,
    context: options.Context = None,
) -> None:
    """Write what the other commands read of the cluster to a file, for their --snapshot.

    Secrets and logs are not read; of ConfigMaps only those of kube-system that list unhealthy cards
    are kept, and the one that NVIDIA's device plugin loads. Of a pod that asks for GPUs, or runs a
    device plugin, only its node selection and its requests of GPUs, CPU and memory are kept; of
    other pods nothing; of the operator's Deployments its settings. The manual (docs/cli.md) lists
    each field.
    """
    with errors_as_sentences():
        from gpushare.api.pruned.cluster import Kind
        from gpushare.cli.cluster.access import Access
        from gpushare.cli.cluster.snapshot_file import build_snapshot, write_file

        cluster = Access(kubeconfig, context).read(*Kind)
        write_file(output, build_snapshot(cluster))
