"""Defines the command `usage` and its options."""

from typing import TYPE_CHECKING, Annotated

import typer

from gpushare.cli.imports import keeping_all
from gpushare.cli.input import options
from gpushare.cli.input.examples import CommandWithExamples
from gpushare.cli.input.named_workload import parse_workload
from gpushare.cli.input.object_names import check_namespace_name
from gpushare.cli.usage import prometheus_options, request
from gpushare.cli.usage.request import Grouping

if TYPE_CHECKING:
    from gpushare.cli.cluster.access import Access
    from gpushare.cli.output.answer import Answer


def add_usage_command(app: typer.Typer) -> None:
    """Add it to `app`. What a command needs is imported when it runs: `--help` is quick."""
    app.command(
        cls=CommandWithExamples,
        epilog="""
        usage --prometheus http://prometheus.monitoring:9090
        usage --prometheus-service monitoring/prometheus-k8s:9090 -n team-a --window 4w
        usage --prometheus http://localhost:9090 deployment/trainer -n team-a
        usage --prometheus http://localhost:9090 --by namespace --price 0.9/GiB-h -o csv
        """,
    )(options.reads_cluster_for_lines(usage))


@keeping_all()
def usage(
    access: "Access",
    workload: Annotated[
        str,
        typer.Argument(
            metavar="KIND/NAME", help="Show this workload alone, with its use over the window."
        ),
    ] = "",
    prometheus: prometheus_options.Url = "",
    prometheus_service: prometheus_options.Service = "",
    prometheus_config: prometheus_options.Config = None,
    prometheus_label: prometheus_options.Labels = None,
    namespace: Annotated[
        str | None,
        typer.Option(
            "--namespace",
            "-n",
            help="Only this namespace; by default all.",
            callback=check_namespace_name,
        ),
    ] = None,
    window: Annotated[
        str, typer.Option(metavar="<time>", help="How far back: 24h, 7d, 4w.")
    ] = "7d",
    by: Annotated[Grouping, typer.Option(help="What a line is.")] = Grouping.WORKLOAD,
    price: Annotated[
        str,
        typer.Option(
            metavar="<amount>",
            help="With --by namespace or pool: price of one GiB for an hour, such as 0.9/GiB-h.",
        ),
    ] = "",
    headroom: Annotated[
        int,
        typer.Option(
            min=0,
            max=1000,
            help="Percent that advice adds to the peak; at least one unit is added.",
        ),
    ] = 20,
    min_data: Annotated[
        str,
        typer.Option(
            metavar="<time>",
            help="How long a workload must have been observed before it is told to ask for less; "
            "by default 24h, or the window if that is shorter.",
        ),
    ] = "",
) -> "Answer":
    """Show how much GPU memory workloads asked for, how much they used, and what to ask for.

    Use is read from Prometheus, which must read one of the exporters that docs/usage.md lists;
    several of them are not added up. Pods that are gone count with the workload that made them.

    The advice is the highest peak with headroom, in whole units; never less than the peak. There is
    none for workloads that were observed too briefly, whose containers crash, or that use all that
    an isolating mode lets them have.

    With --by namespace or pool, a line sums what was held over the window: the memory that was
    asked for and that was used, in GiB-hours. What no exporter reports is listed, not counted as 0.
    """
    named = parse_workload(workload)
    if bool(prometheus) == bool(prometheus_service):
        raise typer.BadParameter("give it, or else --prometheus-service", param_hint="--prometheus")
    given = prometheus_options.parse_prometheus(
        prometheus, prometheus_service, prometheus_config, prometheus_label
    )
    assert given is not None, "one of them is given"
    if price and by is Grouping.WORKLOAD:
        raise typer.BadParameter("requires --by namespace or --by pool", param_hint="--price")
    if named is not None and by is not Grouping.WORKLOAD:
        raise typer.BadParameter("can't be combined with a workload", param_hint="--by")
    cost, window_seconds = request.parse_price(price), request.parse_window(window)
    min_data_seconds = request.parse_min_data(min_data, window_seconds)
    from gpushare.analysis.usage.advice import AdviceOptions
    from gpushare.cli.usage.source import UsageSource, read_usage

    source = UsageSource(
        access=access,
        prometheus=given,
        window_seconds=window_seconds,
    )
    if named is not None:
        namespace = access.find_namespace(namespace)
    observed = read_usage(source, namespace)
    if by is not Grouping.WORKLOAD:
        from gpushare.cli.usage.bill_view import show_bill

        return show_bill(observed, by, cost)
    from gpushare.cli.usage.view import show_workloads

    options_of = AdviceOptions(headroom / 100, float(min_data_seconds))
    return show_workloads(observed, named, options_of, access)
