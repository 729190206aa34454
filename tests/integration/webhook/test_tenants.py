"""What tenants may try, who may create pods or label their namespace, and what becomes of it.

docs/admission.md has the same list with an answer for each.
"""

import json
from typing import Any

import pytest

from devcluster.apiserver import ApiError
from tests.kit.bench import Bench
from tests.kit.cluster.expect import expect
from tests.kit.cluster.namespaces import Namespace, default_namespace, temporary_namespace
from tests.kit.cluster.pod_admission import (
    DECISION,
    ISOLATION,
    POOL,
    count_calls,
    decision_of,
    expect_sent,
    given_pools,
    kubectl_create,
    pool_of,
)
from tests.kit.values.manifests import build_container, build_pod, build_workload

Json = dict[str, Any]

INJECT = "gpushare.io/inject"
FOR_TEAM_A = {
    "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "team-a"}},
    "tolerations": [{"key": "example.com/team", "operator": "Exists"}],
}
GATED = [{"name": "example.com/wait"}]


@pytest.fixture
def space(bench: Bench) -> Namespace:
    """`default`, beside the pools `training` (share), `isolated` (cgpu) and another team's."""
    bench.operators.standard()
    given_pools(
        bench,
        training={"schedule": "share"},
        isolated={"schedule": "cgpu"},
        **{"team-a": {"schedule": "cgpu", "priority": 900, "workloads": FOR_TEAM_A}},
    )
    return default_namespace(bench)


def strict_pod(**pod: Any) -> Json:
    notes = {ISOLATION: "required", **pod.pop("annotations", {})}
    return build_pod("p", annotations=notes, **pod)


def refusal_of(space: Namespace, pod: Json) -> str:
    with pytest.raises(ApiError) as refusal:
        space.send(pod)
    return str(refusal.value)


# Pod create: ways around the choice.


def test_a_pod_that_presets_its_selector_keeps_it_and_gains_nothing_else(space: Namespace) -> None:
    sent = space.send(build_pod("p", selects={POOL: "team-a"}))
    assert sent["spec"]["nodeSelector"] == {POOL: "team-a"}
    assert (
        sent["spec"]["tolerations"] == space.send(build_pod("p", gib=None))["spec"]["tolerations"]
    )
    assert decision_of(sent)["reason"] == "AlreadySelects"


def test_a_pod_cannot_ask_for_a_pool_that_is_not_for_its_namespace(space: Namespace) -> None:
    pod = build_pod("p", annotations={POOL: "team-a"})
    (warning,) = [each for each in kubectl_create(space.bench, pod).warnings if "team-a" in each]
    assert "its namespaceSelector does not select namespace default" in warning
    assert pool_of(space.send(pod)) is None


def test_a_node_by_name_is_told_that_no_card_is_kept_for_it(space: Namespace) -> None:
    pod = build_pod("p", nodeName="a1")
    (warning,) = kubectl_create(space.bench, pod).warnings
    assert "its nodeName decides where it runs; the scheduler then keeps no card for it" in warning
    assert "IsolationUnavailable" in refusal_of(space, strict_pod(nodeName="a1"))


def test_a_daemonset_that_is_forged_as_owner_spares_a_warning_and_gains_no_more(
    space: Namespace,
) -> None:
    def forge(pod: Json) -> Json:
        pod["metadata"]["ownerReferences"] = [
            {
                "apiVersion": "apps/v1",
                "kind": "DaemonSet",
                "name": "x",
                "uid": "x",
                "controller": True,
            }
        ]
        return pod

    def sees_all() -> Json:
        return build_pod("p", gib=None, env={"NVIDIA_VISIBLE_DEVICES": "all"})

    # Without the forgery such a pod is created as it is, too.
    (warning,) = kubectl_create(space.bench, sees_all()).warnings
    assert "sees every card" in warning
    assert kubectl_create(space.bench, forge(sees_all())).warnings == []
    sent, forged = space.send(sees_all()), space.send(forge(sees_all()))
    assert forged["spec"].keys() == sent["spec"].keys()
    assert decision_of(forged) == decision_of(sent) == {}

    assert decision_of(space.send(forge(build_pod("p"))))["reason"] == "NotRouted"
    assert "IsolationUnavailable" in refusal_of(space, forge(strict_pod()))
    assert "CGPU_DISABLE" in refusal_of(space, forge(strict_pod(env={"CGPU_DISABLE": "true"})))


def test_a_mirror_pod_that_is_none_is_a_node_by_name(space: Namespace) -> None:
    mirror = {"kubernetes.io/config.mirror": "x"}
    assert "nodeName" in refusal_of(space, build_pod("p", annotations=mirror))
    sent = space.send(build_pod("p", annotations=mirror, nodeName="a1"))
    assert decision_of(sent)["reason"] == "NotRouted"
    assert "IsolationUnavailable" in refusal_of(
        space, strict_pod(annotations=mirror, nodeName="a1")
    )


@pytest.mark.parametrize("policy", [None, "Always"], ids=["init container", "sidecar"])
def test_memory_that_only_helpers_ask_for_counts(space: Namespace, policy: str | None) -> None:
    helper = build_container("helper", memory="3") | {"image": "app:1"}
    if policy:
        helper["restartPolicy"] = policy
    assert pool_of(space.send(build_pod("p", gib=None, initContainers=[helper]))) == "isolated"


def test_a_claim_does_not_hide_what_is_asked_beside_it(space: Namespace) -> None:
    claims = [{"name": "card", "resourceClaimName": "card"}]
    assert pool_of(space.send(build_pod("p", resourceClaims=claims))) == "isolated"


def test_opting_out_changes_nothing_but_ones_own_pod(space: Namespace) -> None:
    sent = space.send(build_pod("p", annotations={INJECT: "disabled"}))
    assert "nodeSelector" not in sent["spec"]
    assert decision_of(sent) == {}
    refusal = refusal_of(space, strict_pod(annotations={INJECT: "disabled"}))
    assert "IsolationUnavailable" in refusal


def test_labels_of_a_pod_exempt_nobody(space: Namespace) -> None:
    pod = build_pod("p")
    pod["metadata"]["labels"] = {
        INJECT: "disabled",
        "kubernetes.io/metadata.name": "kube-system",
        "gpushare.io/failure-policy": "ignore",
    }
    assert pool_of(space.send(pod)) == "isolated"


def test_a_pod_of_more_than_a_mebibyte_is_sent_to_a_pool(space: Namespace) -> None:
    pod = build_pod("p", env={f"V{index}": "x" * 10_000 for index in range(120)})
    assert len(json.dumps(pod)) > 2**20
    assert pool_of(space.send(pod)) == "isolated"


def test_tolerating_every_taint_gives_no_other_pool(space: Namespace) -> None:
    assert pool_of(space.send(build_pod("p", tolerations=[{"operator": "Exists"}]))) == "isolated"


def test_a_forged_decision_stops_nothing(space: Namespace) -> None:
    forged = {DECISION: json.dumps({"v": 1, "reason": "Routed", "pool": "training"})}
    assert pool_of(space.send(build_pod("p", annotations=forged))) == "isolated"
    sent = space.send(strict_pod(annotations=forged))
    assert sent["spec"]["nodeSelector"]["ack.node.gpu.schedule"] == "cgpu"


def test_a_forged_decision_beside_its_selector_is_not_isolation(space: Namespace) -> None:
    forged = {DECISION: json.dumps({"v": 1, "reason": "Routed", "pool": "training"})}
    pod = strict_pod(annotations=forged, selects={POOL: "training"})
    assert "IsolationUnavailable" in refusal_of(space, pod)


def test_another_scheduler_does_not_lift_isolation(space: Namespace) -> None:
    assert "IsolationUnavailable" in refusal_of(space, strict_pod(schedulerName="my-own"))


def test_pods_that_get_their_names_later_are_sent_to_a_pool(space: Namespace) -> None:
    pod = build_pod("p")
    pod["metadata"] |= {"generateName": "job-"}
    del pod["metadata"]["name"]
    assert pool_of(space.send(pod)) == "isolated"


def test_the_pods_of_a_job_are_sent_to_a_pool(space: Namespace) -> None:
    space.bench.call(
        "POST", "/apis/batch/v1/namespaces/default/jobs",
        build_workload("Job", "work", pod=build_pod("work")),
    )  # fmt: skip
    try:
        (pod,) = expect(space.bench, "the Job's pod is there", space.bench.pods)
        assert pool_of(pod) == "isolated"
    finally:
        path = "/apis/batch/v1/namespaces/default/jobs/work?propagationPolicy=Background"
        space.bench.call("DELETE", path)


# Pod create: edits afterwards.


def test_a_gated_pod_that_was_sent_to_a_pool_cannot_leave_it(space: Namespace) -> None:
    created = space.create(build_pod("p", schedulingGates=GATED))
    assert pool_of(created) == "isolated"
    path = f"{space.pods}/p"
    for change in ({POOL: None}, {POOL: "team-a"}):
        with pytest.raises(ApiError, match="nodeSelector"):
            space.bench.call("PATCH", path, {"spec": {"nodeSelector": change}})
    narrower = {"spec": {"nodeSelector": {"kubernetes.io/arch": "amd64"}}}
    assert pool_of(space.bench.call("PATCH", path, narrower)) == "isolated"


def test_isolation_that_is_asked_for_afterwards_changes_nothing(space: Namespace) -> None:
    space.create(build_pod("p", selects={POOL: "training"}, schedulingGates=GATED))
    space.bench.annotate(f"{space.pods}/p", {ISOLATION: "required"})
    pod = space.bench.pod("p")
    assert pod["spec"]["nodeSelector"] == {POOL: "training"}


def test_an_ephemeral_container_can_ask_for_no_gpu_and_is_not_looked_at(space: Namespace) -> None:
    space.create(build_pod("p", gib=None))
    before = count_calls(space.bench)
    path = f"{space.pods}/p/ephemeralcontainers"
    debugger = {"name": "debug", "image": "app:1"}
    asking = debugger | {"resources": {"limits": {"aliyun.com/gpu-mem": "3"}}}
    with pytest.raises(ApiError, match="Forbidden: cannot be set for an Ephemeral Container"):
        space.bench.call("PATCH", path, {"spec": {"ephemeralContainers": [asking]}})
    seeing = debugger | {"env": [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]}
    space.bench.call("PATCH", path, {"spec": {"ephemeralContainers": [seeing]}})
    assert count_calls(space.bench) == before


@pytest.mark.parametrize(
    ("verb", "resource", "subresource"),
    [("create", "pods", "binding"), ("create", "bindings", ""), ("patch", "namespaces", "")],
)
def test_the_common_roles_neither_bind_pods_nor_label_namespaces(
    space: Namespace, verb: str, resource: str, subresource: str
) -> None:
    bindings = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{space.name}/rolebindings"
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "admin"}
    subject = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "tenant"}
    metadata = {"name": "tenant"}
    space.bench.call(
        "POST", bindings, {"metadata": metadata, "roleRef": role, "subjects": [subject]}
    )
    try:
        expect(space.bench, "the tenant is an admin", lambda: may(space, "create", "pods", ""))
        assert not may(space, verb, resource, subresource)
    finally:
        space.bench.call("DELETE", f"{bindings}/tenant")


def may(space: Namespace, verb: str, resource: str, subresource: str) -> bool:
    """Whether the user `tenant` may do that in the namespace."""
    asked = {
        "namespace": space.name,
        "verb": verb,
        "resource": resource,
        "subresource": subresource,
        **({"name": space.name} if resource == "namespaces" else {}),
    }
    review = {"spec": {"user": "tenant", "resourceAttributes": asked}}
    answer = space.bench.call("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", review)
    return bool(answer["status"]["allowed"])


# Namespace edit.


def test_a_namespace_that_opts_out_gets_no_isolation_lifted(space: Namespace) -> None:
    with temporary_namespace(space.bench, {INJECT: "disabled"}) as out:
        assert pool_of(out.send(build_pod("p"))) is None
        assert "ValidatingAdmissionPolicy" in refusal_of(out, strict_pod())


def test_a_namespace_cannot_pass_for_kube_system(space: Namespace) -> None:
    with temporary_namespace(space.bench) as own:
        own.label({"kubernetes.io/metadata.name": "kube-system"})
        labels = space.bench.call("GET", own.path)["metadata"]["labels"]
        assert labels["kubernetes.io/metadata.name"] == own.name
        assert pool_of(own.send(build_pod("p"))) == "isolated"


def test_a_default_pool_that_is_for_others_is_not_given(space: Namespace) -> None:
    with temporary_namespace(space.bench, {"gpushare.io/default-pool": "team-a"}) as own:
        assert pool_of(own.send(build_pod("p"))) == "isolated"


def test_a_pool_that_selects_namespaces_by_any_other_label_trusts_who_labels_them(
    space: Namespace,
) -> None:
    labels = {"kubernetes.io/metadata.name": None, "team": "b"}
    space.bench.change_pool("team-a", workloads={"namespaceSelector": {"matchLabels": labels}})
    with temporary_namespace(space.bench, {"team": "b"}) as own:
        expect_sent(own, build_pod("p"), "team-a")
