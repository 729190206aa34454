"""Defines the command `migrate workloads` and its options."""

from pathlib import Path
from typing import Annotated

import typer

from gpushare.cli.errors.failures import errors_as_sentences
from gpushare.cli.exit_codes import Exit
from gpushare.cli.input import options
from gpushare.cli.input.examples import CommandWithExamples
from gpushare.cli.input.named_workload import parse_workload
from gpushare.cli.input.object_names import check_namespace_name
from gpushare.cli.input.options import Printed, Unisolated


def add_migrate_workloads(app: typer.Typer) -> None:
    """Add the command to `app`, the commands of `gpushare migrate`."""
    app.command(
        "workloads",
        cls=CommandWithExamples,
        epilog="""
        migrate workloads -f manifests/
        migrate workloads -f app.yaml --share 4 -o yaml
        migrate workloads -f manifests/ -R --card-memory-gib 15 | git apply
        migrate workloads -n inference -l app=detector
        migrate workloads deployment/trainer -n team-a --share 4
        """,
    )(migrate_workloads)


def migrate_workloads(
    workload: Annotated[
        str,
        typer.Argument(metavar="KIND/NAME", help="With -n: this workload alone."),
    ] = "",
    files: Annotated[
        list[Path] | None, options.filename("Instead of -n and -A: manifests.")
    ] = None,
    recursive: options.Recursive = False,
    namespace: Annotated[
        str | None,
        typer.Option(
            "--namespace",
            "-n",
            help="Without -f: workloads of this namespace.",
            callback=check_namespace_name,
        ),
    ] = None,
    all_namespaces: Annotated[
        bool,
        typer.Option("--all-namespaces", "-A", help="Without -f: workloads of all namespaces."),
    ] = False,
    selector: Annotated[
        str,
        typer.Option("--selector", "-l", help="With -n or -A: workloads with these labels."),
    ] = "",
    share: Annotated[
        int | None,
        typer.Option(
            min=1, help="GiB for each card that a pod asks for; by default the whole card."
        ),
    ] = None,
    card_memory_gib: Annotated[
        int | None,
        typer.Option(min=1, help="Memory of a card in whole GiB; by default read from the nodes."),
    ] = None,
    keep_selectors: Annotated[
        bool,
        typer.Option(
            "--keep-selectors",
            help="Do not change node selectors and affinities: the cluster keeps its edition.",
        ),
    ] = False,
    unisolated: Annotated[
        Unisolated,
        typer.Option(
            help="Mode for Basic nodes with isolation off, as in `migrate pools`: cgpu, as the "
            "vendor maps it, or share."
        ),
    ] = Unisolated.CGPU,
    output: Annotated[
        Printed, typer.Option("--output", "-o", help="Output format.")
    ] = Printed.DIFF,
    snapshot: options.Snapshot = None,
    kubeconfig: options.Kubeconfig = None,
    context: options.Context = None,
) -> None:
    """Rewrite manifests from whole cards to shared memory, and from older editions' labels.

    nvidia.com/gpu becomes aliyun.com/gpu-mem; node selectors and affinities on gpushare and cgpu
    become ack.node.gpu.schedule. A diff is printed, or the manifests; nothing is written to the
    cluster. What a user must decide is not changed, with the reason on standard error
    (docs/migration.md explains each) and exit code 10. Comments, order and unaffected documents
    are kept.
    """
    if bool(files) + (namespace is not None) + all_namespaces != 1:
        raise typer.BadParameter("give one of -f, -n and -A", param_hint="-f")
    named = parse_workload(workload)
    if named is not None and namespace is None:
        raise typer.BadParameter("requires -n", param_hint="KIND/NAME")
    if files and selector:
        raise typer.BadParameter("requires -n or -A", param_hint="-l")
    options.check_recursive(files, recursive=recursive)
    if snapshot is not None and not files:
        raise typer.BadParameter("requires -f", param_hint="--snapshot")
    with errors_as_sentences():
        from gpushare.analysis.migration.pods import Target
        from gpushare.api.pool import Schedule
        from gpushare.cli.cluster.access import Access
        from gpushare.cli.migrate import workloads_view as migrated

        access = Access(kubeconfig, context, snapshot)
        cards = migrated.read_cards(access, card_memory_gib)
        target = Target(cards, share, keep_selectors, Schedule(unisolated))
        if files:
            found = migrated.migrate_files(files, target, recursive=recursive)
        else:
            found = migrated.migrate_live(access, namespace, selector, target, named)
        migrated.print_migrated(found, output, are_live=not files)
        if any(finding.code.is_left for file in found for finding in file.findings):
            raise typer.Exit(Exit.CHANGES)
