"""Defines the command `explain` and its options."""

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gpushare.cli.input import options
from gpushare.cli.input.examples import CommandWithExamples
from gpushare.cli.input.object_names import check_name, check_namespace_name

if TYPE_CHECKING:
    from gpushare.cli.cluster.access import Access
    from gpushare.cli.output.answer import Answer


class ExplainedKind(StrEnum):
    """What can be explained by its name."""

    POD = "pod"
    NODE = "node"
    POOL = "pool"


def add_explain_commands(app: typer.Typer) -> None:
    """Add them to `app`. What a command needs is imported when it runs: `--help` is quick."""
    app.command(
        cls=CommandWithExamples,
        epilog="""
        explain pod trainer -n vision
        explain node cn-beijing.192.168.8.4
        explain pool training -o wide
        explain -f deployment.yaml
        explain -f - < deployment.yaml
        explain pod trainer --snapshot cluster.json -o json
        """,
    )(options.reads_cluster(explain))


def explain(
    access: "Access",
    subject: Annotated[ExplainedKind | None, typer.Argument(help="What to explain.")] = None,
    name: Annotated[str, typer.Argument(help="Its name.", callback=check_name)] = "",
    files: Annotated[
        list[Path] | None,
        options.filename(
            "Instead of a name: manifests of pods or workloads, which need not exist yet."
        ),
    ] = None,
    recursive: options.Recursive = False,
    namespace: Annotated[
        str | None,
        typer.Option(
            "--namespace",
            "-n",
            help="Namespace of the pod, or of objects in a manifest that name none.",
            callback=check_namespace_name,
        ),
    ] = None,
) -> "Answer":
    """Show why a pod is assigned to its pool, a node is in its state, or a pool is not ready.

    A pod: each pool, and the reason and number by which it lost; what the webhook writes and warns
    of; the decision when the pod was created; and if it has no node, what prevents it on each node,
    and the smallest change that lets it run. The decision is the webhook's own, without the memory
    that it reserved in the last seconds. Workloads, such as a Deployment or a RayCluster, are
    explained by their templates (docs/admission.md lists the kinds).

    A node: its labels and what its plugins really serve, the pools that select it, its change and
    what that waits for, containers that are not isolated as its mode says, and what is wrong with
    it. A pool: its conditions as of now, its nodes by what they wait for, and the pods that wait
    for it.

    Each reason has a paragraph in docs/reasons.md, or a line in docs/doctor.md. Only pools need an
    installed operator. Its settings are read from its Deployments; a last line shows what is
    assumed where they can't be read.
    """
    _check(subject, name, files, namespace)
    options.check_recursive(files, recursive=recursive)
    if subject is ExplainedKind.NODE:
        from gpushare.cli.explain.node_view import explain_one_node

        return explain_one_node(access, name)
    if subject is ExplainedKind.POOL:
        from gpushare.cli.explain.pool_view import explain_one_pool

        return explain_one_pool(access, name)
    from gpushare.cli.explain.pod_view import explain_manifests, explain_pod
    from gpushare.cli.input.manifests import read_objects

    if files:
        return explain_manifests(access, read_objects(files, recursive=recursive), namespace)
    return explain_pod(access, name, namespace)


def _check(
    subject: ExplainedKind | None, name: str, files: list[Path] | None, namespace: str | None
) -> None:
    if files:
        if subject is not None:
            raise typer.BadParameter("can't be combined with a name", param_hint="-f")
        return
    if subject is None:
        raise typer.BadParameter("name a pod, node or pool, or give a manifest with -f")
    if not name:
        raise typer.BadParameter(f"the name of the {subject} is missing", param_hint="NAME")
    if namespace is not None and subject is not ExplainedKind.POD:
        raise typer.BadParameter(f"a {subject} has no namespace", param_hint="-n")
