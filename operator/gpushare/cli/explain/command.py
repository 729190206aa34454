"""`gpushare explain`: why a pod, a node or a pool is as it is, by the operator's own decisions."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from gpushare import names
from gpushare.cli.errors.failures import errors_as_sentences
from gpushare.cli.input import options
from gpushare.cli.input.examples import CommandWithExamples
from gpushare.cli.input.object_names import check_name, check_namespace_name
from gpushare.cli.output.answer import Format


class Subject(StrEnum):
    """What can be explained by its name."""

    POD = "pod"
    NODE = "node"
    POOL = "pool"


class OnNoPool(StrEnum):
    """What happens to pods that no pool takes."""

    ALLOW = names.ON_NO_POOL_ALLOW
    DENY = names.ON_NO_POOL_DENY


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
    )(explain)


def explain(
    subject: Annotated[Subject | None, typer.Argument(help="What is to be explained.")] = None,
    name: Annotated[str, typer.Argument(help="Its name.", callback=check_name)] = "",
    files: Annotated[
        list[Path] | None,
        options.filename(
            "In place of a name: manifests with pods, or with what creates pods, that need not "
            "exist yet."
        ),
    ] = None,
    recursive: options.Recursive = False,
    namespace: Annotated[
        str | None,
        typer.Option(
            "--namespace",
            "-n",
            help="Of the pod, or of objects in a manifest that name none.",
            callback=check_namespace_name,
        ),
    ] = None,
    on_no_pool: Annotated[
        OnNoPool | None,
        typer.Option(
            help="What becomes of pods that no pool takes, as webhook.onNoPool says; else as the "
            "installation is set. A namespace's label goes first."
        ),
    ] = None,
    schedulers: Annotated[
        list[str] | None,
        typer.Option(
            "--scheduler",
            metavar="<str>",
            help="A scheduler that gives out GPU memory card by card, as webhook.schedulers says; "
            "else as the installation is set. May be given several times.",
        ),
    ] = None,
    output: options.Output = Format.TABLE,
    snapshot: options.Snapshot = None,
    kubeconfig: options.Kubeconfig = None,
    context: options.Context = None,
) -> None:
    """Show why a pod goes where it goes, a node is as it is, or a pool is not ready.

    A pod: each pool, and by which reason and number it lost; what the webhook writes and warns of;
    what was decided when it was created; and where it has no node, what is in its way on each, and
    the least that would let it in. The decision is the webhook's own, less what that gave away in
    the last seconds. Deployments, StatefulSets, DaemonSets, Jobs and CronJobs are explained by
    their template.

    A node: its labels against what its plugins really serve, the pools that claim it, its change
    and what that waits for, stale isolation, and what is wrong with it. A pool: its conditions as
    they would be told now, its nodes by what they wait for, and the pods that wait for it.

    Each reason has a paragraph in docs/reasons.md. The operator need not be installed, but for
    pools. How it is set is read from its Deployments; a last line says what is assumed where they
    can't be read.
    """
    _check(subject, name, files, namespace)
    options.check_recursive(files, recursive=recursive)
    with errors_as_sentences():
        from gpushare.api.variables import Variable
        from gpushare.cli.cluster.access import Access
        from gpushare.cli.cluster.settings import read_options
        from gpushare.cli.output.answer import print_answer

        access = Access(kubeconfig, context, snapshot)
        said = read_options(
            {
                Variable.ON_NO_POOL: ("--on-no-pool", on_no_pool and str(on_no_pool)),
                Variable.SCHEDULERS: ("--scheduler", tuple(schedulers) if schedulers else None),
            }
        )
        if subject is Subject.NODE:
            from gpushare.cli.explain.node_view import explain_one_node

            answer = explain_one_node(access, name)
        elif subject is Subject.POOL:
            from gpushare.cli.explain.pool_view import explain_one_pool

            answer = explain_one_pool(access, name)
        else:
            from gpushare.cli.explain.pod_answer import explain_manifests, explain_pod
            from gpushare.cli.input.manifests import read_objects

            answer = (
                explain_manifests(access, read_objects(files, recursive=recursive), namespace, said)
                if files
                else explain_pod(access, name, namespace, said)
            )
        print_answer(answer, output)


def _check(
    subject: Subject | None, name: str, files: list[Path] | None, namespace: str | None
) -> None:
    if files:
        if subject is not None:
            raise typer.BadParameter("goes without a name", param_hint="-f")
        return
    if subject is None:
        raise typer.BadParameter("name a pod, node or pool, or give a manifest with -f")
    if not name:
        raise typer.BadParameter(f"which {subject}?", param_hint="NAME")
    if namespace is not None and subject is not Subject.POD:
        raise typer.BadParameter(f"a {subject} has no namespace", param_hint="-n")
