"""The judge of the watcher finds what it is there to find, and nothing else."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from tests.chaos.judge import Judge, Rules, Violation
from tests.chaos.sight import ChangeSeen, Deletion, NodeSeen, PodSeen

RULES = Rules(pool="training", budget=1)
CHANGE = ChangeSeen("training", of="share", to="cgpu", since="12:00:00", step="Cordoned")
LONG_AGO, NOW = 0.0, 100.0


def a_node(name: str, revision: int, **more: Any) -> NodeSeen:
    node = NodeSeen(name, f"uid-of-{name}", revision, pools=frozenset({"training"}))
    return replace(node, **more)


def a_changing_node(name: str, revision: int, **more: Any) -> NodeSeen:
    out = {"change": CHANGE, "cordoned": True, "cordoned_by_us": True, **more}
    return a_node(name, revision, **out)


def a_plugin(name: str, revision: int, *, node: str = "n1", **more: Any) -> PodSeen:
    pod = PodSeen(
        "kube-system", name, f"uid-of-{name}", revision, node, "gpushare-device-plugin-ds"
    )
    return replace(pod, **more)


def a_deletion(name: str, **more: Any) -> Deletion:
    deletion = Deletion(datetime(2026, 1, 2, tzinfo=UTC), "kube-system", name)
    return replace(deletion, **more)


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


def test_one_change_after_another_is_within_a_budget_of_one() -> None:
    judge = a_judge_of_pool()

    assert judge.see_node(a_changing_node("n1", 11), NOW) == []
    assert judge.see_node(a_node("n1", 12), NOW) == []
    assert judge.see_node(a_changing_node("n2", 13), NOW) == []


def test_a_second_change_at_once_breaks_a_budget_of_one() -> None:
    judge = a_judge_of_pool()
    judge.see_node(a_changing_node("n1", 11), NOW)

    found = judge.see_node(a_changing_node("n2", 12, cordoned=False), NOW)

    expect_one(found, "P3", "started on node n2", "n1", "budget is 1")


def test_two_cordons_of_ours_at_once_break_a_budget_of_one() -> None:
    judge = a_judge_of_pool()
    held = {"cordoned": True, "cordoned_by_us": True}
    judge.see_node(a_node("n1", 11, **held), NOW)

    found = judge.see_node(a_node("n2", 12, **held), NOW)

    expect_one(found, "P3", "n1, n2 are cordoned by us at once")


def test_a_change_breaks_the_budget_while_another_member_is_not_ready() -> None:
    judge = a_judge_of_pool()
    judge.see_node(a_node("n1", 11, ready=False), LONG_AGO)

    expect_one(judge.see_node(a_changing_node("n2", 12), NOW), "P3", "n1")


def test_a_change_breaks_the_budget_while_a_person_holds_another_member_cordoned() -> None:
    judge = a_judge_of_pool()
    judge.see_node(a_node("n1", 11, cordoned=True), LONG_AGO)

    expect_one(judge.see_node(a_changing_node("n2", 12), NOW), "P3", "n1")


def test_a_member_that_others_took_out_a_moment_ago_need_not_be_known_of() -> None:
    judge = a_judge_of_pool()
    judge.see_node(a_node("n1", 11, ready=False), NOW - 0.1)

    assert judge.see_node(a_changing_node("n2", 12), NOW) == []


def test_a_node_that_is_not_ready_may_change_in_its_own_slot() -> None:
    judge = a_judge_of_pool()
    judge.see_node(a_node("n1", 11, ready=False), LONG_AGO)

    assert judge.see_node(a_changing_node("n1", 12, ready=False), NOW) == []


def test_nodes_that_join_use_no_budget() -> None:
    judge = a_judge_of_pool()
    joining = replace(CHANGE, joining=True)

    assert judge.see_node(a_changing_node("n4", 11, change=joining), NOW) == []
    assert judge.see_node(a_changing_node("n5", 12, change=joining), NOW) == []
    assert judge.see_node(a_changing_node("n1", 13), NOW) == []


def test_nodes_of_another_pool_use_none_of_this_pools_budget() -> None:
    judge = a_judge_of_pool()
    judge.see_node(a_changing_node("n9", 11, pools=frozenset({"other"})), NOW)

    assert judge.see_node(a_changing_node("n1", 12), NOW) == []


def test_a_member_that_was_deleted_in_its_change_uses_no_budget() -> None:
    judge = a_judge_of_pool()
    judge.see_node(a_changing_node("n1", 11), NOW)
    judge.lose_node("n1", 12)

    assert judge.see_node(a_changing_node("n2", 13), NOW) == []


def test_cordons_that_are_found_after_a_gap_are_judged_together() -> None:
    judge = a_judge_of_pool()

    found = judge.replace_nodes([a_changing_node("n1", 15), a_changing_node("n2", 19)], 20, NOW)

    expect_one(found, "P3", "n1, n2 are cordoned by us at once")


def test_a_start_within_a_gap_is_not_judged() -> None:
    judge = a_judge_of_pool()
    judge.see_node(a_changing_node("n1", 11), NOW)

    assert judge.replace_nodes([a_node("n1", 15), a_changing_node("n2", 16)], 20, NOW) == []


# P4


def test_one_restart_in_a_change_is_counted_and_fine() -> None:
    judge = a_judge_of_pool()
    judge.see_node(a_changing_node("n1", 11), NOW)

    assert restart(judge, "p1", 12) == []
    assert judge.finish() == []
    assert judge.restarts == {"n1": 1}


def test_a_plugin_that_is_deleted_without_a_change_breaks_the_promise() -> None:
    expect_one(restart(a_judge_of_pool(), "p1", 12), "P4", "p1", "no change under way on node n1")


def test_a_plugin_that_is_deleted_after_the_change_ended_breaks_the_promise() -> None:
    judge = a_judge_of_pool()
    judge.see_node(a_changing_node("n1", 11), NOW)
    judge.see_node(a_node("n1", 12), NOW)

    expect_one(restart(judge, "p1", 13), "P4", "no change under way")


def test_a_change_that_was_under_way_at_the_deletion_counts_though_it_has_ended() -> None:
    judge = a_judge_of_pool()
    judge.see_node(a_changing_node("n1", 11), NOW)
    judge.see_node(a_node("n1", 13), NOW)

    assert restart(judge, "p1", 12) == []


def test_a_plugin_may_be_restarted_while_news_of_its_nodes_end_is_on_its_way() -> None:
    judge = a_judge_of_pool()
    judge.see_node(a_changing_node("n1", 11), NOW)
    judge.lose_node("n1", 12)

    assert restart(judge, "p1", 13) == []


def test_a_node_that_came_back_under_its_name_is_in_no_change_of_the_former() -> None:
    judge = a_judge_of_pool()
    judge.see_node(a_changing_node("n1", 11), NOW)
    judge.lose_node("n1", 12)
    judge.see_node(a_node("n1", 13, uid="another"), NOW)

    expect_one(restart(judge, "p1", 14), "P4", "no change under way")


def test_a_second_restart_in_one_change_breaks_the_promise() -> None:
    judge = a_judge_of_pool()
    judge.see_node(a_changing_node("n1", 11), NOW)
    restart(judge, "p1", 12)
    judge.see_pod(a_plugin("p1-again", 14))

    expect_one(restart(judge, "p1-again", 15), "P4", "2 plugin pods", "share -> cgpu")


def test_a_restart_in_each_of_two_changes_is_fine() -> None:
    judge = a_judge_of_pool()
    judge.see_node(a_changing_node("n1", 11), NOW)
    restart(judge, "p1", 12)
    judge.see_node(a_node("n1", 14), NOW)
    judge.see_pod(a_plugin("p1-again", 15))
    judge.see_node(a_changing_node("n1", 16, change=replace(CHANGE, since="13:00:00")), NOW)

    assert restart(judge, "p1-again", 17) == []
    assert judge.restarts == {"n1": 2}


def test_a_pod_that_is_deleted_twice_breaks_the_promise() -> None:
    judge = a_judge_of_pool()
    judge.see_node(a_changing_node("n1", 11), NOW)
    restart(judge, "p1", 12)

    expect_one(judge.see_deletion(a_deletion("p1")), "P4", "p1", "deleted 2 times")


def test_a_deletion_waits_until_its_node_was_seen_as_it_was_then() -> None:
    judge = a_judge_of_pool()
    judge.see_pod(a_plugin("p1", 12, leaving=True))

    assert judge.see_deletion(a_deletion("p1")) == []
    assert judge.see_node(a_changing_node("n1", 11), NOW) == []
    assert judge.see_node(a_node("n1", 13), NOW) == []
    assert judge.restarts == {"n1": 1}


def test_a_plugin_that_went_within_a_gap_is_counted_and_not_judged() -> None:
    judge = a_judge_of_pool()
    judge.see_deletion(a_deletion("p1"))

    assert judge.replace_pods([a_plugin("p2", 10, node="n2"), a_plugin("p3", 10, node="n3")]) == []
    assert judge.finish() == []
    assert judge.restarts == {"n1": 1}


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


def test_a_plugins_name_in_another_namespace_makes_no_plugin() -> None:
    judge = a_judge_of_pool()
    judge.see_pod(a_plugin("train", 11, namespace="default", leaving=True))
    judge.see_node(a_node("n3", 12), NOW)

    found = judge.see_deletion(a_deletion("train", namespace="default"))

    expect_one(found, "P1", "default/train")


def test_deleting_a_pod_that_nobody_ever_saw_breaks_the_promise_once_all_is_seen() -> None:
    judge = a_judge_of_pool()

    assert judge.see_deletion(a_deletion("unknown")) == []
    expect_one(judge.finish(), "P1", "unknown")


def test_an_eviction_breaks_the_promise_unless_it_is_switched_on() -> None:
    eviction = a_deletion("train", namespace="default", evicted=True)
    forbidden, allowed = a_judge_of_pool(), a_judge_of_pool(replace(RULES, evictions=True))

    forbidden.see_deletion(eviction)
    allowed.see_deletion(eviction)

    expect_one(forbidden.finish(), "P1", "default/train was evicted")
    assert allowed.finish() == []
