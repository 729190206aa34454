"""Open-source gpushare: on and off; the whole-card plugin is nobody's duty, and is reported."""

import pytest

from tests.integration.nodechange.node_modes import EXPECTED_MODES, take_tour
from tests.kit.bench import GPU_MEM, Bench
from tests.kit.cluster.expect import expect_labels, expect_pool_ready, expect_reason
from tests.kit.values.manifests import build_pool

pytestmark = pytest.mark.usefixtures("operator")


def test_a_node_goes_through_the_modes_and_each_of_them_works(bench: Bench) -> None:
    take_tour(bench, "OpenSource", "default", "share", "default", "share")


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
