"""Defines the commands under `render` and their options; they apply nothing."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from gpushare import names
from gpushare.cli.errors.failures import errors_as_sentences
from gpushare.cli.input import options
from gpushare.cli.input.examples import CommandWithExamples
from gpushare.cli.input.object_names import check_image, check_name, check_namespace_name
from gpushare.cli.output.answer import print_text


class MemoryUnit(StrEnum):
    """Units in which a device plugin counts GPU memory."""

    GIB = "GiB"
    MIB = "MiB"


render = typer.Typer(
    help="Print a manifest for a component that the operator relies on.", rich_markup_mode=None
)
"""The commands."""


@render.command(
    "scheduler-config",
    cls=CommandWithExamples,
    epilog="""
    render scheduler-config --extender-url http://127.0.0.1:32766/gpushare-scheduler
    render scheduler-config --extender-url http://10.0.0.1:32766 --kubeconfig scheduler.conf
    """,
)
def scheduler_config(
    extender_url: Annotated[
        str,
        typer.Option(
            help="Where kube-scheduler reaches the gpushare scheduler extender; without a path, "
            "under /gpushare-scheduler."
        ),
    ],
    kubeconfig: Annotated[
        Path | None, typer.Option(help="The scheduler's own kubeconfig, on its machine.")
    ] = None,
) -> None:
    """Print the configuration that adds the gpushare extender to kube-scheduler.

    For its --config (`kubescheduler.config.k8s.io/v1`), on each machine that runs one. If it has
    such a file already, add the entry under `extenders` to that.
    """
    with errors_as_sentences():
        from gpushare.cli.exit_codes import CommandError, Exit
        from gpushare.render.opensource import render_scheduler_config

        try:
            text = render_scheduler_config(extender_url, str(kubeconfig) if kubeconfig else None)
        except ValueError as error:
            raise CommandError(Exit.USAGE, str(error)) from error
        print_text(text)


@render.command(
    "scheduler-extender",
    cls=CommandWithExamples,
    epilog="""
    render scheduler-extender --image registry.example.com/extender:v2 > extender.yaml
    render scheduler-extender --image registry.example.com/extender:v2 --node-port 32766
    """,
)
def scheduler_extender(
    image: Annotated[
        str,
        typer.Option(
            help="Image of gpushare-scheduler-extender, built from its repository: "
            "docs/opensource.md. There is no default.",
            callback=check_image,
        ),
    ],
    node_port: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=65535,
            help="Port on every node, for a kube-scheduler that does not reach the addresses of "
            "Services; none by default. Anyone who reaches it can bind pods.",
        ),
    ] = None,
) -> None:
    """Print the scheduler extender of open-source gpushare, with account, rights and Service.

    For `kubectl apply -f -`; docs/opensource.md has the steps around it. It runs on a node with the
    label node-role.kubernetes.io/control-plane. Delete an older Deployment first if its selector
    differs, since a selector can't be changed. While no extender is Ready, no pod that asks for GPU
    memory is scheduled.
    """
    with errors_as_sentences():
        from gpushare.render.opensource import render_scheduler_extender

        print_text(render_scheduler_extender(image, node_port=node_port))


@render.command(
    "device-plugin",
    cls=CommandWithExamples,
    epilog="""
    render device-plugin --image registry.example.com/gpushare-plugin:v2 > plugin.yaml
    render device-plugin --image registry.example.com/gpushare-plugin:v2 --memory-unit MiB
    """,
)
def device_plugin(
    image: Annotated[
        str,
        typer.Option(
            help="Image of gpushare-device-plugin, which you build or have. There is no default.",
            callback=check_image,
        ),
    ],
    memory_unit: Annotated[
        MemoryUnit,
        typer.Option(
            help="Unit of aliyun.com/gpu-mem: the same on all nodes, and as the chart's "
            "memoryUnit. In MiB, nodes with very much GPU memory offer none."
        ),
    ] = MemoryUnit.GIB,
    namespace: Annotated[
        str,
        typer.Option(
            "--namespace",
            "-n",
            help="Its namespace, the same as the chart's pluginNamespace.",
            callback=check_namespace_name,
        ),
    ] = names.PLUGIN_NAMESPACE,
) -> None:
    """Print the device plugin of open-source gpushare, with account, rights and DaemonSet.

    For `kubectl apply -f -`. It has the name by which the operator knows it. An older DaemonSet
    may have another selector, which can't be changed: delete that DaemonSet first, with
    --cascade=orphan so that its pods stay.
    """
    with errors_as_sentences():
        from gpushare.render.opensource import render_device_plugin

        print_text(render_device_plugin(image, namespace=namespace, memory_unit=memory_unit.value))


@render.command(
    cls=CommandWithExamples,
    epilog="""
    render teardown cn-beijing.192.168.8.4
    render teardown cn-beijing.192.168.8.4 --snapshot cluster.json
    """,
)
def teardown(
    node: Annotated[
        str,
        typer.Argument(help="Name of the node that must stop isolating.", callback=check_name),
    ],
    snapshot: options.Snapshot = None,
    kubeconfig: options.Kubeconfig = None,
    context: options.Context = None,
) -> None:
    """Print the commands that remove the cGPU kernel module from a node of the cluster.

    For a shell on the node, once its reason is ModuleRemoval: earlier, the module would be loaded
    again, or removed from pods that rely on it. Before that, this shows what comes first, and exits
    with 12.
    """
    with errors_as_sentences():
        from gpushare.cli.cluster.access import Access
        from gpushare.cli.render.teardown import render_commands

        print_text(render_commands(Access(kubeconfig, context, snapshot), node))


@render.command(
    cls=CommandWithExamples,
    epilog="""
    render kueue -n team-a -n team-b > kueue.yaml
    render kueue --snapshot cluster.json
    """,
)
def kueue(
    namespace: Annotated[
        list[str] | None,
        typer.Option(
            "--namespace",
            "-n",
            help="Repeatable: also a LocalQueue there for each pool that serves the namespace, "
            "with the pool's name.",
        ),
    ] = None,
    snapshot: options.Snapshot = None,
    kubeconfig: options.Kubeconfig = None,
    context: options.Context = None,
) -> None:
    """Print Kueue's ResourceFlavors and ClusterQueues for the pools of the cluster.

    Of kueue.x-k8s.io/v1beta2, as manifests to keep in git. A flavor sends pods to its pool; a queue
    has as quota what the pool's nodes offer now, and borrows from pools of the same edition and
    mode. A pool whose quota is not known has no queue.
    """
    with errors_as_sentences():
        from gpushare.cli.cluster.access import Access
        from gpushare.cli.render.kueue import render_queues

        print_text(render_queues(Access(kubeconfig, context, snapshot), namespace or ()))
