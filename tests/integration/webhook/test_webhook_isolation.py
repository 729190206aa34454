"""`gpushare.io/isolation: required` holds by the API server's own policy, whoever is away."""

from http import HTTPStatus
from typing import Any

import pytest

from devcluster.apiserver import ApiError
from devcluster.installation import NAMESPACE, Installation
from tests.kit.bench import MODE, POOL, Bench
from tests.kit.cluster.expect import expect, find_refusal
from tests.kit.cluster.namespaces import Namespace, default_namespace, temporary_namespace
from tests.kit.cluster.pod_admission import ISOLATION
from tests.kit.values.manifests import Json, build_container, build_pod

REFUSED = "ValidatingAdmissionPolicy 'gpushare-isolation'"
VERIFIED = {"gpushare.io/isolation-verified": "true"}
REQUIRED = {ISOLATION: "required"}


@pytest.fixture(autouse=True)
def no_webhook(bench: Bench) -> None:
    bench.operators.end_all()


@pytest.fixture
def space(bench: Bench) -> Namespace:
    """The namespace `default`, where the policy is in force: the API server takes its time."""
    space = default_namespace(bench)
    strict = strict_pod()
    expect(bench, "the policy is in force", lambda: find_refusal(lambda: space.send(strict)))
    return space


def strict_pod(**pod: Any) -> Json:
    """A pod that requires isolation."""
    return build_pod("strict", annotations=REQUIRED, **pod)


def asks_at_its_start() -> Json:
    asking = build_container("starting", memory="3") | {"image": "app:1"}
    return strict_pod(gib=None, initContainers=[asking])


SELECT_IT, VERIFY_IT = f"Or select {MODE}=cgpu", "gpushare.io/isolation-verified"
UNISOLATED = {
    "no selection": strict_pod(),
    "a pool alone": strict_pod(selects={POOL: "isolated"}),
    "share": strict_pod(selects={MODE: "share"}),
    "Basic's share": strict_pod(selects={"cgpu": "true", "cgpu.disable.isolation": "true"}),
    "half of Basic's": strict_pod(selects={"cgpu": "true"}),
    "a node by name": strict_pod(nodeName="n1"),
    "another scheduler": strict_pod(schedulerName="volcano"),
    "compute": strict_pod(gib=None, core=30),
    "at its start": asks_at_its_start(),
}
CGPU = {MODE: "cgpu", **VERIFIED}
BASIC_CGPU = {"cgpu": "true", "cgpu.disable.isolation": "false"}
ISOLATED = {
    "cgpu": strict_pod(selects=CGPU),
    "core_mem": strict_pod(selects={MODE: "core_mem", **VERIFIED}),
    "Basic": strict_pod(selects={**BASIC_CGPU, **VERIFIED}),
    "a node by name": strict_pod(selects=CGPU, nodeName="n1"),
    "not switched off": strict_pod(selects=CGPU, env={"CGPU_DISABLE": "false"}),
}
UNVERIFIED = {
    "nothing of it": strict_pod(selects={MODE: "cgpu"}),
    "Basic": strict_pod(selects=BASIC_CGPU),
    "nodes that are not": strict_pod(selects={**CGPU, **dict.fromkeys(VERIFIED, "false")}),
}
UNSAFE = {
    **{name: (pod, SELECT_IT) for name, pod in UNISOLATED.items()},
    **{f"unverified: {name}": (pod, VERIFY_IT) for name, pod in UNVERIFIED.items()},
}
UNCONCERNED = {
    "requires nothing": build_pod("p"),
    "wants none": build_pod("p", annotations={ISOLATION: "none"}),
    "no GPU": strict_pod(gib=None),
    "no memory of a GPU": strict_pod(gib=0),
}


@pytest.mark.parametrize(("pod", "told"), UNSAFE.values(), ids=UNSAFE)
def test_a_pod_that_could_run_where_isolation_is_not_verified_is_refused_and_told_what_to_select(
    space: Namespace, pod: Json, told: str
) -> None:
    with pytest.raises(ApiError, match=REFUSED) as refusal:
        space.send(pod)
    assert refusal.value.status == HTTPStatus.UNPROCESSABLE_ENTITY
    assert told in str(refusal.value)


@pytest.mark.parametrize("pod", ISOLATED.values(), ids=list(ISOLATED))
def test_a_pod_that_selects_an_isolated_mode_is_admitted(space: Namespace, pod: Json) -> None:
    assert space.send(pod)["spec"]["nodeSelector"] == pod["spec"]["nodeSelector"]


@pytest.mark.parametrize("pod", UNCONCERNED.values(), ids=list(UNCONCERNED))
def test_other_pods_are_none_of_its_business(space: Namespace, pod: Json) -> None:
    assert "nodeSelector" not in space.send(pod)["spec"]


def reads_from_elsewhere() -> Json:
    """A pod whose variable CGPU_DISABLE stands in a ConfigMap."""
    pod = strict_pod(selects=CGPU)
    elsewhere = {"configMapKeyRef": {"name": "settings", "key": "cgpu", "optional": True}}
    pod["spec"]["containers"][0]["env"] = [{"name": "CGPU_DISABLE", "valueFrom": elsewhere}]
    return pod


SWITCHING_OFF = {
    **{
        value: strict_pod(selects=CGPU, env={"CGPU_DISABLE": value})
        for value in ("true", "1", "$(SWITCH)")
    },
    "read from elsewhere": reads_from_elsewhere(),
    "among too many variables to look at": strict_pod(
        selects=CGPU, env={"CGPU_DISABLE": "true", **{f"V{index}": "x" for index in range(1000)}}
    ),
}


@pytest.mark.parametrize("pod", SWITCHING_OFF.values(), ids=list(SWITCHING_OFF))
def test_a_pod_that_may_switch_isolation_off_is_refused(space: Namespace, pod: Json) -> None:
    with pytest.raises(ApiError, match="CGPU_DISABLE turns it off"):
        space.send(pod)


def test_opting_out_does_not_lift_it(bench: Bench) -> None:
    with (
        temporary_namespace(bench, {"gpushare.io/inject": "disabled"}) as space,
        pytest.raises(ApiError, match=REFUSED),
    ):
        space.send(strict_pod())


@pytest.mark.parametrize("name", ["kube-system", NAMESPACE])
def test_the_clusters_own_pods_and_ours_are_left_alone(bench: Bench, name: str) -> None:
    assert Namespace(bench, name).send(strict_pod())["metadata"]["name"] == "strict"


def test_an_installation_can_do_without_it(bench: Bench) -> None:
    values = {"webhook.isolationPolicy.enabled": "false"}
    assert "gpushare-isolation" not in Installation(bench.cluster, values).render()
