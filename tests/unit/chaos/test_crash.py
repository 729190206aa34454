"""Which writes the crash matrix counts, and by what it knows them."""

import json
from typing import Any

import pytest

from tests.chaos.crash import Crash, Side, Write
from tests.chaos.flip import MEMBERS
from tests.chaos.matrix import Reference, Result, Tally, expect_same
from tests.kit.faultproxy import Request

Json = dict[str, Any]

PLUGINS = {"gpushare-device-plugin-ds-x7k2p": "n1"}
APPLY = "/api/v1/nodes/n1?fieldManager=gpushare-operator&force=true"
LABELLED = Write("n1", "nodes", "PATCH", "Labelled")


def build_request(method: str, target: str, *, step: str = "") -> Request:
    notes = {"gpushare.io/change": json.dumps({"step": step})} if step else {}
    return Request(0.0, method, target, json.dumps({"metadata": {"annotations": notes}}).encode())


def test_an_apply_is_known_by_the_step_that_it_records() -> None:
    assert Write.parse(build_request("PATCH", APPLY, step="Labelled"), PLUGINS) == LABELLED


def test_an_apply_without_a_change_ends_one() -> None:
    over = Write("n1", "nodes", "PATCH", "")

    assert Write.parse(build_request("PATCH", APPLY), PLUGINS) == over


def test_a_deletion_is_known_by_its_plugins_node() -> None:
    pod = "/api/v1/namespaces/kube-system/pods/gpushare-device-plugin-ds-x7k2p"

    deletion = Write("n1", "pods", "DELETE", "Restarting")
    assert Write.parse(Request(0.0, "DELETE", pod), PLUGINS) == deletion


def test_a_write_to_a_pool_counts() -> None:
    pool = "/apis/gpushare.io/v1alpha1/gpusharepools/training"

    write = Write.parse(Request(0.0, "PATCH", pool), PLUGINS)

    assert write == Write("training", "gpusharepools", "PATCH", "")


@pytest.mark.parametrize(
    ("method", "target"),
    [
        ("GET", APPLY),
        ("PATCH", "/apis/gpushare.io/v1alpha1/gpusharepools/training/status?force=true"),
        ("POST", "/api/v1/namespaces/default/events"),
        ("PATCH", "/apis/events.k8s.io/v1/namespaces/default/events/n1.17"),
        ("PUT", "/apis/coordination.k8s.io/v1/namespaces/gpushare-system/leases/controller"),
        ("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"),
    ],
)
def test_readings_leases_events_and_statuses_do_not_count(method: str, target: str) -> None:
    assert Write.parse(Request(0.0, method, target), PLUGINS) is None


def test_a_matrix_has_two_crashes_for_each_write() -> None:
    deletion = Write("n1", "pods", "DELETE", "Restarting")

    crashes = Reference((LABELLED, deletion), nodes={}).crashes

    assert [(each.write, each.side) for each in crashes] == [
        (LABELLED, Side.BEFORE),
        (LABELLED, Side.AFTER),
        (deletion, Side.BEFORE),
        (deletion, Side.AFTER),
    ]


def test_a_matrix_is_clean_when_every_run_was() -> None:
    tally = Tally(total=1)
    tally.add(Result(Crash(LABELLED, Side.BEFORE)))

    assert tally.is_clean
    assert tally.sum_up(1) == (
        "crash-matrix writes=1 crashes=1 converged=1 extra_restarts=0 budget_violations=0"
    )


def test_a_matrix_that_was_cut_short_is_not_clean() -> None:
    assert not Tally(total=1).is_clean
    assert not Tally(total=0).is_clean


def test_a_matrix_counts_what_went_wrong() -> None:
    tally = Tally(total=2, violations=["12:00 P3: too many", "12:00 P4: twice"])
    tally.add(Result(Crash(LABELLED, Side.BEFORE), problem="n1 differs", extra_restarts=1))
    tally.add(Result(Crash(LABELLED, Side.AFTER)))

    assert not tally.is_clean
    assert tally.sum_up(1) == (
        "crash-matrix writes=1 crashes=2 converged=1 extra_restarts=1 budget_violations=1"
    )


def test_a_node_that_ends_otherwise_is_told_with_what_differs() -> None:
    as_it_should = {"metadata": {"labels": {"mode": "cgpu"}, "managedFields": []}}
    otherwise = {"metadata": {"labels": {"mode": "share"}, "managedFields": []}}

    expect_same(dict.fromkeys(MEMBERS, as_it_should), dict.fromkeys(MEMBERS, as_it_should))
    with pytest.raises(AssertionError, match=r"n3 is not as undisturbed.*mode"):
        expect_same({"n3": as_it_should}, {"n3": otherwise})
