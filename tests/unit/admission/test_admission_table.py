"""The admission table says of each pool what the webhook finds of it."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpushare import names
from gpushare.api.admission.table import MOST_POOLS
from gpushare.api.crd import build_table_crd
from gpushare.api.k8s.node_selection import (
    FOLLOWING,
    NodeSelection,
    Term,
    join_demands,
    parse_demand,
)
from gpushare.api.selector import LabelSelector, SelectorOperator, SelectorRequirement
from gpushare.core.admission.pool_view import PoolView, view_pool
from gpushare.core.admission.table import MOST_BYTES, build_table
from gpushare.editions.edition import Mode
from gpushare.editions.registry import MODES
from gpushare.names import Reason
from tests.kit.values.manifests import build_pool
from tests.kit.values.pool_views import Json, a_labelled_view, a_view

KEYS = ("zone", "card", "team", "gpushare.io/pool", "ack.node.gpu.schedule")
NAMES = ("metadata.name", "kubernetes.io/hostname")
VALUES = ("1", "2", "x", "p", "cgpu")
LABELS = st.dictionaries(st.sampled_from(KEYS + NAMES), st.sampled_from(VALUES), max_size=3)


@st.composite
def _terms(draw: st.DrawFn) -> Term:
    term: dict[str, Any] = {}
    for key in draw(st.lists(st.sampled_from(KEYS + NAMES), max_size=3, unique=True)):
        operators = st.sampled_from(("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"))
        demands = []
        for operator in draw(st.lists(operators, min_size=1, max_size=2)):
            most = 1 if operator in ("Gt", "Lt") else 3
            values = draw(st.lists(st.sampled_from(VALUES), min_size=1, max_size=most))
            demands.append(parse_demand(operator, values))
        term[key] = join_demands(demands)
    return term


SELECTIONS = st.builds(NodeSelection, LABELS, st.none() | st.lists(_terms(), max_size=3).map(tuple))


@st.composite
def _views(draw: st.DrawFn) -> PoolView:
    """A pool; of an open one the published labels agree with what its selector says."""
    is_open = draw(st.booleans())
    known = draw(
        st.dictionaries(
            st.sampled_from(("zone", "team")),
            st.lists(st.sampled_from(VALUES), min_size=1, max_size=2, unique=True).map(tuple),
        )
    )
    values: dict[str, Any] = {
        key: st.sampled_from((is_open and known.get(key)) or (None, *VALUES))
        for key in ("zone", "card")
    }
    nodes = draw(st.lists(st.fixed_dictionaries(values), min_size=not is_open, max_size=4))
    combinations = tuple(
        {key: value for key, value in node.items() if value is not None} for node in nodes
    )
    return a_view(
        "p",
        draw(st.sampled_from(("cgpu", "share"))),
        node_labels=known,
        published_keys=("card", "zone"),
        combinations=combinations,
        is_open=is_open,
    )


def _evaluate(view: PoolView, selection: NodeSelection) -> bool | None:
    """As the policy does: whether a node is known to match, or none can."""
    table = _dump(view)
    (pool,) = table["pools"]
    mode = table["modes"][pool["mode"]]
    following: Json = {key: [] for key in FOLLOWING}
    following |= {names.LABEL_POOL: [pool["name"]]}
    following |= {key: [value] for key, value in mode["labels"].items()}
    following |= {names.LABEL_ISOLATION_VERIFIED: ["true"] if mode["isolatesByKernel"] else []}
    known = pool.get("labels", {}) | following
    found = [_evaluate_one(known | each, selection) for each in pool["nodes"]]
    return True if True in found else None if None in found else False


def _evaluate_one(labels: Mapping[str, Sequence[str]], selection: NodeSelection) -> bool | None:
    is_certain = True
    for key, value in selection.labels.items():
        possible = labels.get(key)
        if possible is not None and value not in possible:
            return False
        is_certain &= possible is not None and len(possible) == 1
    if selection.terms is None:
        return is_certain or None
    terms = [_evaluate_term(labels, selection.labels, term) for term in selection.terms]
    if not any(each is not False for each in terms):
        return False
    return (is_certain and True in terms) or None


def _evaluate_term(
    labels: Mapping[str, Sequence[str]], selector: Mapping[str, str], term: Term
) -> bool | None:
    is_certain = True
    for key, asked in term.items():
        if key in selector:
            admitted = [asked.admits(selector[key])]
        elif key in labels:
            admitted = [asked.admits(value) for value in labels[key] or (None,)]
        else:
            # Nearly all nodes have other names than the one that is excluded.
            is_certain &= key in NAMES and not asked.is_present
            continue
        if not any(admitted):
            return False
        is_certain &= all(admitted)
    return is_certain or None


def _dump(*views: PoolView) -> Json:
    return build_table(views).dump()


@given(_views(), SELECTIONS)
def test_what_its_entries_say_of_a_selection_of_nodes_is_what_the_webhook_finds(
    view: PoolView, selection: NodeSelection
) -> None:
    assert _evaluate(view, selection) is view.match(selection)


def test_labels_that_a_former_spec_selected_open_no_pool() -> None:
    view = a_labelled_view(
        "p", {"zone": "a", "card": "1"}, node_labels={"zone": ("b",)}, is_open=True
    )
    assert _evaluate(view, NodeSelection({"zone": "a"})) is False
    assert _evaluate(view, NodeSelection({"zone": "b"})) is True


def test_pools_with_nodes_come_first_then_those_of_higher_priority_then_by_name() -> None:
    views = [
        *(a_view("empty", priority=900, nodes=0), a_view("b"), a_view("a")),
        *(a_view("first", priority=200), a_view("uncounted", priority=150, nodes=None)),
    ]
    pools = _dump(*views)["pools"]
    assert [each["name"] for each in pools] == ["first", "uncounted", "a", "b", "empty"]
    assert [each.get("isEmpty") for each in pools] == [None, None, None, None, True]
    assert orjson.dumps(_dump(*views)) == orjson.dumps(_dump(*reversed(views)))


def test_a_pool_that_takes_no_pod_is_left_out_and_not_counted() -> None:
    table = _dump(a_view("a", closed=Reason.POOL_DELETING), a_view("b"))
    assert [each["name"] for each in table["pools"]] == ["b"]
    assert (table["count"], table["omitted"]) == (1, 0)


def test_pools_of_one_mode_share_what_it_says() -> None:
    views = (a_view("p", "cgpu"), a_view("q", "cgpu", selects_mode=True), a_view("r", "share"))
    table = _dump(*views)
    modes = ["Professional/cgpu", "Professional/cgpu", "Professional/share"]
    assert [each["mode"] for each in table["pools"]] == modes
    assert [each.get("selectsMode") for each in table["pools"]] == [None, True, None]
    assert table["modes"]["Professional/cgpu"] == {
        "serves": ["aliyun.com/gpu-mem"],
        "isolates": True,
        "isolatesByKernel": True,
        "labels": {"ack.node.gpu.schedule": "cgpu"},
    }
    assert not table["modes"]["Professional/share"]["isolates"]


def test_a_pool_tells_whose_pods_it_takes_and_what_they_tolerate() -> None:
    raw = build_pool(
        "p",
        schedule="core_mem",
        workloads={
            "namespaceSelector": {
                "matchLabels": {"team": "a"},
                "matchExpressions": [{"key": "x", "operator": "Exists"}],
            },
            "selection": "OnRequest",
            "tolerations": [{"key": "gpu", "operator": "Exists", "tolerationSeconds": 3}],
        },
    )
    view = view_pool(raw)
    assert view is not None
    table = _dump(view)
    (pool,) = table["pools"]
    assert pool["namespaceSelector"] == [
        {"key": "team", "operator": "In", "values": ["a"]},
        {"key": "x", "operator": "Exists", "values": []},
    ]
    assert "podSelector" not in pool
    assert pool["onRequest"]
    assert pool["tolerations"] == [{"key": "gpu", "operator": "Exists", "tolerationSeconds": 3}]
    both = "aliyun.com/gpu-core.percentage+aliyun.com/gpu-mem"
    assert table["modes"][pool["mode"]]["serves"] == ["aliyun.com/gpu-core.percentage", both]


def test_free_memory_is_no_part_of_it() -> None:
    view = a_view()
    assert _dump(view) == _dump(replace(view, room=None, observed_at=""))


def _view_wide(name: str, combinations: int = 50, **more: Any) -> PoolView:
    """A pool with as much about labels as its status holds: 16 KiB."""
    listed = [{f"key-{k}": f"{name}-{k}-{n:040}" for k in range(6)} for n in range(combinations)]
    return a_labelled_view(name, *listed, **more)


def test_a_table_that_would_be_too_large_keeps_all_pools_and_of_the_last_ones_no_labels() -> None:
    table = _dump(*(_view_wide(f"p{n:03}") for n in range(100)))
    assert len(orjson.dumps(table)) <= MOST_BYTES
    assert (table["count"], table["omitted"]) == (100, 0)
    assert len(table["pools"][0]["nodes"]) == 50
    # Taken to be open: nodes of any kind may be there.
    assert table["pools"][-1]["nodes"] == [{}]


def test_what_does_not_fit_in_is_counted() -> None:
    table = _dump(*(a_view(f"p{n:03}") for n in range(MOST_POOLS + 5)))
    assert (len(table["pools"]), table["count"], table["omitted"]) == (MOST_POOLS, MOST_POOLS, 5)
    assert table["pools"][-1]["name"] == f"p{MOST_POOLS - 1:03}"


def test_a_pool_that_says_too_much_leaves_room_for_smaller_ones() -> None:
    values = tuple(f"v{n:062}" for n in range(100))
    long = SelectorRequirement(key="k", operator=SelectorOperator.NOT_IN, values=values)
    selector = LabelSelector(match_expressions=(long,) * 6)
    views = [a_view(name, pod_selector=selector, priority=500) for name in ("a", "b")]
    table = _dump(*views, a_view("small"))
    assert [each["name"] for each in table["pools"]] == ["a", "small"]
    assert table["omitted"] == 1
    assert len(orjson.dumps(table)) <= MOST_BYTES


def test_a_pool_that_the_schema_would_refuse_prevents_no_table() -> None:
    odd = a_view("odd", tolerations=({"key": "no key!", "operator": "Exists"},))
    table = _dump(odd, a_view("even"))
    assert [each["name"] for each in table["pools"]] == ["even"]
    assert table["omitted"] == 1


@pytest.mark.parametrize("mode", MODES.values(), ids=str)
def test_every_mode_fits_in(mode: Mode) -> None:
    assert _dump(a_view("p", str(mode.schedule), edition=mode.edition))["omitted"] == 0


def test_the_kind_has_no_defaults_so_that_what_is_read_is_what_was_written() -> None:
    schema = build_table_crd()["spec"]["versions"][0]["schema"]
    assert '"default"' not in orjson.dumps(schema).decode()
