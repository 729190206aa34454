"""The page in a browser beside a real API server: it moves with the cluster, and says when it
can't."""

from collections.abc import Iterator

import pytest

from devcluster.nodes import remove_nodes
from tests.browser.conftest import Open
from tests.browser.ui_server import UiServer, serve_ui
from tests.kit.bench import Bench
from tests.kit.cluster.expect import expect_pool_ready, expect_running
from tests.kit.cluster.sharing_pools import given_sharing_pool, place_pod
from tests.kit.values.manifests import build_pool


@pytest.fixture
def shown(bench: Bench) -> Iterator[UiServer]:
    """The page of a pool with two nodes."""
    given_sharing_pool(bench, "Basic", "n1", "n2")
    with serve_ui(kubeconfig=bench.cluster.kubeconfig) as shown:
        yield shown


def test_a_pod_appears_on_its_card_and_goes_and_a_change_of_mode_is_seen(
    bench: Bench, shown: UiServer, open_page: Open
) -> None:
    seen = open_page(shown.url)
    seen.expect_card("n1", "GPU 0: 0 of 15 GiB allocated")

    expect_running(bench, place_pod(bench, "trainer", "n1", gib=6))
    seen.expect_card("n1", "GPU 0: 6 of 15 GiB allocated: default/trainer 6")
    read = bench.pod("trainer")["metadata"]["annotations"]
    assert (read["ALIYUN_COM_GPU_MEM_IDX"], read["ALIYUN_COM_GPU_MEM_POD"]) == ("0", "6")

    bench.change_pool(schedule="cgpu")
    seen.expect_text(seen.row("n1"), "⚠ stale")
    expect_pool_ready(bench, nodes=2)
    for node in ("n1", "n2"):
        seen.expect_text(seen.row(node), "✓ ready")
        labels = bench.node(node)["metadata"]["labels"]
        assert (labels["cgpu"], labels["cgpu.disable.isolation"]) == ("true", "false")
    assert seen.row("n1").get_by_text("cgpu", exact=True).is_visible()

    bench.cordon("n2")
    seen.expect_text(seen.row("n2"), "cordoned")
    bench.delete_pod("trainer")
    seen.expect_card("n1", "GPU 0: 0 of 15 GiB allocated")


def test_a_name_that_means_something_to_scripts_is_a_name_like_others(
    bench: Bench, open_page: Open
) -> None:
    """What is new is told by pool: one of this name has nothing that went."""
    bench.install("Basic")
    bench.add_nodes("n1", "n2")
    bench.operators.standard()
    bench.create_pool(build_pool("constructor", edition="Basic"))
    expect_pool_ready(bench, "constructor", nodes=2)
    with serve_ui(kubeconfig=bench.cluster.kubeconfig) as shown:
        seen = open_page(shown.url)
        seen.row("n2").wait_for()
        bench.cordon("n2")
        seen.expect_text(seen.row("n2"), "cordoned")
        assert seen.page.get_by_role("alert").is_hidden()


def test_nodes_and_pools_come_and_go_and_each_row_is_where_it_belongs(
    bench: Bench, shown: UiServer, open_page: Open
) -> None:
    seen = open_page(shown.url)
    seen.expect_names("training", "n1", "n2")
    remove_nodes(bench.cluster, ["n1"])
    seen.expect_names("training", "n2")
    bench.add_nodes("n0", "n3")
    seen.expect_names("training", "n0", "n2", "n3")

    bench.add_nodes("n4", node_pool="np-other")
    seen.expect_names("training", "n0", "n2", "n3", "In no pool", "n4")
    bench.create_pool(build_pool("other", edition="Basic", node_pool="np-other"))
    seen.expect_names("other", "n4", "training", "n0", "n2", "n3")


def test_what_is_read_beside_the_rows_stays_while_others_change(
    bench: Bench, shown: UiServer, open_page: Open
) -> None:
    seen = open_page(shown.url)
    seen.row("n1").click()
    seen.page.locator("#details-title").select_text()
    bench.cordon("n2")
    seen.expect_text(seen.row("n2"), "cordoned")
    assert seen.page.evaluate("getSelection().toString()") == "n1"

    bench.cordon("n1")
    seen.expect_text(seen.page.get_by_role("complementary"), "no, cordoned")


def test_a_program_that_has_ended_is_said_to_be_silent_and_what_is_shown_stays(
    bench: Bench, shown: UiServer, open_page: Open
) -> None:
    seen = open_page(shown.url)
    seen.row("n2").wait_for()
    shown.end()
    alert = seen.page.get_by_role("alert")
    seen.expect_text(alert, "has not answered since")
    seen.expect_text(alert, "The data shown is from")
    assert seen.names() == ["training", "n1", "n2"]
    # The browser logs each call that nobody answers.
    seen.complaints.clear()
