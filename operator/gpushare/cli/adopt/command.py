"""Defines the command `adopt` and its options."""

from typing import TYPE_CHECKING, Annotated

import typer

from gpushare import names
from gpushare.cli.input import options
from gpushare.cli.input.examples import CommandWithExamples
from gpushare.cli.input.object_names import check_label_key

if TYPE_CHECKING:
    from gpushare.cli.cluster.access import Access
    from gpushare.cli.output.answer import Answer

NODE_POOL = "--node-pool-label"
NodePoolLabel = Annotated[
    str,
    typer.Option(
        NODE_POOL, help="The node label that names the node pool.", callback=check_label_key
    ),
]


def add_adopt(app: typer.Typer) -> None:
    """Add the command to `app`."""
    app.command(
        cls=CommandWithExamples,
        epilog="""
        adopt
        adopt -o yaml > pools.yaml
        adopt --snapshot cluster.json -o json
        adopt --node-pool-label eks.amazonaws.com/nodegroup -o yaml
        """,
    )(options.reads_cluster(adopt))


def adopt(
    access: "Access",
    node_pool_label: NodePoolLabel = names.LABEL_NODE_POOL,
    observe: Annotated[
        bool,
        typer.Option(
            "--observe",
            help="Write pools that only report what they would do (reconcile: Observe).",
        ),
    ] = False,
) -> "Answer":
    """Print the GPUSharePools that describe a cluster whose nodes were labelled manually.

    The operator need not be installed. Nodes of all three editions are grouped by node pool and
    mode; a pool selects a node pool if all its nodes are alike, and lists its nodes by name
    otherwise. The controller's own planner then shows what creating the pools would do, node by
    node; if that is more than a pool's label and the operator's annotations, the exit code is 10.
    What pools can't express is reported with a code (docs/adoption.md). With -o yaml the pools are
    printed for `kubectl apply`, with all of that in comments and on standard error.
    """
    check_node_pool_label(node_pool_label)
    from gpushare.cli.adopt.view import adopt as find_pools

    return find_pools(access, node_pool_label=node_pool_label, observe=observe)


def check_node_pool_label(key: str) -> None:
    """Raise `BadParameter` for a label by which no pool may select."""
    if key in names.NODE_LABELS or key.startswith(f"{names.GROUP}/"):
        raise typer.BadParameter("the operator writes this label", param_hint=NODE_POOL)
