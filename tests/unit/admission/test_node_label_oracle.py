"""Random nodes, as a pool publishes them, and random selections: an oracle tries node by node."""

from collections import Counter
from collections.abc import Mapping
from itertools import product
from typing import Any
from unittest.mock import patch

from hypothesis import example, given
from hypothesis import strategies as st

from gpushare.api.k8s.pod_request import parse_pod_request
from gpushare.core.admission.pool_view import PoolView, view_pool
from gpushare.core.capacity import node_labels
from gpushare.core.capacity.node_labels import combine, list_combinations
from tests.kit.values.manifests import build_pod, build_pool
from tests.kit.values.pool_views import Json, admit

PUBLISHED, UNPUBLISHED, FIXED = ("card", "count", "zone"), "team", "group"
KEYS = (*PUBLISHED, UNPUBLISHED, FIXED)
VALUES = ("1", "2", "3")
OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt")

Labels = Mapping[str, str]
Requirement = tuple[str, str, tuple[str, ...]]
NODE = st.dictionaries(st.sampled_from(KEYS), st.sampled_from(VALUES))
POOL = st.fixed_dictionaries(
    {
        "nodes": st.lists(NODE, max_size=6),
        "fixed": st.sampled_from(("", *VALUES)),
        "is_autoscaled": st.booleans(),
        "schedule": st.sampled_from(("cgpu", "share")),
    }
)


@st.composite
def _requirements(draw: st.DrawFn) -> Requirement:
    operator = draw(st.sampled_from(OPERATORS))
    most = {"Exists": 0, "DoesNotExist": 0, "Gt": 1, "Lt": 1}.get(operator, 3)
    least = 0 if most == 0 else 1
    values = st.lists(st.sampled_from(VALUES), min_size=least, max_size=most)
    return draw(st.sampled_from(KEYS)), operator, tuple(draw(values))


SELECTOR = st.dictionaries(st.sampled_from(KEYS), st.sampled_from(VALUES), max_size=3)
TERMS = st.lists(st.lists(_requirements(), min_size=1, max_size=3), max_size=3)


def _holds(requirement: Requirement, labels: Labels) -> bool:
    key, operator, values = requirement
    value = labels.get(key)
    match operator:
        case "In":
            return value in values
        case "NotIn":
            return value not in values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "Gt":
            return value is not None and int(value) > int(values[0])
        case _:
            return value is not None and int(value) < int(values[0])


def _matches(selector: Labels, terms: list[list[Requirement]], labels: Labels) -> bool:
    """As "Assigning Pods to Nodes" in the Kubernetes documentation has it."""
    if not selector.items() <= labels.items():
        return False
    return not terms or any(all(_holds(each, labels) for each in term) for term in terms)


def _contradicts_itself(selector: Labels, terms: list[list[Requirement]]) -> bool:
    """Whether no node can match, whatever its labels."""
    values = (None, "0", *VALUES, "4")
    nodes = (dict(zip(KEYS, chosen, strict=True)) for chosen in product(values, repeat=len(KEYS)))
    labels = ({key: value for key, value in node.items() if value is not None} for node in nodes)
    return not any(_matches(selector, terms, each) for each in labels)


def _list_nodes(pool: Json) -> list[dict[str, str]]:
    """The pool's nodes: where it selects them by a label, all have that."""
    fixed = {FIXED: pool["fixed"]} if pool["fixed"] else {}
    return [{**node, **fixed} for node in pool["nodes"]]


def _view(name: str, pool: Json, most: int) -> PoolView:
    selector = {"matchLabels": {FIXED: pool["fixed"]}} if pool["fixed"] else None
    nodes: Json = {"selector": selector} if selector else {"names": ["n"]}
    nodes["scaling"] = "Autoscaled" if pool["is_autoscaled"] else "Fixed"
    counts = Counter(combine(labels, PUBLISHED) for labels in _list_nodes(pool))
    with patch.object(node_labels, "MAX_COMBINATIONS", most):
        listed = list_combinations(counts)
    raw = build_pool(name, schedule=pool["schedule"], nodes=nodes)
    status: Json = {"nodes": {"matched": len(pool["nodes"])}}
    if listed is not None:
        status["nodeLabels"] = listed.model_dump(by_alias=True)
    view = view_pool({**raw, "status": status})
    assert view is not None
    return view


def _build_pod(selector: Labels, terms: list[list[Requirement]]) -> Json:
    spec: dict[str, Any] = {"nodeSelector": dict(selector)} if selector else {}
    if terms:
        written = [
            {
                "matchExpressions": [
                    {"key": key, "operator": operator, "values": list(values)}
                    for key, operator, values in term
                ]
            }
            for term in terms
        ]
        required = {
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": written}
        }
        spec["affinity"] = {"nodeAffinity": required}
    return build_pod("a", **spec)


@given(POOL, SELECTOR, TERMS, st.integers(1, 4))
@example({"nodes": [], "fixed": "1", "is_autoscaled": False, "schedule": "cgpu"}, {}, [], 1)
@example(
    {"nodes": [{}], "fixed": "", "is_autoscaled": True, "schedule": "cgpu"},
    {"card": "1"},
    [[("card", "In", ("2",))]],
    1,
)
def test_what_is_known_of_a_pool_is_true_of_its_nodes(
    pool: Json, selector: Labels, terms: list[list[Requirement]], most: int
) -> None:
    request = parse_pod_request(_build_pod(selector, terms))
    known, nodes = _view("p", pool, most).match(request.selection), _list_nodes(pool)
    matches = any(_matches(selector, terms, labels) for labels in nodes)
    if known is False:
        assert not matches
        grows = pool["is_autoscaled"] and pool["fixed"] == "" and nodes
        assert not grows or _contradicts_itself(selector, terms)
    if known is True and nodes:
        assert matches


@given(st.lists(POOL, min_size=1, max_size=4), SELECTOR, TERMS, st.integers(1, 4))
def test_a_pod_goes_to_a_pool_whose_node_matches_wherever_that_can_be_known(
    pools: list[Json], selector: Labels, terms: list[list[Requirement]], most: int
) -> None:
    by_name = {f"p{number}": pool for number, pool in enumerate(pools)}
    views = [_view(name, pool, most) for name, pool in by_name.items()]
    pod = _build_pod(selector, terms)
    decision, selection = admit(pod, *views), parse_pod_request(pod).selection
    matching = {
        name
        for name, pool in by_name.items()
        if any(_matches(selector, terms, labels) for labels in _list_nodes(pool))
    }
    if decision.pool is None:
        assert not matching
        return
    isolates = by_name[decision.pool]["schedule"] == "cgpu"
    alike = [view for view in views if (view.schedule == "cgpu") is isolates and view.nodes]
    if any(view.match(selection) for view in alike):
        assert decision.pool in matching
