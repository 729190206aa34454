"""Random clusters are laid out as an independent model of the rules lays them out."""

from hypothesis import event, given, settings
from hypothesis import strategies as st

from gpushare.core.inspect.cards import observe_card_nodes
from gpushare.core.inspect.layout import format_details, format_summary
from tests.kit.values.manifests import Json, build_bound_pod, build_node
from tests.unit.inspect.layoutmodel import model_details, model_nodes, model_summary

NODES = ("n1", "node-2", "cn-beijing.192.168.10.3", "gpu")
names = st.text("abz019-", min_size=1, max_size=20)
indexes = st.sampled_from(["", "0", "1", "2", "3", "9", "-1", "-2", "+1", "01", "x", "1.5"])
units = st.one_of(st.integers(0, 20), st.sampled_from([None, True, 1.5, "4", -3]))
allocations: st.SearchStrategy[Json] = st.dictionaries(
    indexes,
    st.one_of(st.none(), st.just([]), st.dictionaries(indexes, units, max_size=3)),
    max_size=2,
)


@st.composite
def card_nodes(draw: st.DrawFn) -> list[Json]:
    shown = draw(st.lists(st.sampled_from(NODES), unique=True))
    counts = st.one_of(st.none(), st.integers(0, 4))
    totals = st.one_of(st.none(), st.integers(0, 64), st.sampled_from([100, 101, 16276, 10**6]))
    addresses = st.sampled_from([None, "10.0.0.1", "192.168.100.200"])
    return [
        build_node(name, gpus=draw(counts), total=draw(totals), address=draw(addresses))
        for name in shown
    ]


@st.composite
def holders(draw: st.DrawFn) -> Json:
    entry = draw(st.one_of(st.none(), allocations, st.sampled_from(["", "{", "null", "[]", "7"])))
    return build_bound_pod(
        draw(names),
        draw(st.sampled_from(NODES)),
        *draw(st.lists(st.integers(0, 20), max_size=2)),
        card=draw(st.one_of(st.none(), indexes)),
        allocation=entry,
        namespace=draw(st.sampled_from(["default", "team-a", "z"])),
        phase=draw(st.sampled_from(["Pending", "Running", "Running", "Succeeded", "Failed"])),
    )


def identify(pod: Json) -> str:
    uid: str = pod["metadata"]["uid"]
    return uid


@settings(max_examples=300)
@given(card_nodes(), st.lists(holders(), max_size=8, unique_by=identify))
def test_both_views_are_those_of_the_model(nodes: list[Json], pods: list[Json]) -> None:
    seen, expected = observe_card_nodes(nodes, pods), model_nodes(nodes, pods)
    event(f"nodes that share: {len(seen)}")
    event(f"pending: {any(node.has_pending for node in seen)}")

    assert format_summary(seen) == model_summary(expected)
    assert format_details(seen) == model_details(expected)
