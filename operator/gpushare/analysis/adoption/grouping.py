"""Groups nodes with the same labels into pools: which nodes each selects, and its name.

A pool selects a node pool where all of that is alike, so that nodes that the node pool gets later
are members too. Where a node pool is not, the labels of its next node are unknown, and members are
named.
"""

import hashlib
import re
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Any

from gpushare import names
from gpushare.analysis.adoption.existing_labels import Carried
from gpushare.analysis.adoption.notes import AdoptionCode, Note, note
from gpushare.api.k8s.node import Node
from gpushare.api.pool import DEFAULT_EDITION
from gpushare.api.selector import (
    DNS_NAME,
    LABEL_VALUE,
    CardsPolicy,
    LabelSelector,
    Nodes,
    SelectorOperator,
    SelectorRequirement,
)
from gpushare.editions.cards import find_machine_sign

Json = dict[str, Any]
MAX_NAMES = 1000
"""Names that a pool's spec may list."""
MAX_VALUES = 100
"""Values that one requirement of a selector may have."""
MAX_NAME = 63
_WITHOUT_NODE_POOL = "nodes"
_FOREIGN = re.compile("[^a-z0-9]+")


@dataclass(frozen=True, slots=True)
class AdoptedPool:
    """A pool that is not created yet."""

    name: str
    carried: Carried
    membership: Nodes
    nodes: tuple[str, ...]
    """Names of its members, sorted."""


@dataclass(frozen=True, slots=True)
class Labelled:
    """The nodes of a cluster, sorted by whether pools are for them."""

    nodes: Mapping[str, Node]
    carried: Mapping[str, Carried]
    """Edition and mode of each node that a pool is built for, by name."""
    kept_out: Collection[str] = frozenset()
    """Names of nodes that no new pool may have, whatever else is in their node pool."""
    pool_names: Collection[str] = frozenset()
    """Names of existing pools."""
    node_pool_label: str = names.LABEL_NODE_POOL

    def node_pool(self, node: str) -> str:
        """Return the node's node pool; empty without one that a selector could have."""
        named = self.nodes[node].labels.get(self.node_pool_label, "")
        return named if len(named) <= MAX_NAME and re.fullmatch(LABEL_VALUE, named) else ""

    def retained(self, node: str) -> str:
        """Return the deleted pool whose label the node still carries, which its pods select."""
        named = self.nodes[node].labels.get(names.LABEL_POOL, "")
        return named if named not in self.pool_names and re.fullmatch(DNS_NAME, named) else ""


@dataclass(slots=True)
class _Group:
    node_pools: list[str] = field(default_factory=list)
    """Node pools all of whose nodes are in this group."""
    named: list[str] = field(default_factory=list)
    """Members besides."""
    nodes: list[str] = field(default_factory=list)
    exclude: list[str] = field(default_factory=list)
    mixed: set[str] = field(default_factory=set)
    """Node pools of which it has a part."""


_Key = tuple[Carried, str, str]
"""Carried configuration, with the former pool or, without one, the node pool."""


def group_nodes(labelled: Labelled) -> tuple[tuple[AdoptedPool, ...], tuple[Note, ...]]:
    """Group exactly the nodes that carry a mode into pools, by name, with notes on them."""
    by_node_pool: defaultdict[str, list[str]] = defaultdict(list)
    for node in sorted(labelled.nodes):
        by_node_pool[labelled.node_pool(node)].append(node)
    groups: defaultdict[_Key, _Group] = defaultdict(_Group)
    for node_pool, members in sorted(by_node_pool.items()):
        # A selector never reaches a control-plane node.
        reached = [node for node in members if not labelled.nodes[node].is_control_plane]
        uniform = _find_uniform(labelled, reached) if node_pool else None
        for node in members:
            if node not in labelled.carried:
                continue
            key = _key_of(labelled, node)
            group = groups[key]
            group.nodes.append(node)
            if key != uniform or labelled.nodes[node].is_control_plane:
                group.named.append(node)
            if key != uniform and node_pool:
                group.mixed.add(node_pool)
        if uniform is not None:
            groups[uniform].node_pools.append(node_pool)
            groups[uniform].exclude += [node for node in reached if node in labelled.kept_out]
    pools: list[AdoptedPool] = []
    notes: list[Note] = []
    for name, key, group in _name_groups(groups, labelled.pool_names):
        pools += _build_pools(name, key, group, labelled)
        notes += _add_note(name, key, group)
    return tuple(sorted(pools, key=lambda pool: pool.name)), tuple(notes)


def build_manifest(pool: AdoptedPool) -> Json:
    """Build the manifest as a user would write it, without defaults."""
    carried = pool.carried
    spec = {
        "nodes": pool.membership.model_dump(mode="json", by_alias=True, exclude_defaults=True),
        "edition": str(carried.edition),
        "schedule": str(carried.schedule),
    }
    if carried.placement is not None:
        spec["placement"] = str(carried.placement)
    return wrap_spec(pool.name, spec)


def wrap_spec(name: str, spec: Json) -> Json:
    """Build the manifest of a pool with this spec."""
    kind = {"apiVersion": names.API_VERSION, "kind": names.KIND}
    return {**kind, "metadata": {"name": name}, "spec": spec}


def _key_of(labelled: Labelled, node: str) -> _Key:
    retained = labelled.retained(node)
    return labelled.carried[node], retained, "" if retained else labelled.node_pool(node)


def _find_uniform(labelled: Labelled, reached: Sequence[str]) -> _Key | None:
    """Find what all nodes carry that a node pool's selector would reach; None if they differ."""
    wanted = [node for node in reached if node not in labelled.kept_out]
    keys = {_key_of(labelled, n) if n in labelled.carried else None for n in wanted}
    fits = len(keys) == 1 and len(reached) - len(wanted) <= MAX_NAMES
    return keys.pop() if fits else None


# What they are called.


def _name_groups(
    groups: Mapping[_Key, _Group], taken: Collection[str]
) -> Iterator[tuple[str, _Key, _Group]]:
    """Yield each group with a name of its own, the same in every run."""
    used = set(taken)
    # Of several that kept one pool's label, the largest is that pool.
    ranked = sorted(
        groups.items(), key=lambda item: (not item[0][1], -len(item[1].nodes), repr(item[0]))
    )
    for key, group in ranked:
        carried, retained, node_pool = key
        name = retained if retained and retained not in used else _suggest(carried, node_pool)
        if name in used:
            name = _make_unique(name, repr(key))
        used.add(name)
        yield name, key, group


def _suggest(carried: Carried, node_pool: str) -> str:
    edition = "" if carried.edition is DEFAULT_EDITION else str(carried.edition)
    mode = [edition, str(carried.schedule), str(carried.placement or "")]
    plain = "-".join(_spell(part) for part in (node_pool or _WITHOUT_NODE_POOL, *mode) if part)
    if _spell(node_pool) == node_pool and len(plain) <= MAX_NAME:
        return plain
    return _make_unique(plain, node_pool)


def _make_unique(name: str, of: str) -> str:
    mark = hashlib.sha256(of.encode()).hexdigest()[:6]
    return f"{name[: MAX_NAME - len(mark) - 1].rstrip('-')}-{mark}"


def _spell(text: str) -> str:
    return _FOREIGN.sub("-", text.lower()).strip("-")


# What they are.


def _build_pools(name: str, key: _Key, group: _Group, labelled: Labelled) -> Iterator[AdoptedPool]:
    """Build one pool, or several where the group exceeds the limits of one."""
    carried, *_ = key
    parts = zip_longest(split(group.node_pools, MAX_VALUES), split(group.named, MAX_NAMES))
    for part, (selected, named) in enumerate(parts):
        node_pools, listed = selected or (), named or ()
        inside = {n for n in group.nodes if labelled.node_pool(n) in node_pools} - {*group.named}
        exclude = [node for node in group.exclude if labelled.node_pool(node) in node_pools]
        # Later nodes may show as little before they have the pool's label.
        is_bare = not all(find_machine_sign(labelled.nodes[node]) for node in inside)
        yield AdoptedPool(
            name=name if part == 0 else _make_unique(name, str(part)),
            carried=carried,
            membership=Nodes(
                selector=_build_selector(labelled.node_pool_label, node_pools),
                names=tuple(listed),
                exclude=tuple(exclude),
                cards=CardsPolicy.ASSUMED if is_bare else CardsPolicy.DETECTED,
            ),
            nodes=tuple(sorted({*inside, *listed})),
        )


def split(of: Sequence[str], size: int) -> list[Sequence[str]]:
    """Split into parts of at most `size`."""
    return [of[at : at + size] for at in range(0, len(of), size)]


def _build_selector(key: str, values: Sequence[str]) -> LabelSelector | None:
    if not values:
        return None
    if len(values) == 1:
        return LabelSelector(match_labels={key: values[0]})
    requirement = SelectorRequirement(key=key, operator=SelectorOperator.IN, values=tuple(values))
    return LabelSelector(match_expressions=(requirement,))


def _add_note(name: str, key: _Key, group: _Group) -> Iterator[Note]:
    _, retained, _ = key
    if group.mixed:
        listed = " and ".join(sorted(group.mixed))
        message = (
            f"nodes of node pool {listed} differ, so they are listed by name: add later nodes to "
            "the list"
        )
        yield note(AdoptionCode.MIXED_NODE_POOL, name, message)
    if group.named and not group.node_pools and not group.mixed:
        message = (
            "nodes without a node pool are listed by name: add later nodes to the list, or select "
            "a label of yours"
        )
        yield note(AdoptionCode.BY_NAME, name, message)
    if retained == name:
        message = f"named after label {names.LABEL_POOL}, which the nodes still carry"
        yield note(AdoptionCode.NAMED_AFTER_LABEL, name, message)
