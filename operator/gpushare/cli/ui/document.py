"""What the page shows of a cluster: what `inspect --pools -o json` says, and a little more."""

from typing import Any

from gpushare.api.pruned.cluster import Cluster
from gpushare.cli.cluster.snapshot import observe_cluster
from gpushare.cli.inspect.pools_view import describe_pools
from gpushare.cli.output.facts import describe_card
from gpushare.core.analysis.inspect.pools import NodeCards, view_outside, view_pools

Json = dict[str, Any]


def build_state(cluster: Cluster) -> Json:
    """The whole document; a cluster without pools' API has nodes all the same."""
    seen = observe_cluster(cluster)
    view = view_pools(seen, cluster.taken_at)
    return {
        "installed": cluster.pools is not None,
        "takenAt": cluster.taken_at.isoformat(timespec="seconds"),
        **describe_pools(view, seen.unreadable, cluster),
        "outside": [_describe_outside(node) for node in view_outside(seen.snapshot, view)],
    }


def _describe_outside(view: NodeCards) -> Json:
    return {
        "name": view.node.name,
        "takesPods": view.takes_pods,
        "cordoned": view.node.unschedulable,
        "cards": [describe_card(card) for card in view.cards],
    }
