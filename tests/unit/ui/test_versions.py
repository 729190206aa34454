"""A page that has seen a state is told what is new since, and nothing else."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from gpushare.cli.ui.document import Versions

Json = dict[str, Any]


def build_state(pools: dict[str, dict[str, int]], outside: dict[str, int], waiting: int) -> Json:
    """Pools with nodes, each with a figure that may change."""
    return {
        "installed": True,
        "pools": [
            {"name": pool, "gpus": sum(nodes.values()), "nodes": _list_nodes(nodes)}
            for pool, nodes in sorted(pools.items())
        ],
        "unreadable": [],
        "waiting": [{"name": f"p{number}"} for number in range(waiting)],
        "outside": _list_nodes(outside),
    }


def _list_nodes(nodes: dict[str, int]) -> list[Json]:
    return [{"name": name, "figure": figure} for name, figure in sorted(nodes.items())]


def merge(known: Json, told: Json) -> Json:
    """What a page that knows `known` makes of `told`, as feed.js does."""
    if "gone" not in told:
        return told
    before = {pool["name"]: pool["nodes"] for pool in known["pools"]} | {"": known["outside"]}

    def merge_nodes(group: str, changed: list[Json]) -> list[Json]:
        nodes = {node["name"]: node for node in before.get(group, [])}
        for name in told["gone"].get(group, []):
            nodes.pop(name, None)
        nodes |= {node["name"]: node for node in changed}
        return [nodes[name] for name in sorted(nodes)]

    waiting = known["waiting"] if told["waiting"] is None else told["waiting"]
    pools = [{**p, "nodes": merge_nodes(p["name"], p["nodes"])} for p in told["pools"]]
    outside = merge_nodes("", told["outside"])
    merged = {**told, "pools": pools, "outside": outside, "waiting": waiting}
    del merged["gone"]
    return merged


names = st.sampled_from(["n1", "n2", "n3", "n4"])
nodes = st.dictionaries(names, st.integers(0, 2), max_size=4)
pools = st.dictionaries(st.sampled_from(["blue", "green", "red"]), nodes, max_size=3)
states = st.builds(build_state, pools, nodes, st.integers(0, 2))


@given(history=st.lists(states, min_size=1, max_size=8), data=st.data())
def test_whenever_a_page_asks_it_ends_up_with_the_whole_state(
    history: list[Json], data: st.DataObject
) -> None:
    versions = Versions()
    known: Json | None = None
    seen: int | None = None
    for state in history:
        versions.take(state)
        if data.draw(st.booleans(), label="asks"):
            told = versions.tell(seen)
            known, seen = merge(known or {}, told), versions.version
            assert known == state


def test_of_many_nodes_only_the_one_that_changed_is_told() -> None:
    versions = Versions()
    many = {f"n{number}": 0 for number in range(1000)}
    versions.take(build_state({"blue": many}, {}, 3))
    seen = versions.version
    versions.take(build_state({"blue": {**many, "n7": 1}}, {}, 3))

    told = versions.tell(seen)

    assert [pool["nodes"] for pool in told["pools"]] == [[{"name": "n7", "figure": 1}]]
    assert (told["waiting"], told["gone"]) == (None, {})


def test_who_knows_a_version_that_there_is_not_is_told_everything() -> None:
    versions = Versions()
    versions.take(build_state({"blue": {"n1": 1}}, {}, 0))
    for since in (None, 0, 2):
        assert "gone" not in versions.tell(since)
