"""A mode label that stood while nobody vouched for it may have been read: its mode is unknown."""

from typing import Any

from tests.kit.bench import VERIFIED, Bench
from tests.kit.cluster.expect import (
    expect,
    expect_isolation,
    expect_labels,
    expect_pool_ready,
    expect_quiet,
    expect_reason,
    expect_running,
    is_isolated,
    is_unschedulable,
)
from tests.kit.cluster.sharing_pools import (
    expect_each_restarted_once,
    given_sharing_pool,
    place_pod,
    plugin_names,
)
from tests.kit.values.manifests import build_pod

DISABLE = "cgpu.disable.isolation"
CGPU = {"cgpu": "true", DISABLE: "false"}
REQUIRED = {"gpushare.io/isolation": "required"}


def given_isolating_pool(bench: Bench, **spec: Any) -> None:
    """The node n1 in mode cgpu of the Basic edition, known to be in force."""
    given_sharing_pool(bench, "Basic", "n1", schedule="cgpu", **spec)
    expect_labels(bench, "n1", {**CGPU, VERIFIED: "true"})


def read_applied(bench: Bench) -> str:
    """The record of the mode on n1."""
    record: str = bench.node("n1")["metadata"]["annotations"]["gpushare.io/applied"]
    return record


def test_a_label_that_stood_while_no_operator_ran_restarts_the_plugin_once(bench: Bench) -> None:
    operator = bench.operators.standard()
    given_isolating_pool(bench)
    expect_running(bench, place_pod(bench, "before", "n1"))
    expect_isolation(bench, isolated=1, unknown=0)
    before, mark = plugin_names(bench), bench.audit.mark()
    operator.kill()
    bench.label("n1", {DISABLE: "true"})

    with bench.watching() as recording:
        bench.operators.restart(operator)
        expect_each_restarted_once(bench, before, mark)
        expect_pool_ready(bench, nodes=1)
        expect_labels(bench, "n1", {**CGPU, VERIFIED: "true"})
    words = [node["metadata"]["labels"].get(VERIFIED) for node in recording.history]
    changes = [word for at, word in enumerate(words) if at == 0 or words[at - 1] != word]
    assert changes == ["true", "false", "true"]
    reverted = next(
        node for node in recording.history if node["metadata"]["labels"].get(VERIFIED) == "false"
    )
    assert reverted["metadata"]["labels"][DISABLE] == "false"
    assert '"modeUnknown":true' in reverted["metadata"]["annotations"]["gpushare.io/applied"]

    expect_isolation(bench, isolated=0, unknown=1)
    after = expect_running(bench, place_pod(bench, "after", "n1"))
    assert is_isolated(after)
    expect_isolation(bench, isolated=1, unknown=1)
    assert bench.audit.our_deletions(mark) == before


def test_drift_that_a_running_operator_puts_back_restarts_nothing(bench: Bench) -> None:
    bench.operators.standard()
    given_isolating_pool(bench)
    expect_running(bench, place_pod(bench, "before", "n1"))
    mark = bench.audit.mark()
    with bench.watching() as recording:
        bench.label("n1", {DISABLE: "true"})
        expect_labels(bench, "n1", {**CGPU, VERIFIED: "true"})
        expect_isolation(bench, isolated=1, unknown=0)
        expect_quiet(bench, "nothing more is written", lambda: bench.node("n1")["metadata"])
    assert {node["metadata"]["labels"].get(VERIFIED) for node in recording.history} == {"true"}
    assert not any(node["spec"].get("unschedulable") for node in recording.history)
    assert bench.audit.our_deletions(mark) == []


def test_a_pod_that_requires_isolation_waits_until_a_person_makes_the_mode_known(
    bench: Bench,
) -> None:
    operator = bench.operators.standard()
    given_isolating_pool(bench, devicePlugin={"restart": "Never"})
    operator.kill()
    bench.label("n1", {DISABLE: "true"})
    bench.operators.restart(operator)
    assert "delete pod" in expect_reason(bench, "n1", "ModeUnknown")["message"]
    expect_labels(bench, "n1", {**CGPU, VERIFIED: "false"})

    selects = {**CGPU, VERIFIED: "true"}
    pod = bench.create_pod(build_pod("strict", selects=selects, annotations=REQUIRED))
    expect(bench, "it finds no node", lambda: is_unschedulable(bench.pod("strict")))

    # A plugin that is told of so soon may have started before the label was put back.
    expect(bench, "that is a while ago", lambda: "reverted" not in read_applied(bench))
    (name,) = plugin_names(bench)
    bench.call("DELETE", f"/api/v1/namespaces/kube-system/pods/{name}")
    expect_labels(bench, "n1", {**CGPU, VERIFIED: "true"})
    assert is_isolated(expect_running(bench, pod))
    expect_pool_ready(bench, nodes=1)
