"""Defines the commands `freeze` and `unfreeze` and their options."""

from typing import TYPE_CHECKING, Annotated

import typer

from gpushare.cli.input import options
from gpushare.cli.input.examples import CommandWithExamples
from gpushare.cli.input.moments import parse_moment
from gpushare.cli.input.object_names import check_name, check_namespace_name

if TYPE_CHECKING:
    from gpushare.cli.cluster.access import Access
    from gpushare.cli.output.answer import Answer

Pool = Annotated[str, typer.Argument(help="Name of a pool.", callback=check_name)]
All = Annotated[bool, typer.Option("--all", help="All pools, also those that come later.")]
Namespace = Annotated[
    str | None,
    typer.Option(
        "--namespace",
        "-n",
        help="With --all: namespace of the operator, if it cannot be found.",
        callback=check_namespace_name,
    ),
]


def add_freeze_commands(app: typer.Typer) -> None:
    """Add them to `app`. What a command needs is imported when it runs: `--help` is quick."""
    app.command(
        cls=CommandWithExamples,
        epilog="""
        freeze --all --reason "incident 4711"
        freeze training --reason "release week" --until 2027-01-04T08:00+08:00
        """,
    )(options.writes_cluster(freeze))
    app.command(
        cls=CommandWithExamples,
        epilog="""
        unfreeze --all
        unfreeze training
        """,
    )(options.writes_cluster(unfreeze))


def freeze(
    access: "Access",
    reason: Annotated[str, typer.Option(help="Why nothing may begin.")],
    pool: Pool = "",
    every: All = False,
    until: Annotated[
        str,
        typer.Option(
            help="When it ends, by default with `unfreeze`. A time without a zone is in UTC.",
            metavar="<time>",
        ),
    ] = "",
    namespace: Namespace = None,
) -> "Answer":
    """Freeze a pool, or all pools: no change and no eviction begins.

    What has begun is finished, and labels are still written where no plugin restarts. For one pool
    this writes spec.rollout.freeze, which a GitOps controller may write back; for all pools the
    ConfigMap gpushare-freeze in the operator's namespace.
    """
    import asyncio

    from gpushare.cli.freeze.write import freeze_all, freeze_pool

    _check_target(pool, every=every, namespace=namespace)
    end = parse_moment(until, "--until")
    if every:
        return asyncio.run(freeze_all(access, namespace, reason, end))
    return asyncio.run(freeze_pool(access, pool, reason, end))


def unfreeze(
    access: "Access", pool: Pool = "", every: All = False, namespace: Namespace = None
) -> "Answer":
    """End the freeze of a pool, or that of all pools: what waited begins.

    A pool that is frozen by its own spec stays so with --all, and the other way round.
    """
    import asyncio

    from gpushare.cli.freeze.write import unfreeze_all, unfreeze_pool

    _check_target(pool, every=every, namespace=namespace)
    if every:
        return asyncio.run(unfreeze_all(access, namespace))
    return asyncio.run(unfreeze_pool(access, pool))


def _check_target(pool: str, *, every: bool, namespace: str | None) -> None:
    if bool(pool) is every:
        raise typer.BadParameter("give either the name of a pool or --all", param_hint="POOL")
    if namespace is not None and not every:
        raise typer.BadParameter("requires --all: pools have no namespace", param_hint="-n")
