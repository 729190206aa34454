"""Defines the command `simulate` and its options."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gpushare.cli.input import options
from gpushare.cli.input.examples import CommandWithExamples
from gpushare.cli.input.object_names import check_name, check_namespace_name

if TYPE_CHECKING:
    from gpushare.cli.cluster.access import Access
    from gpushare.cli.output.answer import Answer

MOST_PODS = 100_000
MOST_UNITS = 1_000_000
"""More than any card has, also where a unit is a MiB."""


def add_simulate_command(app: typer.Typer) -> None:
    """Add it to `app`. What a command needs is imported when it runs: `--help` is quick."""
    app.command(
        cls=CommandWithExamples,
        epilog="""
        simulate -f pools.yaml
        simulate --pods trainer.yaml --count 20
        simulate -f pools.yaml --pods trainer.yaml --from cluster.json -o json
        simulate --search nodepool=np1 --pools train,infer,whole
        simulate --search nodepool=np1 --pools train,infer,whole -o yaml > pools.yaml
        simulate --free 12 --pool train
        """,
    )(options.reads_cluster(simulate))


def simulate(
    access: "Access",
    files: Annotated[
        list[Path] | None,
        options.filename("Manifests of pools as they would be."),
    ] = None,
    recursive: options.Recursive = False,
    pods: Annotated[
        list[Path] | None,
        typer.Option(
            "--pods",
            metavar="<path>",
            help="Manifests of pods or workloads that come after those that wait. A file or a "
            "folder; - is standard input. May be given several times.",
        ),
    ] = None,
    count: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=MOST_PODS,
            help="With --pods: the number of pods of each manifest; by default its replicas, or 1.",
        ),
    ] = None,
    namespace: Annotated[
        str | None,
        typer.Option(
            "--namespace",
            "-n",
            help="With --pods: namespace of objects that name none.",
            callback=check_namespace_name,
        ),
    ] = None,
    search: Annotated[
        str,
        typer.Option(
            metavar="<label=value,...>",
            help="Find the best splits of the nodes with these labels; nodepool stands "
            "for alibabacloud.com/nodepool-id.",
        ),
    ] = "",
    pools: Annotated[
        str,
        typer.Option(metavar="<pool,...>", help="With --search: pools of the cluster, or of -f."),
    ] = "",
    free: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=MOST_UNITS,
            help="Find the pods that would have to move for a pod of so many units.",
        ),
    ] = None,
    pool: Annotated[
        str, typer.Option(help="With --free: the pool of the pod.", callback=check_name)
    ] = "",
    from_file: Annotated[
        Path | None, typer.Option("--from", metavar="<path>", help="The same as --snapshot.")
    ] = None,
) -> "Answer":
    """Show how many pods would run, and which stay pending, on the pools of today or on others.

    The pods that wait are placed, oldest first, then those of --pods. With -f they are placed a
    second time, on the pools of the manifests once all changes of nodes are done, together with the
    pods that these changes displace. Nothing is written. The webhook's own function assigns each
    pod to a pool; a node gets it by the rules of kube-scheduler, a card by those of the edition's
    GPU scheduler.

    With --search, the sizes of the named pools on these nodes are tried: most pods that run first,
    then fewest that must go first, then fewest nodes that change, then the largest free block. The
    best split is shown as with -f; -o yaml prints its pools. Up to 25,000 splits are all tried,
    such as those of 200 equal nodes over three pools; of more only some.

    With --free, the fewest units are found whose move gives one more pod a card of the pool, and
    where each moved pod would run. A pod without a controller is never moved, nor one that
    PodDisruptionBudgets keep now.

    How many pods run and which stay pending is simulated, not on which node each runs.
    docs/simulate.md lists what is not modelled.
    """
    options.check_recursive(files, recursive=recursive)
    for option, value, needed, other in (
        ("--count", count, "--pods", pods),
        ("-n", namespace, "--pods", pods),
        ("--search", search, "--pools", pools),
        ("--pools", pools, "--search", search),
        ("--free", free, "--pool", pool),
        ("--pool", pool, "--free", free),
    ):
        if value and not other:
            raise typer.BadParameter(f"requires {needed}", param_hint=option)
    if free is not None and (files or pods or search):
        raise typer.BadParameter(
            "can't be combined with -f, --pods or --search", param_hint="--free"
        )
    if from_file is not None:
        if access.snapshot is not None:
            raise typer.BadParameter("is the same as --snapshot", param_hint="--from")
        access = replace(access, snapshot=from_file)
    from gpushare.cli.input.manifests import read_objects
    from gpushare.cli.simulate.queue import Wanted
    from gpushare.cli.simulate.view import simulate_pods

    if free is not None:
        from gpushare.cli.simulate.free_view import find_free

        return find_free(access, pool, free)
    wanted = Wanted(read_objects(pods) if pods else (), count, namespace, MOST_PODS)
    manifests = read_objects(files, recursive=recursive) if files else ()
    if search:
        from gpushare.cli.simulate.search_view import search_splits

        return search_splits(access, manifests, wanted, search, pools)
    return simulate_pods(access, manifests, wanted)
