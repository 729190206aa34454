"""The commands under `migrate`, as they are typed."""

import typer

from gpushare.cli.migratingworkloads import add_migrate_workloads


def add_migrate(app: typer.Typer) -> None:
    """Add the commands to `app`."""
    migrate = typer.Typer(
        help="Show how to leave another edition or another resource; nothing is written.",
        rich_markup_mode=None,
    )
    app.add_typer(migrate, name="migrate", no_args_is_help=True)
    add_migrate_workloads(migrate)
