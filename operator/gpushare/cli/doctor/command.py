"""Defines the command `doctor` and its options."""

from typing import TYPE_CHECKING, Annotated

import typer

from gpushare.cli.input import options
from gpushare.cli.input.examples import CommandWithExamples
from gpushare.cli.input.object_names import check_namespace_name

if TYPE_CHECKING:
    from gpushare.cli.cluster.access import Access
    from gpushare.cli.output.answer import Answer


def add_doctor_command(app: typer.Typer) -> None:
    """Add the command to `app`."""
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
            help="Where a pod and a Deployment are created as dry runs, to check that the webhook "
            "answers; nothing is stored.",
            callback=check_namespace_name,
        ),
    ] = "default",
    operator_namespace: Annotated[
        str | None,
        typer.Option(
            help="Namespace of the operator; by default found by its Deployments or account.",
            callback=check_namespace_name,
        ),
    ] = None,
) -> "Answer":
    """Report what is wrong with the installation, device plugins and pools, and how to fix it.

    The worst comes first. docs/doctor.md explains each code, docs/reasons.md those of nodes and
    pools. What you may not read is skipped, with the missing right. Exits with 13 if there are
    errors.
    """
    from gpushare.cli.doctor.view import build_answer, examine

    return build_answer(examine(access, namespace, operator_namespace))
