"""Every change of mode that an edition allows works, every other one changes nothing."""

from itertools import pairwise, permutations

import pytest

from devcluster.editions import Edition
from gpushare.names import Reason
from tests.integration.nodechange.node_modes import (
    EXPECTED_MODES,
    expect_mode,
    expect_offer,
    given_nodes_in,
    our_node_writes,
    take_tour,
)
from tests.kit.bench import GPU_MEM, MODE, Bench
from tests.kit.cluster.expect import (
    expect,
    expect_labels,
    expect_pool_ready,
    expect_reason,
    list_traces,
)
from tests.kit.values.manifests import build_pool

BASIC = ("default", "share", "cgpu", "share", "default", "cgpu", "default")
OPEN_SOURCE = ("default", "share", "default", "share")
WITHOUT_MODULE = (
    "default", "topology", "default", "mps", "default", "share", "default", "disabled",
)  # fmt: skip
WITH_MODULE = ("default", "share", "cgpu", "default", "cgpu", "topology", "default")
TO_CORE_MEM = ("default", "core_mem", "topology")
BACK_FROM_CORE_MEM = ("default", "core_mem", "default")
TOURS: dict[str, tuple[Edition, tuple[str, ...]]] = {
    "Basic": ("Basic", BASIC),
    "OpenSource": ("OpenSource", OPEN_SOURCE),
    "Professional without the module": ("Professional", WITHOUT_MODULE),
    "Professional with the module": ("Professional", WITH_MODULE),
    "Professional with that of core_mem": ("Professional", TO_CORE_MEM),
    "Professional back from core_mem": ("Professional", BACK_FROM_CORE_MEM),
}
assert set(pairwise(BASIC)) == set(permutations(EXPECTED_MODES["Basic"], 2))
ALLOWED = {
    pair
    for tour in (WITHOUT_MODULE, WITH_MODULE, TO_CORE_MEM, BACK_FROM_CORE_MEM)
    for pair in pairwise(tour)
}
REFUSED = [pair for pair in permutations(EXPECTED_MODES["Professional"], 2) if pair not in ALLOWED]

pytestmark = pytest.mark.usefixtures("operator")


@pytest.mark.parametrize(("edition", "tour"), TOURS.values(), ids=TOURS)
def test_a_node_goes_through_the_modes_and_each_of_them_works(
    bench: Bench, edition: Edition, tour: tuple[str, ...]
) -> None:
    take_tour(bench, edition, *tour)


def test_a_pair_that_is_not_allowed_is_reported_and_nothing_is_written(bench: Bench) -> None:
    nodes = {f"{of}-{to}".replace("_", ""): (of, to) for of, to in REFUSED}
    given_nodes_in(bench, "Professional", {node: of for node, (of, _) in nodes.items()})
    mark = bench.audit.mark()

    for node, (_, to) in nodes.items():
        bench.create_pool(build_pool(node, schedule=to, nodes={"names": [node]}))

    for node, (of, to) in nodes.items():
        # The way out of isolation that stays open; all else takes a person.
        is_teardown = of in ("cgpu", "core_mem") and to == "share"
        reason = Reason.REQUIRES_TEARDOWN if is_teardown else Reason.REQUIRES_MANUAL_ACTION
        sample = expect_reason(bench, node, reason, pool=node)
        assert sample["message"].startswith(f"{of} -> {to}: ")
        expect_labels(bench, node, {MODE: of, "gpushare.io/pool": None})
        expect_offer(bench, node, EXPECTED_MODES["Professional"][of])
    assert our_node_writes(bench, mark, list(nodes)) == []


def test_a_person_takes_the_node_through_default_outside_the_pool(bench: Bench) -> None:
    bench.install("Professional")
    bench.add_nodes("n1", labels={MODE: "default"})
    bench.create_pool(build_pool(schedule="topology"))
    expect_mode(bench, "Professional", "topology")
    mark = bench.audit.mark()
    bench.change_pool(schedule="share")
    expect_reason(bench, "n1", "RequiresManualAction")
    assert our_node_writes(bench, mark, ["n1"]) == []

    bench.change_pool(nodes={"exclude": ["n1"]})
    expect(bench, "n1 is nobody's", lambda: not list_traces(bench.node("n1")))
    bench.label("n1", {MODE: "default"})
    bench.change_pool(nodes={"exclude": None})

    expect_mode(bench, "Professional", "share")
    assert bench.audit.our_deletions(mark) == []


# The whole-card plugin of the open-source edition is nobody's duty.


def test_a_whole_card_plugin_that_stays_away_is_reported_and_holds_no_node_up(
    bench: Bench,
) -> None:
    bench.install("OpenSource")
    bench.add_nodes("n1", "n2", faults={"whole_card_never_returns": True})
    bench.create_pool(build_pool(edition="OpenSource", schedule="share"))
    expect_pool_ready(bench, nodes=2)

    bench.change_pool(schedule="default")

    for name in ("n1", "n2"):
        expect_reason(bench, name, "WholeCardPluginMissing")
        node = expect_labels(bench, name, EXPECTED_MODES["OpenSource"]["default"].labels)
        assert not node["spec"].get("unschedulable")
        assert not int(node["status"]["allocatable"].get(GPU_MEM, 0))
    for name in ("n1", "n2"):
        bench.set_faults(name)
    expect_pool_ready(bench, nodes=2)
