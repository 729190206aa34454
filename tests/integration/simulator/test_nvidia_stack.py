"""NVIDIA's stack on a real control plane: the label chooses what the plugin serves."""

from collections.abc import Iterator

import pytest

from devcluster import names
from devcluster.nvidia import (
    DISCOVERY,
    MPS_DAEMONS,
    NVIDIA_CHART,
    install_nvidia,
    remove_nvidia,
)
from tests.kit.bench import Bench, Json
from tests.kit.cluster.expect import expect, expect_offered, expect_quiet
from tests.kit.cluster.nvidia_stack import CONFIGS, GPU, SHARED, STACK_PODS
from tests.kit.values.manifests import build_pod


@pytest.fixture
def nvidia(bench: Bench, request: pytest.FixtureRequest) -> Iterator[Bench]:
    """NVIDIA's stack, with a node of two cards that serves them whole; the parameter is the default
    key."""
    # Of the other editions a static plugin would serve the same cards.
    bench.install("Professional")
    for _ in range(2):
        install_nvidia(bench.cluster, getattr(request, "param", ""))
    bench.add_nodes("n1", cards=2, labels={names.GPU_PRESENT: "true"})
    choose(bench, "whole")
    expect_offered(bench, "n1", 2, resource=GPU)
    yield bench
    remove_nvidia(bench.cluster)


def ask_for(resource: str, name: str) -> Json:
    pod = build_pod(name, gib=None)
    pod["spec"]["containers"][0]["resources"] = {"limits": {resource: "1"}}
    return pod


def choose(bench: Bench, key: str) -> None:
    bench.label("n1", {names.DEVICE_PLUGIN_CONFIG: key})


def find_pod(bench: Bench, daemonset: str = NVIDIA_CHART) -> Json | None:
    pods = [
        pod
        for pod in bench.pods(STACK_PODS)
        if pod["metadata"]["ownerReferences"][0]["name"] == daemonset
        and "deletionTimestamp" not in pod["metadata"]
    ]
    return pods[0] if pods else None


def uid(bench: Bench) -> str:
    pod = expect(bench, "the plugin has a pod", lambda: find_pod(bench))
    found: str = pod["metadata"]["uid"]
    return found


def restart(bench: Bench) -> None:
    """Delete the plugin's pod, and wait for the next one."""
    pod = expect(bench, "the plugin has a pod", lambda: find_pod(bench))
    bench.call("DELETE", f"{STACK_PODS}/{pod['metadata']['name']}")
    expect(bench, "another pod", lambda: uid(bench) != pod["metadata"]["uid"])


def expect_found(bench: Bench, replicas: int, strategy: str, *, mps: str = "false") -> None:
    wanted = {
        names.GPUS: "2",
        names.GPU_REPLICAS: str(replicas),
        names.SHARING_STRATEGY: strategy,
        names.MPS_CAPABLE: mps,
    }
    expect(bench, f"labels say {strategy}", lambda: wanted.items() <= bench.labels()["n1"].items())


def is_ready(pod: Json | None) -> bool:
    conditions = pod["status"].get("conditions") or [] if pod else []
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


def waits(pod: Json | None) -> bool:
    """Whether one of a pod's containers ends again and again."""
    statuses = pod["status"].get("containerStatuses") or [] if pod else []
    states = [each["state"].get("waiting") or {} for each in statuses]
    return any(state.get("reason") == "CrashLoopBackOff" for state in states)


@pytest.mark.parametrize("nvidia", ["mps-8"], indirect=True)
def test_label_and_new_pod_lead_from_whole_cards_to_slices_to_mps_and_back(nvidia: Bench) -> None:
    bench = nvidia
    expect_found(bench, 1, "none")
    first = uid(bench)

    choose(bench, "slices-4")
    expect_offered(bench, "n1", 8, resource=GPU)
    expect_found(bench, 4, "time-slicing")
    assert uid(bench) == first
    assert bench.labels()["n1"][names.GPU_PRODUCT].endswith("-SHARED")
    (labels,) = [
        each
        for each in bench.call("GET", "/api/v1/nodes/n1")["metadata"]["managedFields"]
        if each["manager"] == names.NFD
    ]
    assert f"f:{names.GPU_REPLICAS}" in labels["fieldsV1"]["f:metadata"]["f:labels"]
    for number in range(8):
        bench.create_pod(ask_for(GPU, f"p{number}"))
    expect(bench, "all run", lambda: {p["status"]["phase"] for p in bench.pods()} == {"Running"})
    for number in range(8):
        bench.delete_pod(f"p{number}")

    choose(bench, "mps-8")
    restart(bench)
    expect_offered(bench, "n1", 16, resource=GPU)
    expect_found(bench, 8, "mps", mps="true")
    assert is_ready(find_pod(bench, MPS_DAEMONS))

    choose(bench, "whole")
    restart(bench)
    expect_offered(bench, "n1", 2, resource=GPU)
    expect_found(bench, 1, "none")
    expect(bench, "no MPS daemon", lambda: find_pod(bench, MPS_DAEMONS) is None)


def test_at_an_unknown_key_the_sidecar_ends_the_default_counts_and_a_known_key_mends_it(
    nvidia: Bench,
) -> None:
    bench = nvidia
    choose(bench, "slices-4")
    expect_offered(bench, "n1", 8, resource=GPU)
    choose(bench, "nonsense")
    expect(bench, "the sidecar ends", lambda: waits(find_pod(bench)))
    expect(bench, "GFD's too", lambda: waits(find_pod(bench, DISCOVERY)))
    expect_offered(bench, "n1", 2, resource=GPU)

    restart(bench)
    expect(bench, "it ends again", lambda: waits(find_pod(bench)))
    expect_offered(bench, "n1", 2, resource=GPU)

    choose(bench, "slices-8")
    expect_offered(bench, "n1", 16, resource=GPU)
    expect(bench, "it is Ready", lambda: is_ready(find_pod(bench)))


def test_an_edited_configuration_counts_from_the_next_pod_and_slices_may_have_another_name(
    nvidia: Bench,
) -> None:
    bench = nvidia
    slices = bench.call("GET", CONFIGS)["data"]["slices-4"]
    bench.call("PATCH", CONFIGS, {"data": {"whole": slices}})
    expect_quiet(bench, "nobody sees it", lambda: bench.node("n1")["status"]["allocatable"])
    expect_offered(bench, "n1", 2, resource=GPU)

    restart(bench)
    expect_offered(bench, "n1", 8, resource=GPU)
    expect_found(bench, 1, "none")  # GPU feature discovery has read the configuration of before

    choose(bench, "shared-4")
    expect_offered(bench, "n1", 8, resource=SHARED)
    expect_offered(bench, "n1", 0, resource=GPU)
    expect_found(bench, 4, "time-slicing")
    assert not bench.labels()["n1"][names.GPU_PRODUCT].endswith("-SHARED")
    bench.create_pod(ask_for(SHARED, "p"))
    expect(bench, "it runs", lambda: bench.pod("p")["status"]["phase"] == "Running")
