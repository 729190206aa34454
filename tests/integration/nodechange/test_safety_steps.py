"""Each step of an isolation change is there for a reason: without it, its test here fails.

`python -m tools.mutations` takes the steps out, one by one, and shows just that.
"""

from http import HTTPStatus

import pytest

from devcluster import names
from tests.kit.bench import GPU_MEM, MODE, NO_REPORT_SECONDS, POOL, SYSTEM_PODS, Bench, Json
from tests.kit.cluster.audit_log import Call
from tests.kit.cluster.expect import (
    expect,
    expect_gone,
    expect_isolated,
    expect_labels,
    expect_pool_ready,
    expect_reason,
    expect_running,
    is_isolated,
    read_change,
    started_at,
)
from tests.kit.cluster.fault_proxy import FaultProxy, Rule
from tests.kit.cluster.sharing_pools import (
    expect_each_restarted_once,
    expect_isolated_from_now_on,
    given_sharing_pool,
    place_pod,
    plugin_names,
    plugin_uids,
)
from tests.kit.values.manifests import build_pod


def test_cordon_keeps_pods_off_a_node_whose_plugin_is_away(bench: Bench) -> None:
    """The API server does not hear that the resource is gone; until then only the cordon helps."""
    before = given_sharing_pool(bench, "Professional", "n1")
    bench.set_faults("n1", report_period_seconds=NO_REPORT_SECONDS, start_delay_seconds=3)
    bench.change_pool(schedule="cgpu")
    expect(bench, "the plugin is gone", lambda: plugin_uids(bench).get("n1") != before["n1"])
    assert bench.node("n1")["status"]["allocatable"][GPU_MEM] == "15"

    bench.create_pod(build_pod("patient", selects={POOL: "training"}))

    expect_isolated(expect_running(bench, "patient"))
    expect_pool_ready(bench, nodes=1)


def test_second_look_gives_way_to_a_binding_that_was_in_flight(bench: Bench) -> None:
    """The scheduler had decided before the cordon; its Binding arrives after the first look."""
    bench.operators.start(env={"GPUSHARE_RECHECK_SECONDS": "8"})
    given_sharing_pool(bench, "Basic", "n1")
    old = plugin_names(bench)
    # Bound between the looks, and still not admitted at the second: once a pod runs, it keeps its
    # isolation whatever becomes of the plugin, and nothing is put off for it.
    bench.set_faults("n1", bind_delay_seconds=4.5, kubelet_delay_seconds=12, start_delay_seconds=4)
    mark = bench.audit.mark()
    bench.create_pod(build_pod("late", selects={POOL: "training"}))
    expect(bench, "the scheduler has chosen", lambda: "ASSUME_TIME" in str(bench.pod("late")))
    assert not bench.pod("late")["spec"].get("nodeName")

    with bench.watching() as watch:
        bench.change_pool(schedule="cgpu")
        late = expect_running(bench, "late")
        expect_pool_ready(bench, nodes=1)

    assert not is_isolated(late)
    assert "Deferred" in {read_change(node).get("phase") for node in watch.history}
    expect_each_restarted_once(bench, old, mark)
    deletion = find_deletion(bench, mark)
    assert deletion is not None
    assert deletion.at > started_at(late)


def test_uid_precondition_spares_a_pod_that_took_the_plugins_name(bench: Bench) -> None:
    """While our DELETE is under way, the plugin's pod is replaced by one of the same name."""
    with FaultProxy(bench.cluster) as proxy:
        bench.operators.start(api_url=proxy.url)
        given_sharing_pool(bench, "Professional", "n1")
        held = proxy.add(Rule("DELETE", "/pods/gpushare-device-plugin-ds", hold=True))
        mark = bench.audit.mark()
        bench.change_pool(schedule="cgpu")
        held.wait_reached()
        # The DaemonSet controller would put a pod of another name in between.
        with bench.paused("kube-controller-manager"):
            successor = replace_by_namesake(bench, bench.plugins()["n1"])
            held.release()
            answer = expect(bench, "our DELETE is answered", lambda: find_deletion(bench, mark))
            assert answer.code == HTTPStatus.CONFLICT
            assert plugin_uids(bench) == {"n1": successor}

        expect_pool_ready(bench, nodes=1)
        assert bench.audit.our_deletions(mark) == []
        expect_isolated_from_now_on(bench, ["n1"])


def find_by_kwok(bench: Bench, mark: int, name: str) -> Call | None:
    """KWOK's attempt to delete the pod since the mark."""
    return next(
        (
            call
            for call in bench.audit.calls(mark)
            if call.verb == "delete" and call.name == name and call.agent.startswith("kwok")
        ),
        None,
    )


def find_deletion(bench: Bench, mark: int) -> Call | None:
    """The operator's first attempt to delete a pod since the mark."""
    return next((call for call in bench.audit.our_writes(mark) if call.verb == "delete"), None)


def replace_by_namesake(bench: Bench, pod: Json) -> str:
    """Delete the pod and create another of its name and owner; its UID."""
    meta = pod["metadata"]
    mark = bench.audit.mark()
    bench.call("DELETE", f"{SYSTEM_PODS}/{meta['name']}?gracePeriodSeconds=0")
    expect_gone(bench, f"{SYSTEM_PODS}/{meta['name']}")
    # KWOK deletes by name, without a UID, what it was told is going; the twin must come later.
    expect(bench, "KWOK has found it gone", lambda: find_by_kwok(bench, mark, meta["name"]))
    kept = {key: meta[key] for key in ("name", "labels", "ownerReferences")}
    twin = {"metadata": kept | {"annotations": {names.PLAYED: "true"}}, "spec": pod["spec"]}
    created: Json = bench.call("POST", SYSTEM_PODS, twin)
    uid: str = created["metadata"]["uid"]
    return uid


def test_wait_for_the_resource_keeps_a_node_out_until_it_offers_memory(bench: Bench) -> None:
    """A plugin that is Ready and offers nothing: the next node must not be started."""
    given_sharing_pool(bench, "Professional", "n1", "n2")
    bench.set_faults("n1", resource_zero=True)

    bench.change_pool(schedule="cgpu")

    sample = expect_reason(bench, "n1", "ResourceNotReady")
    assert GPU_MEM in sample["message"]
    expect_reason(bench, "n2", "WaitingForBudget")
    assert bench.node("n1")["spec"]["unschedulable"] is True
    expect_labels(bench, "n2", {MODE: "share"})

    bench.set_faults("n1")
    expect_pool_ready(bench, nodes=2)
    expect_isolated_from_now_on(bench, ["n1", "n2"])


@pytest.mark.parametrize("period_seconds", [0.05, 3.0])
def test_wait_for_the_installer_lets_no_pod_in_unisolated(
    bench: Bench, period_seconds: float
) -> None:
    """The plugin is back long before the kernel module is loaded."""
    given_sharing_pool(bench, "Professional", "n1")
    bench.set_faults("n1", installer_delay_seconds=4, report_period_seconds=period_seconds)

    bench.change_pool(schedule="cgpu")
    expect(bench, "n1 is cordoned", lambda: bench.node("n1")["spec"].get("unschedulable"))
    place_pod(bench, "patient", "n1")

    expect_isolated(expect_running(bench, "patient"))
    expect_pool_ready(bench, nodes=1)


def test_a_value_left_over_from_the_old_plugin_is_not_believed(bench: Bench) -> None:
    """The new plugin is Ready, its resource comes later, and the node still shows the old one."""
    bench.operators.start(env={"GPUSHARE_RESOURCE_SETTLE_SECONDS": "5"})
    before = given_sharing_pool(bench, "Professional", "n1")
    bench.set_faults("n1", report_period_seconds=NO_REPORT_SECONDS, resource_delay_seconds=3)
    bench.change_pool(schedule="cgpu")
    expect(bench, "the plugin is gone", lambda: plugin_uids(bench).get("n1") != before["n1"])

    bench.create_pod(build_pod("patient", selects={POOL: "training"}))

    expect_isolated(expect_running(bench, "patient"))
