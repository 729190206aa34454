"""A pool goes from share to cgpu: each plugin restarts once, one node at a time, no pod is lost."""

import pytest

from devcluster import names
from devcluster.editions import Edition
from tests.kit.bench import GPU_MEM, NO_REPORT_SECONDS, NODES, SYSTEM_PODS, Bench
from tests.kit.cluster.expect import (
    expect,
    expect_allocated,
    expect_gpu_memory,
    expect_isolated,
    expect_labels,
    expect_not_lost,
    expect_pool_ready,
    expect_reason,
    expect_running,
    expect_step,
    find_condition,
    is_isolated,
    is_unschedulable,
    read_change,
    read_record,
    watch_delivers,
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
from tests.kit.values.manifests import build_pod, build_pool

FOUR = ("n1", "n2", "n3", "n4")
MODE = "ack.node.gpu.schedule"
DISABLED = "cgpu.disable.isolation"
BOTH: list[Edition] = ["Basic", "Professional"]
ONE = ["Basic", pytest.param("Professional", marks=pytest.mark.long)]


@pytest.mark.parametrize("edition", BOTH)
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


def test_on_basic_running_pods_keep_running_with_what_they_got(bench: Bench) -> None:
    given_sharing_pool(bench, "Basic", "n1", "n2")
    for node in ("n1", "n2"):
        expect_running(bench, place_pod(bench, f"early-{node}", node))

    bench.change_pool(schedule="cgpu")
    expect_pool_ready(bench, nodes=2)

    for node in ("n1", "n2"):
        early = expect_running(bench, f"early-{node}")
        assert not is_isolated(early)
        assert early["status"]["containerStatuses"][0]["restartCount"] == 0
    expect_isolated_from_now_on(bench, ["n1", "n2"])


def test_on_basic_isolation_is_switched_off_again_by_the_same_way(bench: Bench) -> None:
    given_sharing_pool(bench, "Basic", "n1")
    bench.change_pool(schedule="cgpu")
    expect_pool_ready(bench, nodes=1)
    before = plugin_names(bench)
    mark = bench.audit.mark()

    bench.change_pool(schedule="share")
    expect_pool_ready(bench, nodes=1)

    expect_each_restarted_once(bench, before, mark)
    expect_labels(bench, "n1", {"cgpu": "true", DISABLED: "true"})
    assert not is_isolated(expect_running(bench, place_pod(bench, "after", "n1")))


def test_on_professional_a_node_waits_for_its_gpu_pods_and_nothing_is_written(
    bench: Bench,
) -> None:
    given_sharing_pool(bench, "Professional", "n1", "n2")
    expect_running(bench, place_pod(bench, "job", "n1"))
    expect_allocated(bench, gib=3)
    mark = bench.audit.mark()

    bench.change_pool(schedule="cgpu")

    sample = expect_reason(bench, "n1", "WorkloadsPresent")
    assert "default/job" in sample["message"]
    expect_labels(bench, "n2", {MODE: "cgpu"})
    expect_isolated_from_now_on(bench, ["n2"])
    assert [
        c for c in bench.audit.our_writes(mark) if (c.resource, c.name) == ("nodes", "n1")
    ] == []

    bench.delete_pod("job")
    expect_pool_ready(bench, nodes=2)
    expect_isolated_from_now_on(bench, ["n1"])


@pytest.mark.parametrize("edition", ONE)
def test_a_persons_cordon_stays(bench: Bench, edition: Edition) -> None:
    given_sharing_pool(bench, edition, "n1")
    bench.cordon("n1")

    bench.change_pool(schedule="cgpu")
    expect_pool_ready(bench, nodes=1)

    assert bench.node("n1")["spec"].get("unschedulable") is True
    bench.cordon("n1", on=False)
    expect_isolated_from_now_on(bench, ["n1"])


def test_a_node_that_a_person_took_out_of_service_uses_up_the_budget(bench: Bench) -> None:
    given_sharing_pool(bench, "Basic", "n1", "n2", "n3")
    bench.set_faults("n2", not_ready=True)
    expect(bench, "n2 is not ready", lambda: not _is_ready(bench, "n2"))
    with watch_delivers(bench, "nodes"):
        bench.annotate(f"{NODES}/n2", {"example.com/told": "after that"})

    bench.change_pool(schedule="cgpu")

    expect_reason(bench, "n1", "WaitingForBudget")
    expect_reason(bench, "n3", "WaitingForBudget")
    bench.set_faults("n2")
    expect_pool_ready(bench, nodes=3)


def _is_ready(bench: Bench, node: str) -> bool:
    conditions = bench.node(node)["status"]["conditions"]
    return any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)


@pytest.mark.parametrize("edition", ONE)
def test_with_restart_never_the_labels_are_written_and_a_person_restarts(
    bench: Bench, edition: Edition
) -> None:
    given_sharing_pool(bench, edition, "n1", "n2", devicePlugin={"restart": "Never"})
    mark = bench.audit.mark()

    bench.change_pool(schedule="cgpu")

    for node in ("n1", "n2"):
        expect_reason(bench, node, "PluginRestartNeeded")
        wanted = {MODE: "cgpu"} if edition == "Professional" else {DISABLED: "false"}
        expect_labels(bench, node, wanted)
        plugin = bench.plugins()[node]["metadata"]["name"]
        bench.call("DELETE", f"{SYSTEM_PODS}/{plugin}")
    expect_pool_ready(bench, nodes=2)
    assert bench.audit.our_deletions(mark) == []
    expect_isolated_from_now_on(bench, ["n1", "n2"])


def test_a_node_goes_from_whole_cards_to_sharing_and_back_on_open_source(bench: Bench) -> None:
    bench.install("OpenSource")
    bench.operators.standard()
    bench.add_nodes("n1")
    bench.create_pool(build_pool(edition="OpenSource"))
    expect_pool_ready(bench, nodes=1)
    expect_gpu_memory(bench, "n1")
    expect_running(bench, place_pod(bench, "shared", "n1"))

    bench.change_pool(schedule="default")
    expect_reason(bench, "n1", "WorkloadsPresent")
    bench.delete_pod("shared")
    expect_pool_ready(bench, nodes=1)

    expect_labels(bench, "n1", {"gpushare": "false"})
    offered = bench.node("n1")["status"]["allocatable"]
    assert offered.get(GPU_MEM, "0") == "0"
    expect(
        bench,
        "n1 offers whole cards",
        lambda: bench.node("n1")["status"]["allocatable"].get("nvidia.com/gpu") == "1",
    )


def test_a_changed_label_that_a_new_plugin_has_read_is_mended_by_a_restart(bench: Bench) -> None:
    given_sharing_pool(bench, "Basic", "n1")
    bench.operators.end_all()
    bench.label("n1", {DISABLED: "false"})
    stale = bench.plugins()["n1"]["metadata"]
    bench.call("DELETE", f"{SYSTEM_PODS}/{stale['name']}")
    misled = expect(
        bench, "another plugin", lambda: plugin_uids(bench).get("n1", "") not in ("", stale["uid"])
    )
    assert misled
    expect_gpu_memory(bench, "n1")
    before = plugin_names(bench)
    mark = bench.audit.mark()

    bench.operators.standard()

    expect_labels(bench, "n1", {DISABLED: "true"})
    expect_pool_ready(bench, nodes=1)
    expect_each_restarted_once(bench, before, mark)
    assert not is_isolated(expect_running(bench, place_pod(bench, "after", "n1")))


# Facts that nobody has settled: right both ways, or safe with a reason.


@pytest.mark.parametrize("edition", ONE)
def test_plugin_pods_without_the_name_label_are_restarted_too(
    bench: Bench, edition: Edition
) -> None:
    given_sharing_pool(bench, edition, "n1", "n2", name_label=False)
    before = plugin_names(bench)
    mark = bench.audit.mark()

    bench.change_pool(schedule="cgpu")
    expect_pool_ready(bench, nodes=2)

    expect_each_restarted_once(bench, before, mark)
    expect_isolated_from_now_on(bench, ["n1", "n2"])


@pytest.mark.parametrize("edition", ["Basic", "Professional"])
def test_a_flip_is_right_where_the_api_shows_the_resource_gone_meanwhile(
    bench: Bench, edition: Edition
) -> None:
    given_sharing_pool(bench, edition, "n1")
    bench.set_faults("n1", resource_delay_seconds=0.8)

    with bench.watching() as watch:
        bench.change_pool(schedule="cgpu")
        expect_pool_ready(bench, nodes=1)
    assert any(node["status"]["allocatable"][GPU_MEM] == "0" for node in watch.history)
    expect_isolated_from_now_on(bench, ["n1"])


@pytest.mark.parametrize("edition", ["Basic", "Professional"])
def test_a_flip_is_right_where_the_api_never_shows_the_resource_gone(
    bench: Bench, edition: Edition
) -> None:
    """As on a real node, where the plugin is back before the kubelet's next report."""
    before = given_sharing_pool(bench, edition, "n1")
    bench.set_faults("n1", report_period_seconds=NO_REPORT_SECONDS)

    with bench.watching() as watch:
        bench.change_pool(schedule="cgpu")
        expect_pool_ready(bench, nodes=1)
    assert {node["status"]["allocatable"][GPU_MEM] for node in watch.history} == {"15"}
    assert plugin_uids(bench)["n1"] != before["n1"]
    expect_isolated_from_now_on(bench, ["n1"])


def test_a_flip_is_right_where_capacity_goes_to_zero_meanwhile(bench: Bench) -> None:
    given_sharing_pool(bench, "Professional", "n1")
    bench.set_faults("n1", capacity_expires_seconds=0.2, start_delay_seconds=2)

    with bench.watching() as watch:
        bench.change_pool(schedule="cgpu")
        expect_pool_ready(bench, nodes=1)
    assert any(node["status"]["capacity"][GPU_MEM] == "0" for node in watch.history)
    expect_isolated_from_now_on(bench, ["n1"])


def test_a_plugin_that_restarted_in_place_during_drift_is_not_believed(bench: Bench) -> None:
    given_sharing_pool(bench, "Basic", "n1")
    bench.operators.end_all()
    bench.label("n1", {DISABLED: "false"})
    plugin = bench.plugins()["n1"]["metadata"]["name"]
    bench.annotate(f"{SYSTEM_PODS}/{plugin}", {names.RESTART: "1"})
    expect(
        bench,
        "the plugin's container was restarted",
        lambda: bench.plugins()["n1"]["status"]["containerStatuses"][0]["restartCount"] == 1,
    )
    expect_gpu_memory(bench, "n1")
    mark = bench.audit.mark()

    bench.operators.standard()

    expect_labels(bench, "n1", {DISABLED: "true"})
    expect_pool_ready(bench, nodes=1)
    expect_each_restarted_once(bench, [plugin], mark)
    assert not is_isolated(expect_running(bench, place_pod(bench, "after", "n1")))


def test_a_plugin_container_that_restarts_in_place_at_rest_changes_nothing(bench: Bench) -> None:
    given_sharing_pool(bench, "Professional", "n1")
    plugin = bench.plugins()["n1"]["metadata"]["name"]
    mark = bench.audit.mark()

    bench.annotate(f"{SYSTEM_PODS}/{plugin}", {names.RESTART: "1"})

    expect(
        bench,
        "the restart is on record",
        lambda: '":1}' in bench.node("n1")["metadata"]["annotations"]["gpushare.io/applied"],
    )
    expect_pool_ready(bench, nodes=1)
    assert bench.audit.our_deletions(mark) == []


def test_a_change_says_on_the_node_how_far_it_is(bench: Bench) -> None:
    given_sharing_pool(bench, "Professional", "n1")
    with bench.watching() as watch:
        bench.change_pool(schedule="cgpu")
        expect_pool_ready(bench, nodes=1)
    steps = [read_change(node).get("step") for node in watch.history]
    seen = [step for step, previous in zip(steps, [None, *steps], strict=False) if step != previous]
    assert [step for step in seen if step] == ["Cordoned", "Labelled", "Restarting"]


def test_nobody_is_bound_to_a_node_while_its_plugin_is_away(bench: Bench) -> None:
    given_sharing_pool(bench, "Professional", "n1")
    bench.set_faults("n1", start_delay_seconds=60)
    bench.change_pool(schedule="cgpu")
    # By then the scheduler has heard of the cordon.
    expect_step(bench, "n1", "Restarting")

    bench.create_pod(build_pod("patient", selects={"gpushare.io/pool": "training"}))
    expect(bench, "it has no place", lambda: is_unschedulable(bench.pod("patient")))
    bench.set_faults("n1")

    expect_isolated(expect_running(bench, "patient"))
    expect_pool_ready(bench, nodes=1)
    assert bench.call("GET", f"{NODES}/n1")["spec"].get("unschedulable") is None
