"""The commands under `migrate`, as they are typed."""

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
        help="Show how to leave another edition or another resource; nothing is written.",
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
            help="What nodes become whose isolation is off on Basic. cgpu, as the vendor maps it: "
            "isolation begins. share: it stays off, which takes a reboot of each."
        ),
    ] = Unisolated.CGPU,
    node_pool_label: NodePoolLabel = names.LABEL_NODE_POOL,
) -> "Answer":
    """Plan the way of nodes from the Basic or OpenSource edition to Professional.

    By the vendor's mapping: cgpu=true becomes ack.node.gpu.schedule=cgpu, gpushare=true becomes
    share. Node by node: what it becomes, the pods that must finish first, and whether its plugin is
    replaced or it reboots; then the steps that a person takes, in order, each with its commands.
    With -o yaml the pools of the Professional edition are printed for `kubectl apply`, with all of
    that in comments. Pools of the other editions go on under their names, with all else in them.
    """
    check_node_pool_label(node_pool_label)
    from gpushare.api.pool import Schedule
    from gpushare.cli.migrate.pools_view import migrate_pools as plan

    return plan(access, node_pool_label=node_pool_label, unisolated=Schedule(unisolated))
