"""The judge of the watcher finds what it is there to find, and nothing else."""

from dataclasses import replace
from typing import Any

import pytest

from tests.chaos.judge import Judge, Rules, Violation
from tests.chaos.node_state import ChangeSeen, Deletion, NodeSeen, PodSeen

RULES = Rules(pool="training", budget=1)
CHANGE = ChangeSeen(from_mode="share", to="cgpu", since="12:00:00")
Json = dict[str, Any]
LONG_AGO, NOW = 0.0, 100.0


def a_node(name: str, revision: int, **more: Any) -> NodeSeen:
    return replace(NodeSeen(name, revision, pools=frozenset({"training"})), **more)


def a_changing_node(name: str, revision: int, **more: Any) -> NodeSeen:
    out = {"change": CHANGE, "cordoned": True, "cordoned_by_us": True, **more}
    return a_node(name, revision, **out)


def a_plugin(name: str, revision: int, *, node: str = "n1", **more: Any) -> PodSeen:
    pod = PodSeen(
        "kube-system", name, f"uid-of-{name}", revision, node, "gpushare-device-plugin-ds"
    )
    return replace(pod, **more)


def a_deletion(name: str, **more: Any) -> Deletion:
    return replace(Deletion("kube-system", name), **more)


def a_judge_of_pool(rules: Rules = RULES) -> Judge:
    """Three members at rest, seen at revision 10, each with its plugin."""
    judge = Judge(rules)
    members = [a_node(name, 10) for name in ("n1", "n2", "n3")]
    assert judge.replace_nodes(members, 10, LONG_AGO) == []
    assert judge.replace_pods([a_plugin(f"p{i}", 10, node=f"n{i}") for i in (1, 2, 3)]) == []
    return judge


def restart(judge: Judge, pod: str, revision: int, **more: Any) -> list[Violation]:
    """A plugin's pod is deleted at a revision, and the node is seen after it."""
    found = judge.see_pod(a_plugin(pod, revision, leaving=True, **more))
    found += judge.see_deletion(a_deletion(pod))
    return found + judge.see_node(a_node("n3", revision + 1), NOW)


def expect_one(found: list[Violation], promise: str, *words: str) -> None:
    (violation,) = found
    assert violation.promise == promise
    for word in words:
        assert word in violation.sentence, violation.sentence


# P3


def test_a_second_change_at_once_breaks_a_budget_of_one() -> None:
    judge = a_judge_of_pool()
    judge.see_node(a_changing_node("n1", 11), NOW)
    found = judge.see_node(a_changing_node("n2", 12, cordoned=False), NOW)
    expect_one(found, "P3", "started on node n2", "n1", "budget is 1")


@pytest.mark.parametrize("out", [{"ready": False}, {"cordoned": True}], ids=["ill", "cordoned"])
def test_a_change_breaks_the_budget_while_others_hold_another_member_out(out: Json) -> None:
    judge = a_judge_of_pool()
    judge.see_node(a_node("n1", 11, **out), LONG_AGO)
    expect_one(judge.see_node(a_changing_node("n2", 12), NOW), "P3", "n1")


def test_two_cordons_of_ours_at_once_break_a_budget_of_one() -> None:
    judge = a_judge_of_pool()
    found = judge.replace_nodes([a_changing_node("n1", 15), a_changing_node("n2", 19)], 20, NOW)
    expect_one(found, "P3", "n1, n2 are cordoned by us at once")


# P4


def test_a_plugin_that_is_deleted_without_a_change_breaks_the_promise() -> None:
    expect_one(restart(a_judge_of_pool(), "p1", 12), "P4", "p1", "no change under way on node n1")


def test_a_second_restart_in_one_change_breaks_the_promise() -> None:
    judge = a_judge_of_pool()
    judge.see_node(a_changing_node("n1", 11), NOW)
    restart(judge, "p1", 12)
    judge.see_pod(a_plugin("p1-again", 14))
    expect_one(restart(judge, "p1-again", 15), "P4", "2 plugin pods", "share -> cgpu")


def test_a_change_restarts_each_component_of_nvidias_plugin_once() -> None:
    judge, place = a_judge_of_pool(), {"namespace": "nvidia-device-plugin"}
    judge.see_node(a_changing_node("n1", 11), NOW)

    def restart_component(suffix: str, revision: int) -> list[Violation]:
        daemonset = f"nvdp-nvidia-device-plugin{suffix}"
        pod = f"{daemonset}-{revision}"
        judge.see_pod(a_plugin(pod, revision, daemonset=daemonset, leaving=True, **place))
        judge.see_node(a_node("n3", revision), NOW)
        return judge.see_deletion(a_deletion(pod, **place))

    assert restart_component("", 12) == []
    assert restart_component("-gpu-feature-discovery", 13) == []
    expect_one(restart_component("", 14), "P4", "2 plugin pods", "share -> cgpu")


def test_a_pod_that_is_deleted_twice_breaks_the_promise() -> None:
    judge = a_judge_of_pool()
    judge.see_node(a_changing_node("n1", 11), NOW)
    restart(judge, "p1", 12)
    expect_one(judge.see_deletion(a_deletion("p1")), "P4", "p1", "deleted 2 times")


# P1


def test_a_field_that_is_not_ours_to_own_breaks_the_promise_once() -> None:
    judge = a_judge_of_pool()
    strange = a_node("n1", 11, strange_fields=("f:spec f:taints",))
    expect_one(judge.see_node(strange, NOW), "P1", "n1", "f:spec f:taints")
    assert judge.see_node(replace(strange, revision=12), NOW) == []


def test_deleting_a_pod_that_is_no_plugins_breaks_the_promise() -> None:
    judge = a_judge_of_pool()
    judge.see_pod(a_plugin("proxy", 11, daemonset="kube-proxy"))
    judge.see_pod(a_plugin("proxy", 12, daemonset="kube-proxy", leaving=True))
    judge.see_node(a_node("n3", 13), NOW)
    expect_one(judge.see_deletion(a_deletion("proxy")), "P1", "proxy", "kube-proxy")


def test_deleting_a_pod_that_nobody_ever_saw_breaks_the_promise_once_all_is_seen() -> None:
    judge = a_judge_of_pool()
    assert judge.see_deletion(a_deletion("unknown")) == []
    expect_one(judge.finish(), "P1", "unknown")


def test_an_eviction_breaks_the_promise() -> None:
    judge = a_judge_of_pool()
    judge.see_deletion(a_deletion("train", namespace="default", evicted=True))
    expect_one(judge.finish(), "P1", "default/train was evicted")
