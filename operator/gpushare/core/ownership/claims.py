"""Decides which nodes a pool claims, and which pool gets a node that several claim."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from gpushare import names
from gpushare.api.k8s.node import Node
from gpushare.api.pool import Pool
from gpushare.api.selector import Nodes, matches_selector
from gpushare.core.records.node_records import NodeRecords
from gpushare.editions.cards import describe_unfit, find_card_sign


def is_member(nodes: Nodes, node: Node) -> bool:
    """Return whether a pool with the membership `nodes` claims `node`.

    A control-plane node is claimed only by name: a selector that is too wide must not reach it.
    """
    if node.name in nodes.excluded:
        return False
    if node.name in nodes.named:
        return True
    selector = nodes.selector
    if selector is None or not (selector.match_labels or selector.match_expressions):
        return False
    return matches_selector(selector, node.labels) and not node.is_control_plane


def has_shown_card(node: Node, records: NodeRecords, slices: Collection[str] = ()) -> bool:
    """Return whether `node` shows a card, or has shown one, since a sign may vanish for a moment.

    A node has shown one if its mode was verified, or its change began by such a sign. `slices` are
    the names of the node's ResourceSlices.
    """
    change = records.change
    if records.applied is not None or (change is not None and change.has_shown_card):
        return True
    return bool(slices or find_card_sign(node, records.initial_values))


def is_cardless(node: Node, records: NodeRecords, slices: Collection[str] = ()) -> bool:
    """Return whether `node` never had a verified mode, and shows no card or can't be changed."""
    if records.applied is not None:
        return False
    return bool(describe_unfit(node)) or not has_shown_card(node, records, slices)


def find_cardless_pools(
    node: Node, records: NodeRecords, slices: Collection[str], pools: Sequence[Pool]
) -> Mapping[str, str]:
    """Return, by name, the `pools` that claim `node` but may not change it, with a message each.

    Nothing shows a card on the node, and no user says that it has one. The message says why the
    node is not changed, and what a user can do.
    """
    unfit = describe_unfit(node)
    if not unfit and has_shown_card(node, records, slices):
        return {}
    why = unfit or "no resource, label or instance type shows a GPU"
    message = (
        f"The node is not changed, because {why}. List it in spec.nodes.exclude, or narrow "
        "spec.nodes.selector"
    )
    if not unfit:
        message += (
            ". If it has a GPU, list it in spec.nodes.names, or set spec.nodes.cards: Assumed"
        )
    return {
        pool.name: message
        for pool in pools
        if not pool.deleting
        and is_member(pool.spec.nodes, node)
        and (unfit or not pool.spec.nodes.assumes_cards(node.name))
    }


@dataclass(frozen=True, slots=True)
class Claim:
    """The pool that gets a node, and the others that claim it."""

    winner: Pool
    losers: tuple[Pool, ...] = ()


def list_acting(
    candidates: Iterable[Pool], cardless: Collection[str], owner: str | None
) -> list[Pool]:
    """List the `candidates` that may take a node which belongs to `owner` now.

    A pool that turned to observing keeps its nodes; one that never had them takes none.
    """
    acting = (pool for pool in candidates if not pool.observes or pool.name == owner)
    return [pool for pool in acting if pool.name not in cardless]


def list_claimants(node: Node, pools: Iterable[Pool]) -> list[Pool]:
    """List which of `pools` claim `node`."""
    return [pool for pool in pools if not pool.deleting and is_member(pool.spec.nodes, node)]


def decide_claim(
    node: Node, owner: str | None, pools: Iterable[Pool], assigned: str | None = None
) -> Claim | None:
    """Decide which of `pools` gets `node`, which belongs to `owner` now; None where none does.

    The higher priority wins; equal priorities keep the current owner, so that a new pool takes
    no node away; without an owner the older pool wins. Where a pool with a size claims the node,
    it gets the one that it is `assigned` to; empty where that is none. Then only pools without a
    size lose a claim.
    """
    claimants = list_claimants(node, pools)
    if assigned is not None:
        winner = next((pool for pool in claimants if pool.name == assigned), None)
        losers = (pool for pool in claimants if pool.spec.nodes.size is None)
        if winner is None:
            return None
        return Claim(winner, tuple(pool for pool in losers if pool is not winner))
    if not claimants:
        return None
    ranked = sorted(
        claimants,
        key=lambda pool: (-pool.spec.priority, pool.name != owner, pool.created, pool.name),
    )
    return Claim(ranked[0], tuple(ranked[1:]))


def find_owner(node: Node, records: NodeRecords) -> str | None:
    """Return the name of the pool that has `node` now; None where none has.

    The pool's label counts if the operator owns it, else the node's records: a label that somebody
    removed or wrote by hand does not move a node.
    """
    if names.LABEL_POOL in node.owned and names.LABEL_POOL in node.labels:
        return node.labels[names.LABEL_POOL]
    record = records.change or records.applied
    return record.pool if record is not None else None
