"""A pool goes from share to cgpu: each plugin restarts once, one node at a time, no pod is lost."""

import pytest

from devcluster.editions import Edition
from tests.kit.bench import SYSTEM_PODS, Bench
from tests.kit.cluster.expect import (
    expect,
    expect_labels,
    expect_not_lost,
    expect_offered,
    expect_pool_ready,
    expect_running,
    find_condition,
    is_isolated,
    read_record,
)
from tests.kit.cluster.sharing_pools import (
    expect_each_restarted_once,
    expect_isolated_from_now_on,
    expect_one_node_at_a_time,
    given_sharing_pool,
    place_pod,
    plugin_names,
    plugin_uids,
)
from tests.kit.values.manifests import build_pod

FOUR = ("n1", "n2", "n3", "n4")
DISABLED = "cgpu.disable.isolation"


@pytest.mark.parametrize("edition", ["Basic", "Professional"])
def test_a_flip_restarts_each_plugin_once_one_node_at_a_time(
    bench: Bench, edition: Edition
) -> None:
    given_sharing_pool(bench, edition, *FOUR)
    before = plugin_names(bench)
    mark = bench.audit.mark()
    with bench.watching() as watch:
        bench.change_pool(schedule="cgpu")
        expect_pool_ready(bench, nodes=4, within=90)

    expect_each_restarted_once(bench, before, mark)
    expect_one_node_at_a_time(watch)
    expect_isolated_from_now_on(bench, FOUR)


def test_pods_that_keep_coming_during_a_flip_all_run_and_get_what_their_plugin_gives(
    bench: Bench,
) -> None:
    """None is lost; who was served by a plugin that came after the labels is isolated."""
    old = given_sharing_pool(bench, "Basic", *FOUR).values()
    bench.change_pool(schedule="cgpu")
    pods: list[str] = []
    while find_condition(bench.pool())["reason"] != "AllNodesReady" or not pods:
        pod = build_pod(f"p{len(pods)}", gib=1, selects={"gpushare.io/pool": "training"})
        pods.append(bench.create_pod(pod))
        expect_running(bench, pods[-1])

    for name in pods:
        pod = bench.pod(name)
        expect_not_lost(pod)
        assert is_isolated(pod) == (read_record(pod)["main"]["plugin"] not in old)


def test_plugin_pods_without_the_name_label_are_restarted_too(bench: Bench) -> None:
    given_sharing_pool(bench, "Basic", "n1", "n2", name_label=False)
    before = plugin_names(bench)
    mark = bench.audit.mark()

    bench.change_pool(schedule="cgpu")
    expect_pool_ready(bench, nodes=2)

    expect_each_restarted_once(bench, before, mark)
    expect_isolated_from_now_on(bench, ["n1", "n2"])


def test_a_changed_label_that_a_new_plugin_has_read_is_mended_by_a_restart(bench: Bench) -> None:
    given_sharing_pool(bench, "Basic", "n1")
    bench.operators.end_all()
    bench.label("n1", {DISABLED: "false"})
    stale = bench.plugins()["n1"]["metadata"]
    bench.call("DELETE", f"{SYSTEM_PODS}/{stale['name']}")
    expect(
        bench, "another plugin", lambda: plugin_uids(bench).get("n1", "") not in ("", stale["uid"])
    )
    expect_offered(bench, "n1")
    before = plugin_names(bench)
    mark = bench.audit.mark()

    bench.operators.standard()

    expect_labels(bench, "n1", {DISABLED: "true"})
    expect_pool_ready(bench, nodes=1)
    expect_each_restarted_once(bench, before, mark)
    assert not is_isolated(expect_running(bench, place_pod(bench, "after", "n1")))
