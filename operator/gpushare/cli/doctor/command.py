"""The command that says what is wrong."""

from typing import TYPE_CHECKING, Annotated

import typer

from gpushare.cli.input import options
from gpushare.cli.input.examples import CommandWithExamples
from gpushare.cli.input.object_names import check_namespace_name

if TYPE_CHECKING:
    from gpushare.cli.cluster.access import Access
    from gpushare.cli.output.answer import Answer


def add_doctor_command(app: typer.Typer) -> None:
    """Add it to `app`."""
    app.command(
        cls=CommandWithExamples,
        epilog="""
        doctor
        doctor -n team-a -o wide
        doctor --snapshot cluster.json -o json
        """,
    )(options.reads_cluster(doctor))


def doctor(
    access: "Access",
    namespace: Annotated[
        str,
        typer.Option(
            "--namespace",
            "-n",
            help="Where a pod and a Deployment are created for trial, to see whether the webhook "
            "answers: as dry runs, of which nothing is stored.",
            callback=check_namespace_name,
        ),
    ] = "default",
    operator_namespace: Annotated[
        str | None,
        typer.Option(
            help="Namespace of the operator; else found by its Deployments or account.",
            callback=check_namespace_name,
        ),
    ] = None,
) -> "Answer":
    """Say what is wrong with the installation, the plugins and the pools, and what mends it.

    The worst comes first. docs/doctor.md explains each code, docs/reasons.md those of nodes and
    pools. What you may not read is skipped, and the right named. Exits with 13 where there are
    errors.
    """
    from gpushare.cli.doctor.view import build_answer, examine

    return build_answer(examine(access, namespace, operator_namespace))
