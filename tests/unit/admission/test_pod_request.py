"""What is read off a pod under admission."""

import time
from typing import Any

import pytest

from gpushare.api.k8s.pod_request import MalformedPodError, parse_pod_request
from tests.kit.values.manifests import MEMORY, build_affinity, build_container, build_gpu_pod


def asked(**spec: Any) -> set[str]:
    return set(parse_pod_request(build_gpu_pod(**spec)).requests)


@pytest.mark.parametrize("quantity", ["3", "1e3", "2k", "0.5", "+1", 4, "0", "0Gi", None])
def test_every_notation_of_a_quantity_above_zero_asks_for_it(quantity: Any) -> None:
    asks = quantity not in ("0", "0Gi", None)
    assert asked(containers=[build_container(memory=quantity)]) == ({MEMORY} if asks else set())


@pytest.mark.parametrize(
    ("env", "disables"),
    [
        ({"CGPU_DISABLE": "true"}, True),
        ({"CGPU_DISABLE": "1"}, True),
        ({"CGPU_DISABLE": "false"}, False),
        ({"CGPU_DISABLE": "yes"}, False),
        ({"OTHER": "true"}, False),
        ({}, False),
        (None, False),
    ],
)
def test_only_true_or_1_disables_isolation(env: Any, disables: bool) -> None:
    pod = build_gpu_pod(containers=[build_container(memory="3", env=env)])
    assert parse_pod_request(pod).disables_isolation is disables


OFF, ON = {"name": "CGPU_DISABLE", "value": "true"}, {"name": "CGPU_DISABLE", "value": "false"}
ASKING_OFF = build_container("a", memory="3") | {"env": [OFF]}


@pytest.mark.parametrize(
    ("containers", "disables"),
    [
        ([build_container("a", memory="3") | {"env": [OFF, ON]}], False),
        ([ASKING_OFF, build_container("b", memory="3")], False),
        ([ASKING_OFF, build_container("b")], True),
    ],
    ids=["the last variable holds", "one keeps it", "one without GPU has no say"],
)
def test_isolation_is_disabled_where_each_container_with_a_gpu_says_so_last(
    containers: list[Any], disables: bool
) -> None:
    assert parse_pod_request(build_gpu_pod(containers=containers)).disables_isolation is disables


def test_a_preferred_affinity_selects_nothing() -> None:
    term = {"matchExpressions": [{"key": "cgpu", "operator": "Exists"}]}
    affinity = {
        "nodeAffinity": {
            "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "preference": term}]
        }
    }
    assert parse_pod_request(build_gpu_pod(affinity=affinity)).selection.chosen_keys == ()


def _labelled_and_owned(labels: Any = None, owner: str = "Job") -> dict[str, Any]:
    pod = build_gpu_pod()
    owners = [{"kind": owner, "name": "x", "controller": True}]
    pod["metadata"] |= {"labels": labels, "ownerReferences": owners}
    return pod


@pytest.mark.parametrize(
    ("pod", "placed"),
    [
        (build_gpu_pod(nodeName="gpu-1"), True),
        (build_gpu_pod(affinity=build_affinity("metadata.name", part="matchFields")), True),
        (build_gpu_pod(affinity=build_affinity("kubernetes.io/hostname")), True),
        (build_gpu_pod(affinity=build_affinity("kubernetes.io/hostname", operator="NotIn")), False),
        (build_gpu_pod(nodeSelector={"kubernetes.io/hostname": "gpu-1"}), True),
        (_labelled_and_owned(owner="DaemonSet"), True),
        (_labelled_and_owned(owner="StatefulSet"), False),
    ],
)
def test_a_daemonsets_pod_and_one_for_a_certain_node_are_placed_by_others(
    pod: dict[str, Any], placed: bool
) -> None:
    assert bool(parse_pod_request(pod).placer) is placed


@pytest.mark.parametrize(
    "pod",
    [
        build_gpu_pod(containers="a"),
        build_gpu_pod(containers=[None, 1]),
        build_gpu_pod(nodeSelector=["a"]),
        build_gpu_pod(affinity="a"),
        build_gpu_pod(containers=[{"resources": {"limits": [1]}}]),
        _labelled_and_owned(labels={"team": 1}),
        {"metadata": {"annotations": []}, "spec": {}},
        {"metadata": {}, "spec": {"tolerations": {}}},
        {"metadata": {}, "spec": "none"},
    ],
)
def test_another_shape_than_the_apis_is_malformed(pod: dict[str, Any]) -> None:
    with pytest.raises(MalformedPodError, match=r"Expected `.*` - at `\$\.(spec|metadata)"):
        parse_pod_request(pod)


@pytest.mark.parametrize(
    "terms",
    [
        [{"matchExpressions": [{"key": "zone", "operator": "Exists"}] * 1001}],
        [{"matchFields": [{"key": "zone", "operator": "Exists"}]}] * 1001,
    ],
)
def test_an_affinity_that_would_take_long_to_judge_is_not_read(terms: list[Any]) -> None:
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    pod = parse_pod_request(build_gpu_pod(affinity={"nodeAffinity": required}))
    assert (pod.selection.is_too_long, pod.selection.terms) == (True, None)


def _using_gpu(**container: Any) -> dict[str, Any]:
    env = [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]
    return build_gpu_pod(containers=[{"name": "a", "env": env, **container}])


@pytest.mark.parametrize(
    ("limits", "is_unasked"),
    [
        ({"aliyun.com/gpu-mem": "0"}, True),
        ({"aliyun.com/gpu-count": "1"}, True),
        ({"nvidia.com/gpu": "0"}, True),
        ({"nvidia.com/gpu": "1"}, False),
        ({"nvidia.com/mig-1g.5gb": "1"}, False),
        ({"aliyun.com/gpu": "1"}, False),
        ({"koordinator.sh/gpu-memory": "8Gi"}, False),
        ({"volcano.sh/vgpu-memory": "3000"}, False),
        ({"koordinator.sh/batch-cpu": "500"}, True),
        ({"aliyun.com/gpu-mem": "1"}, False),
    ],
)
def test_a_gpu_is_used_unasked_where_no_resource_gives_one(
    limits: dict[str, str], is_unasked: bool
) -> None:
    pod = _using_gpu(resources={"limits": limits})
    assert parse_pod_request(pod).uses_gpu_unasked is is_unasked


def test_a_gpu_that_is_claimed_is_not_used_unasked_whatever_the_variable_says() -> None:
    source = {"configMapKeyRef": {"name": "gpu", "key": "devices"}}
    pod = _using_gpu(env=[{"name": "NVIDIA_VISIBLE_DEVICES", "valueFrom": source}])
    assert parse_pod_request(pod).uses_gpu_unasked
    pod["spec"]["resourceClaims"] = [{"name": "gpu"}]
    assert not parse_pod_request(pod).uses_gpu_unasked


@pytest.mark.parametrize(
    ("metadata", "spec", "is_left"),
    [
        ({}, {}, True),
        ({}, {"nodeSelector": {"zone": "a"}}, True),
        ({}, {"affinity": build_affinity("gpushare.io/pool", operator="NotIn")}, True),
        ({}, {"nodeSelector": {"gpushare.io/pool": "a"}}, False),
        ({}, {"nodeName": "gpu-1"}, False),
        ({}, {"schedulerName": "volcano"}, False),
        ({}, {"containers": [build_container()]}, False),
        ({"annotations": {"gpushare.io/inject": "disabled"}}, {}, False),
        ({"labels": {"kueue.x-k8s.io/queue-name": "a"}}, {}, False),
    ],
)
def test_a_pod_is_left_to_admission_where_nobody_else_says_where_it_runs(
    metadata: dict[str, Any], spec: dict[str, Any], is_left: bool
) -> None:
    pod = build_gpu_pod(**spec)
    pod["metadata"] |= metadata
    request = parse_pod_request(pod)
    assert request.is_left_to_admission(("default-scheduler",)) is is_left


@pytest.mark.parametrize(
    ("init", "memory", "shares"),
    [
        (build_container("warm-up", memory="8"), 8, (8, 3)),
        (build_container("proxy", memory="2") | {"restartPolicy": "Always"}, 5, (2, 3)),
    ],
    ids=["only until the others run", "a sidecar beside them"],
)
def test_an_init_container_needs_its_memory_while_it_runs(
    init: Any, memory: int, shares: tuple[int, ...]
) -> None:
    request = parse_pod_request(build_gpu_pod(initContainers=[init]))
    assert (request.memory, request.shares) == (memory, shares)


def test_however_long_an_affinity_is_it_holds_nobody_up() -> None:
    """Its time grows as its length: one process answers all pods of the cluster."""
    values = [[str(number) for number in range(100_000)], *([str(number)] for number in range(999))]
    requirements = [{"key": "rack", "operator": "NotIn", "values": each} for each in values]
    term = {"nodeSelectorTerms": [{"matchExpressions": requirements}]}
    pod = build_gpu_pod(
        affinity={"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": term}}
    )
    started = time.process_time()
    parse_pod_request(pod)
    # To copy what is known for each requirement takes ten times as long.
    assert time.process_time() - started < 1
