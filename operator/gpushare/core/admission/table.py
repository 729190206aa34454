"""Builds the admission table: the pools, as the API server reads them while no webhook answers."""

from collections.abc import Iterable
from itertools import chain

from pydantic import ValidationError

from gpushare.api.admission.table import (
    MOST_POOLS,
    AdmissionTableSpec,
    TableMode,
    TablePool,
    TableRequirement,
    TableToleration,
)
from gpushare.api.k8s.node_selection import FOLLOWING, Known
from gpushare.api.selector import LabelSelector, SelectorOperator
from gpushare.core.admission.pool_view import PoolView

MOST_BYTES = 64 * 1024
"""Of a table's JSON. API servers of Kubernetes 1.37 convert the table for each pod that is created,
also for one without GPU: that takes about a millisecond then."""


def build_table(pools: Iterable[PoolView]) -> AdmissionTableSpec:
    """Build the table of the `pools` that take pods; the order of `pools` does not matter.

    Where not all fit in, the last ones are taken to have nodes with other labels too, which needs
    no combinations of labels; where that does not suffice, they are left out.
    """
    taking = sorted((pool for pool in pools if pool.closed is None), key=_rank)
    modes = {_name_mode(pool): _describe_mode(pool) for pool in taking}
    modes = {name: modes[name] for name in sorted(modes)}
    left = MOST_BYTES - _count_bytes(
        AdmissionTableSpec(modes=modes, pools=(), count=0, omitted=len(taking))
    )
    described: list[tuple[TablePool, TablePool]] = []
    for pool in taking:
        entry = _describe(pool, ({},))
        full = _describe(pool, _list_nodes(pool)) or entry
        if entry is not None and full is not None and len(described) < MOST_POOLS:
            size = _count_bytes(entry) + len(",")
            if size <= left:
                left -= size
                described.append((entry, full))
    entries = []
    for entry, full in described:
        more = _count_bytes(full) - _count_bytes(entry)
        is_kept = more <= left
        left -= more if is_kept else 0
        entries.append(full if is_kept else entry)
    omitted = len(taking) - len(entries)
    return AdmissionTableSpec(
        modes=modes, pools=tuple(entries), count=len(entries), omitted=omitted
    )


def _rank(pool: PoolView) -> tuple[bool, int, str]:
    return pool.nodes == 0, -pool.priority, pool.name


def _name_mode(pool: PoolView) -> str:
    return f"{pool.edition}/{pool.schedule}"


def _describe_mode(pool: PoolView) -> TableMode:
    return TableMode(
        serves=tuple(sorted("+".join(sorted(each)) for each in pool.serves)),
        isolates=pool.isolates,
        isolates_by_kernel=pool.isolates_by_kernel,
        labels=dict(pool.mode_labels),
    )


def _describe(pool: PoolView, nodes: tuple[Known, ...]) -> TablePool | None:
    """Describe the pool; None where the kind's schema does not allow it: it would prevent the
    whole table."""
    labels = {key: values for key, values in pool.known.items() if key not in FOLLOWING}
    try:
        return TablePool(
            name=pool.name,
            mode=_name_mode(pool),
            selects_mode=pool.selects_mode or None,
            on_request=pool.on_request or None,
            is_empty=pool.nodes == 0 or None,
            namespace_selector=_list_requirements(pool.namespace_selector),
            pod_selector=_list_requirements(pool.pod_selector),
            tolerations=tuple(map(TableToleration.model_validate, pool.tolerations)) or None,
            labels=_write_known(labels) or None,
            nodes=tuple(map(_write_known, nodes)),
        )
    except ValidationError:
        return None


def _list_requirements(selector: LabelSelector | None) -> tuple[TableRequirement, ...] | None:
    if selector is None:
        return None
    by_label = (
        TableRequirement(key=key, operator=SelectorOperator.IN, values=(value,))
        for key, value in sorted(selector.match_labels.items())
    )
    further = (
        TableRequirement(key=each.key, operator=each.operator, values=each.values)
        for each in selector.match_expressions
    )
    return tuple(chain(by_label, further))


def _list_nodes(pool: PoolView) -> tuple[Known, ...]:
    """List what is published of the nodes; of an open pool also that others may come.

    Combinations of an open pool that contradict what is known of all its nodes are of those that
    a former spec selected.
    """
    listed: list[Known] = [{}] if pool.is_open else []
    for labels in pool.combinations:
        published: Known = {key: (labels.get(key),) for key in pool.published_keys}
        shared = published.keys() & pool.known.keys()
        if not pool.is_open or all(published[key][0] in pool.known[key] for key in shared):
            listed.append(published)
    return tuple(listed)


def _write_known(known: Known) -> dict[str, tuple[str, ...]]:
    return {
        key: tuple(value for value in values if value is not None)
        for key, values in sorted(known.items())
    }


def _count_bytes(part: AdmissionTableSpec | TablePool) -> int:
    return len(part.model_dump_json(by_alias=True, exclude_none=True).encode())
