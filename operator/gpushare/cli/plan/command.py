"""Defines `plan`, `approve`, `start-now`, `recommend` and `retry`, and their options."""

from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gpushare.cli.exit_codes import Exit
from gpushare.cli.input import options
from gpushare.cli.input.examples import CommandWithExamples
from gpushare.cli.input.moments import parse_moment
from gpushare.cli.input.object_names import check_kind_and_name, check_name

if TYPE_CHECKING:
    from gpushare.cli.cluster.access import Access
    from gpushare.cli.output.answer import Answer

DryRun = Annotated[
    bool,
    typer.Option("--dry-run", help="Let the API server check the write, but write nothing."),
]


class PlannedKind(StrEnum):
    """Kinds of objects that `plan` takes by name."""

    POOL = "pool"


def add_plan_commands(app: typer.Typer) -> None:
    """Add them to `app`. What a command needs is imported when it runs: `--help` is quick."""
    app.command(
        cls=CommandWithExamples,
        epilog="""
        plan -f pool.yaml
        plan -f pool.yaml --exit-code -o json
        plan pool training
        plan pool training --at 2027-01-01T00:00
        plan pool training --snapshot cluster.json -o wide
        """,
    )(options.reads_cluster(plan))
    app.command(
        cls=CommandWithExamples,
        epilog="""
        approve training
        approve training --hash 3f2a9c0d1e4b
        approve training --hash 3f2a9c0d1e4b --dry-run
        """,
    )(options.writes_cluster(approve))
    app.command(
        "start-now",
        cls=CommandWithExamples,
        epilog="""
        start-now training --plan 3f2a9c0d1e4b
        start-now training --plan 3f2a9c0d1e4b --dry-run
        """,
    )(options.writes_cluster(start_now))
    app.command(
        cls=CommandWithExamples,
        epilog="""
        recommend
        recommend --accept 3f2a9c0d1e4b
        recommend --accept 3f2a9c0d1e4b --dry-run
        """,
    )(options.writes_cluster(recommend))
    app.command(
        cls=CommandWithExamples,
        epilog="""
        retry training
        retry cn-beijing.192.168.8.4
        retry node/training --dry-run
        """,
    )(options.writes_cluster(retry))


def plan(
    access: "Access",
    subject: Annotated[
        PlannedKind | None, typer.Argument(help="With NAME: plan an existing pool.")
    ] = None,
    name: Annotated[str, typer.Argument(help="Name of that pool.", callback=check_name)] = "",
    files: Annotated[
        list[Path] | None,
        options.filename("Instead of a name: manifests of pools, which need not exist yet."),
    ] = None,
    recursive: options.Recursive = False,
    exit_code: Annotated[
        bool, typer.Option("--exit-code", help="Exit with 10 if there is something to do.")
    ] = False,
    at: Annotated[
        str,
        typer.Option(
            metavar="<time>",
            help="Place the waves into the maintenance windows from this time on, by default now. "
            "A time without a zone is in UTC.",
        ),
    ] = "",
) -> "Answer":
    """Show what the controller will do to each node, before it is done.

    With -f, what applying these manifests would do; neither the pools nor their
    CustomResourceDefinition need exist, and the operator need not run. As with `kubectl apply`,
    fields that the manifest does not set and another manager owns are kept; they are listed. With
    `pool NAME`, why that pool is as it is, and what is left to do. The controller's own planner
    decides, and also in which wave each node changes: "about" where it is not known when other
    nodes of the pool can change. Durations are estimated from the waves, the installation's
    settings and how long the plugin's pods took to start in this cluster; what was never
    measured is unknown. For a pool with maintenance windows, a calendar shows which waves begin
    in which window. The installation's settings are read from its Deployments; a last line
    shows what is assumed where they can't be read.
    """
    if bool(files) is (subject is not None):
        raise typer.BadParameter("give either manifests or `pool NAME`", param_hint="-f")
    if subject is not None and not name:
        raise typer.BadParameter("the pool's name is missing", param_hint="NAME")
    options.check_recursive(files, recursive=recursive)
    from gpushare.cli.input.manifests import read_objects
    from gpushare.cli.plan.view import plan_manifests, plan_pool

    moment = parse_moment(at, "--at")
    if files:
        answer = plan_manifests(access, read_objects(files, recursive=recursive), moment)
    else:
        answer = plan_pool(access, name, moment)
    return answer if exit_code else replace(answer, exit_code=Exit.OK)


def approve(
    access: "Access",
    pool: Annotated[
        str,
        typer.Argument(help="Name of a pool with rollout.approval Manual.", callback=check_name),
    ],
    seen: Annotated[
        str, typer.Option("--hash", help="Approve only if the plan still has this hash.")
    ] = "",
    force_conflicts: Annotated[
        bool,
        typer.Option(
            "--force-conflicts",
            help="Take over rollout.approvedPlan from another field manager, such as a GitOps "
            "controller, which may write its own value again.",
        ),
    ] = False,
    dry_run: DryRun = False,
) -> "Answer":
    """Approve the changes in a pool's status.plan, so that they begin.

    Writes the plan's hash to rollout.approvedPlan, as field manager gpushare-cli. Without --hash
    it approves the plan of that moment, and prints it.
    """
    import asyncio

    from gpushare.cli.plan.approval import Write, approve_pool

    write = Write(access, dry_run=dry_run, force=force_conflicts)
    return asyncio.run(approve_pool(write, pool, seen))


def start_now(
    access: "Access",
    pool: Annotated[str, typer.Argument(help="Name of the pool.", callback=check_name)],
    plan_hash: Annotated[
        str, typer.Option("--plan", help="Hash of the plan, as `plan pool` prints it.")
    ],
    dry_run: DryRun = False,
) -> "Answer":
    """Start a pool's plan outside its maintenance windows, in an emergency.

    Writes the plan's hash and the time to the annotation gpushare.io/start-now, as field manager
    gpushare-cli. It counts for this plan only, until it is done. Approval, maxUnavailable, canary
    and a freeze apply as always.
    """
    import asyncio

    from gpushare.cli.plan.approval import Write, start_pool_now

    return asyncio.run(start_pool_now(Write(access, dry_run=dry_run), pool, plan_hash))


def recommend(
    access: "Access",
    accept: Annotated[
        str, typer.Option("--accept", metavar="<hash>", help="Accept the move with this hash.")
    ] = "",
    dry_run: DryRun = False,
) -> "Answer":
    """Show which idle nodes would move to pools where pods wait, and accept a move.

    Only pools with spec.demand take part. With --accept, writes the hash, and since when the move
    is recommended, to the annotation gpushare.io/accept-move of the pool, as field manager
    gpushare-cli: the node then moves by the usual change, unless a pod comes first. It counts for
    this move only.
    """
    if dry_run and not accept:
        raise typer.BadParameter("requires --accept", param_hint="--dry-run")
    if not accept:
        from gpushare.cli.plan.recommend import list_recommendations

        return list_recommendations(access)
    import asyncio

    from gpushare.cli.plan.approval import Write, accept_move

    return asyncio.run(accept_move(Write(access, dry_run=dry_run), accept))


def retry(
    access: "Access",
    name: Annotated[
        str,
        typer.Argument(
            help="Name of a pool or a node; if it is ambiguous, pool/NAME or node/NAME.",
            callback=check_kind_and_name,
        ),
    ],
    dry_run: DryRun = False,
) -> "Answer":
    """Retry what failed: all failed nodes of a pool, or one node.

    Writes the time to the annotation gpushare.io/retry, as field manager gpushare-cli. A halted
    rollout resumes. On a node, labels that were left to another manager are written again, too.
    """
    import asyncio

    from gpushare.cli.plan.approval import Write, retry_named

    return asyncio.run(retry_named(Write(access, dry_run=dry_run), name))
