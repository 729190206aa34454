"""The records on a node survive the way there and back, and nothing else is believed."""

import json
from dataclasses import replace

import pytest

from gpushare import names
from gpushare.api.node import Node
from gpushare.api.pool import Edition, Schedule
from gpushare.core.actions import ApplyNode, NodeState
from gpushare.core.records import (
    Applied,
    Change,
    Drift,
    Failure,
    NodeRecords,
    PluginPod,
    RecordError,
    Step,
    extend_found,
    parse_records,
)
from gpushare.names import Reason
from tests.kit.members import CGPU, INSTALLER, OURS, VERIFIED, expect_apply, failed, plan_of
from tests.kit.values import LATER, MEMORY, NOW, a_node, a_plugin_pod, a_pool

CHANGE = Change(
    pool="training",
    edition=Edition.BASIC,
    of=Schedule.SHARE,
    to=Schedule.CGPU,
    step=Step.RESTARTING,
    since=NOW,
    restart=True,
    labelled_at=LATER,
    plugins=(PluginPod(name="plugin-x", uid="1"),),
    before=("2",),
)
APPLIED = Applied(
    pool="training",
    edition=Edition.BASIC,
    schedule=Schedule.SHARE,
    boot_id="boot-1",
    plugins={"1": 0},
)


FAILURE = Failure(
    attempt="training/1",
    step=Step.RESTARTING,
    reason=Reason.DEADLINE_EXCEEDED,
    message="too late",
    at=LATER,
)


def _with(annotation: str, text: str) -> Node:
    return Node("gpu-1", "uid", annotations={annotation: text})


def test_records_survive_the_way_to_the_node_and_back() -> None:
    records = NodeRecords(found={"cgpu": None}, change=CHANGE, applied=APPLIED, module=True)
    assert parse_records(a_node(records=records)) == records


# Written by the operator before there were failures, rollbacks and second restarts.
_OLD_CHANGE = (
    '{"v":1,"pool":"training","edition":"Basic","from":"share","to":"cgpu","step":"Restarting",'
    '"since":"2026-01-02T03:04:05.000+00:00","claim":"training/1","restart":true,'
    '"joining":false,"labelledAt":"2026-01-02T04:04:05.000+00:00",'
    '"plugins":[{"name":"plugin-x","uid":"1"}],"before":["2"]}'
)
_OLD_APPLIED = (
    '{"v":1,"pool":"training","edition":"Basic","schedule":"share","bootID":"boot-1",'
    '"plugins":{"1":0},"before":[],"awaitsRestart":false}'
)


def test_an_old_record_of_a_change_reads_as_it_was_meant_and_is_written_as_it_was() -> None:
    change = Change.model_validate_json(_OLD_CHANGE)
    assert change == CHANGE.model_copy(update={"claim": "training/1"})
    assert (change.failure, change.undoes, change.renewed) == (None, None, None)
    assert change.dump() == _OLD_CHANGE


def test_an_old_record_of_a_mode_reads_as_it_was_meant_and_is_written_as_it_was() -> None:
    record = Applied.model_validate_json(_OLD_APPLIED)
    assert record == APPLIED
    assert (record.of, record.failure) == (None, None)
    assert record.dump() == _OLD_APPLIED


def test_old_records_on_a_node_that_is_done_change_nothing() -> None:
    """An upgrade of the operator restarts no plugin, and writes no node."""
    labels = {"cgpu": "true", "cgpu.disable.isolation": "true", names.LABEL_POOL: "training"}
    notes = {names.ANNOTATION_APPLIED: _OLD_APPLIED, names.ANNOTATION_FOUND: "{}"}
    node = replace(
        a_node(labels=labels, allocatable={MEMORY: 15}),
        annotations=notes,
        owned=frozenset(labels) | frozenset(notes),
    )
    pool = a_pool(schedule="share", edition="Basic")
    plan = plan_of(node, pool, a_plugin_pod("1"), INSTALLER)
    assert (plan.state, plan.action, plan.halts) == (NodeState.READY, None, "")


def test_nor_do_they_on_a_node_whose_mode_says_by_itself_that_the_module_is_loaded() -> None:
    labels = {names.LABEL_SCHEDULE: "cgpu", names.LABEL_POOL: "training", **VERIFIED}
    text = _OLD_APPLIED.replace('"Basic"', '"Professional"').replace('"share"', '"cgpu"')
    notes = {names.ANNOTATION_APPLIED: text, names.ANNOTATION_FOUND: "{}"}
    node = replace(
        a_node(labels=labels, allocatable={MEMORY: 15}),
        annotations=notes,
        owned=frozenset(labels) | frozenset(notes),
    )
    plugin = a_plugin_pod("1")
    assert plan_of(node, a_pool(schedule="cgpu"), plugin, INSTALLER).action is None
    waiting = plan_of(node, a_pool(schedule="share"), plugin, INSTALLER)
    assert (waiting.reason, waiting.action) == (Reason.REQUIRES_TEARDOWN, None)
    begun = plan_of(node, a_pool(schedule="default"), plugin, INSTALLER).action
    assert isinstance(begun, ApplyNode)
    assert names.ANNOTATION_MODULE in begun.annotations


@pytest.mark.parametrize("text", ["loaded", "", "{", '{"v":2}'])
def test_whatever_stands_there_of_the_kernel_module_counts_as_loaded(text: str) -> None:
    assert parse_records(_with(names.ANNOTATION_MODULE, text)).module


def test_a_change_that_failed_and_one_that_takes_it_back_survive_the_way_to_the_node() -> None:
    failed = CHANGE.model_copy(update={"failure": FAILURE, "renewed": True})
    undone = CHANGE.model_copy(update={"undoes": FAILURE})
    late = APPLIED.model_copy(update={"of": Schedule.CGPU, "failure": FAILURE})
    for change in (failed, undone):
        records = NodeRecords(change=change, applied=late)
        assert parse_records(a_node(records=records)) == records


def test_a_failure_for_a_reason_that_nobody_knows_can_be_read() -> None:
    odd = CHANGE.model_copy(update={"failure": FAILURE.model_copy(update={"reason": "Sulks"})})
    assert parse_records(a_node(records=NodeRecords(change=odd))).change == odd


def test_a_node_without_annotations_has_no_records() -> None:
    assert parse_records(a_node()) == NodeRecords()


@pytest.mark.parametrize("annotation", sorted(names.RELEASED_ANNOTATIONS))
@pytest.mark.parametrize("text", ["{", "[]", '"x"', '{"v":1', "null", '{"v":[]}'])
def test_an_annotation_that_somebody_broke_is_refused(annotation: str, text: str) -> None:
    with pytest.raises(RecordError, match=r"gpu-1.*remove the broken annotation"):
        parse_records(_with(annotation, text))


_FUTURE = '{"v":1,"mood":{"level":[1,2]},'
"""How a record begins that a newer operator wrote: with a field that this one does not know."""


@pytest.mark.parametrize(
    ("annotation", "record"),
    [
        (names.ANNOTATION_CHANGE, CHANGE),
        (names.ANNOTATION_APPLIED, APPLIED),
        (names.ANNOTATION_DRIFT, Drift(claim="training/1", retry="1")),
    ],
)
def test_a_field_that_a_newer_operator_added_is_ignored_and_kept(
    annotation: str, record: Change | Applied | Drift
) -> None:
    text = record.dump().replace('{"v":1,', _FUTURE)
    written = parse_records(_with(annotation, text)).annotations()[annotation]
    assert json.loads(written) == json.loads(text)


def test_it_is_kept_through_every_step_that_changes_the_record() -> None:
    node = a_node(labels={**CGPU, **OURS}, records=failed(), unschedulable=True)
    notes = {k: v.replace('{"v":1,', _FUTURE) for k, v in node.annotations.items()}
    pool = a_pool(schedule="cgpu", rollout={"onFailure": "Halt"})

    # A person has it tried again: the record of the change is written anew.
    plan = plan_of(replace(node, annotations=notes, retry="again"), pool, a_plugin_pod("new"))

    written = expect_apply(plan).annotations
    assert written[names.ANNOTATION_CHANGE] != notes[names.ANNOTATION_CHANGE]
    for annotation in (names.ANNOTATION_CHANGE, names.ANNOTATION_APPLIED):
        assert json.loads(written[annotation])["mood"] == {"level": [1, 2]}


def test_a_record_of_a_newer_version_is_refused() -> None:
    newer = APPLIED.dump().replace('"v":1', '"v":2')
    with pytest.raises(RecordError, match="newer operator"):
        parse_records(_with(names.ANNOTATION_APPLIED, newer))


def test_a_change_between_modes_that_nobody_knows_is_refused() -> None:
    odd = CHANGE.dump().replace('"from":"share"', '"from":"egpu"')
    with pytest.raises(RecordError):
        parse_records(_with(names.ANNOTATION_CHANGE, odd))


def test_found_keeps_the_value_that_was_there_before_we_came() -> None:
    node = a_node(labels={"cgpu": "false"})
    found = extend_found(None, node, frozenset({"cgpu", "cgpu.disable.isolation"}))
    assert found == {"cgpu": "false", "cgpu.disable.isolation": None}


def test_found_is_never_overwritten() -> None:
    node = a_node(labels={"cgpu": "true"})
    assert extend_found({"cgpu": "false"}, node, frozenset({"cgpu"})) == {"cgpu": "false"}


def test_a_key_that_we_own_already_was_not_found() -> None:
    node = a_node(labels={"cgpu": "true"}, owned=frozenset({"cgpu"}))
    assert extend_found(None, node, frozenset({"cgpu"})) == {}


@pytest.mark.parametrize(
    ("text", "instead"),
    [
        ('"edition":"Basic"', '"edition":"OpenSource"'),
        ('"to":"cgpu"', '"to":"mps"'),
        ('"labelledAt":"2026-01-02T04:04:05.000+00:00",', ""),
        ('"since":"2026-01-02T03:04:05.000+00:00"', '"since":"2026-01-02T03:04:05"'),
    ],
)
def test_a_change_that_can_not_be_is_refused(text: str, instead: str) -> None:
    assert text in CHANGE.dump()
    with pytest.raises(RecordError):
        parse_records(_with(names.ANNOTATION_CHANGE, CHANGE.dump().replace(text, instead)))


def test_a_mode_that_the_edition_does_not_have_was_never_applied() -> None:
    odd = APPLIED.dump().replace('"schedule":"share"', '"schedule":"mps"')
    with pytest.raises(RecordError):
        parse_records(_with(names.ANNOTATION_APPLIED, odd))


@pytest.mark.parametrize(
    "moment", ["9999-12-31T23:59:59-14:00", "0001-01-01T00:00:00+14:00", "1999-12-31T00:00:00Z"]
)
def test_a_time_at_the_end_of_the_calendar_can_not_be_read(moment: str) -> None:
    text = CHANGE.dump().replace(NOW.isoformat(timespec="milliseconds"), moment)
    with pytest.raises(RecordError):
        parse_records(Node("gpu-1", "uid", annotations={names.ANNOTATION_CHANGE: text}))


def test_a_pool_that_can_not_be_one_can_not_be_read() -> None:
    text = CHANGE.dump().replace('"training"', '"bad name!!"')
    with pytest.raises(RecordError):
        parse_records(Node("gpu-1", "uid", annotations={names.ANNOTATION_CHANGE: text}))
