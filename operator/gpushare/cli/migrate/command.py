"""Defines the commands under `migrate` and their options."""

from typing import TYPE_CHECKING, Annotated

import typer

from gpushare import names
from gpushare.cli.adopt.command import NodePoolLabel, check_node_pool_label
from gpushare.cli.input import options
from gpushare.cli.input.examples import CommandWithExamples
from gpushare.cli.input.options import Unisolated
from gpushare.cli.migrate.workloads_command import add_migrate_workloads

if TYPE_CHECKING:
    from gpushare.cli.cluster.access import Access
    from gpushare.cli.output.answer import Answer


def add_migrate(app: typer.Typer) -> None:
    """Add the commands to `app`."""
    migrate = typer.Typer(
        help="Show how to migrate from another edition or resource; nothing is written.",
        rich_markup_mode=None,
    )
    app.add_typer(migrate, name="migrate", no_args_is_help=True)
    migrate.command(
        "pools",
        cls=CommandWithExamples,
        epilog="""
        migrate pools
        migrate pools -o yaml > professional.yaml
        migrate pools --unisolated share --snapshot cluster.json -o wide
        """,
    )(options.reads_cluster(migrate_pools))
    add_migrate_workloads(migrate)


def migrate_pools(
    access: "Access",
    unisolated: Annotated[
        Unisolated,
        typer.Option(
            help="Mode for Basic nodes with isolation off. cgpu, as the vendor maps it: isolation "
            "begins. share: it stays off, which takes a reboot of each node."
        ),
    ] = Unisolated.CGPU,
    node_pool_label: NodePoolLabel = names.LABEL_NODE_POOL,
) -> "Answer":
    """Plan the migration of nodes from the Basic or OpenSource edition to Professional.

    By the vendor's mapping: cgpu=true becomes ack.node.gpu.schedule=cgpu, gpushare=true becomes
    share. Shows for each node its new mode, the pods that must finish first, and whether its plugin
    is replaced or it reboots; then the manual steps, in order, each with its commands. With -o yaml
    the pools of the Professional edition are printed for `kubectl apply`, with all of that in
    comments. Pools of the other editions keep their names and all other fields.
    """
    check_node_pool_label(node_pool_label)
    from gpushare.api.pool import Schedule
    from gpushare.cli.migrate.pools_view import migrate_pools as plan

    return plan(access, node_pool_label=node_pool_label, unisolated=Schedule(unisolated))
