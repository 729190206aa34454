"""The way out of isolation as the development cluster plays it, with no operator at all."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from devcluster.nodes import is_open, reboot_node, restart_kubelet, signal_plugin
from tests.kit.bench import NODES, PODS, Bench
from tests.kit.cluster.expect import expect, expect_running, read_record
from tests.kit.values.manifests import build_pod, build_workload

Json = dict[str, Any]

JOBS = "/apis/batch/v1/namespaces/default/jobs"
WORKLOADS = "/apis/apps/v1/namespaces/default"
HERE = {"kubernetes.io/hostname": "n1"}
MODULE = "sim.devcluster/module"


@pytest.fixture
def isolating(bench: Bench) -> Iterator[Bench]:
    """A node on Professional whose module is loaded and whose label says share since."""
    bench.install("Professional")
    bench.add_nodes("n1", labels={"ack.node.gpu.schedule": "cgpu"})
    expect(bench, "the module is loaded", lambda: MODULE in _notes(bench))
    bench.label("n1", {"ack.node.gpu.schedule": "share"})
    expect(bench, "no installer is left", lambda: not bench.plugins("cgpu-installer"))
    yield bench
    bench.call("DELETE", JOBS, {"propagationPolicy": "Background"})


def test_a_reboot_fails_the_gpu_pods_and_their_owner_makes_others(bench: Bench) -> None:
    bench.install("Basic")
    bench.add_nodes("n1", labels={"cgpu": "true", "cgpu.disable.isolation": "false"})
    expect(bench, "n1 isolates", lambda: MODULE in _notes(bench) and _offers_memory(bench))
    workload = build_workload("Deployment", "a", pod=build_pod("a", selects=HERE))
    bench.call("POST", f"{WORKLOADS}/deployments", workload)
    [before] = expect(bench, "it runs", lambda: _find_running(bench))
    assert read_record(before)["main"]["isolated"]
    bench.label("n1", {"cgpu.disable.isolation": "true"})

    boot_id = reboot_node(bench.cluster, "n1")

    assert _boot_id(bench) == boot_id
    expect(bench, "the pod is Failed", lambda: _is_refused(bench, before["metadata"]["name"]))
    [after] = expect(bench, "another runs", lambda: _find_running(bench))
    assert after["metadata"]["uid"] != before["metadata"]["uid"]
    assert not read_record(after)["main"]["isolated"]


@pytest.mark.parametrize("again", ["kubelet", "signal"])
def test_a_plugin_reads_its_label_again_in_place(bench: Bench, again: str) -> None:
    bench.install("Basic")
    bench.add_nodes("n1", labels={"cgpu": "true", "cgpu.disable.isolation": "false"})
    expect(bench, "n1 isolates", lambda: MODULE in _notes(bench) and _offers_memory(bench))
    before = expect_running(bench, bench.create_pod(build_pod("before", selects=HERE)))
    # Else the next pod could come while the plugin is not registered, and be refused.
    bench.set_faults("n1", resource_delay_seconds=0)
    plugin = bench.plugins()["n1"]
    bench.label("n1", {"cgpu.disable.isolation": "true"})

    if again == "kubelet":
        restart_kubelet(bench.cluster, "n1")
    else:
        signal_plugin(bench.cluster, plugin["metadata"]["name"])

    expect(bench, "the plugin has read the label", lambda: _has_read(bench, "true"))
    assert bench.plugins()["n1"]["metadata"]["uid"] == plugin["metadata"]["uid"]
    after = expect_running(bench, bench.create_pod(build_pod("after", selects=HERE)))
    assert read_record(before)["main"]["isolated"]
    assert not read_record(after)["main"]["isolated"]


def test_teardown_jobs_and_kured_take_the_module_off_a_node(isolating: Bench) -> None:
    bench, boot_id = isolating, _boot_id(isolating)
    _create_job(bench, "too-early", "verify")
    _expect_job(bench, "too-early", "Failed")
    assert _read_last_words(bench, "too-early") == (1, "cGPU module is loaded")

    _create_job(bench, "uninstall", "uninstall", "sentinel")
    _expect_job(bench, "uninstall", "Complete")
    notes = _notes(bench)
    assert notes["sim.devcluster/uninstall"] == notes["sim.devcluster/sentinel"] == "true"
    assert MODULE in notes
    assert _boot_id(bench) == boot_id

    with bench.watching() as recording:
        bench.annotate(f"{NODES}/n1", {"sim.devcluster/kured": "true"})
        expect(bench, "n1 has rebooted", lambda: _boot_id(bench) != boot_id)
        expect(bench, "n1 is back", lambda: is_open(bench.node("n1")))
    assert not all(is_open(node) for node in recording.history)
    _create_job(bench, "verify", "verify")
    _expect_job(bench, "verify", "Complete")
    assert {MODULE, "sim.devcluster/sentinel"}.isdisjoint(_notes(bench))


def _create_job(bench: Bench, name: str, *args: str) -> None:
    pod = build_pod(name, gib=None, selects=HERE)
    pod["spec"]["containers"][0]["args"] = list(args)
    job = build_workload("Job", name, pod=pod)
    job["spec"] |= {"backoffLimit": 0}
    job["spec"]["template"]["metadata"]["labels"] |= {
        "app.kubernetes.io/component": "isolation-teardown"
    }
    bench.call("POST", JOBS, job)


def _expect_job(bench: Bench, name: str, wanted: str) -> None:
    def find() -> bool:
        conditions = bench.call("GET", f"{JOBS}/{name}")["status"].get("conditions", [])
        ends = {c["type"] for c in conditions if c["status"] == "True"} & {"Complete", "Failed"}
        assert ends <= {wanted}, f"job {name} is {ends}"
        return bool(ends)

    expect(bench, f"job {name} is {wanted}", find)


def _read_last_words(bench: Bench, job: str) -> tuple[int, str]:
    [pod] = bench.pods(f"{PODS}?labelSelector=app={job}")
    ended = pod["status"]["containerStatuses"][0]["state"]["terminated"]
    return ended["exitCode"], ended["message"]


def _notes(bench: Bench) -> dict[str, str]:
    notes: dict[str, str] = bench.node("n1")["metadata"]["annotations"]
    return notes


def _boot_id(bench: Bench) -> str:
    boot_id: str = bench.node("n1")["status"]["nodeInfo"]["bootID"]
    return boot_id


def _offers_memory(bench: Bench) -> bool:
    amount: str = bench.node("n1")["status"]["allocatable"].get("aliyun.com/gpu-mem", "0")
    return amount != "0"


def _find_running(bench: Bench) -> list[Json]:
    return [pod for pod in bench.pods() if pod["status"].get("phase") == "Running"]


def _is_refused(bench: Bench, name: str) -> bool:
    reason: str = bench.pod(name)["status"].get("reason", "")
    return reason == "UnexpectedAdmissionError"


def _has_read(bench: Bench, value: str) -> bool:
    read = json.loads(bench.plugins()["n1"]["metadata"]["annotations"]["sim.devcluster/read"])
    return bool(read["labels"]["cgpu.disable.isolation"] == value)
