"""The records on a node survive the way there and back, and nothing else is believed."""

import json
from dataclasses import replace

import pytest

from gpushare import names
from gpushare.api.k8s.node import Node
from gpushare.api.nvidia_plugin import NvidiaConfig, SharingStrategy
from gpushare.api.pool import Edition, Schedule
from gpushare.core.records.applied_record import LastApplied
from gpushare.core.records.change_record import Change, ChangePhase, Failure, PluginPod
from gpushare.core.records.drift_record import Drift
from gpushare.core.records.node_records import NodeRecords, extend_initial_values, parse_records
from gpushare.core.records.record import RecordError
from gpushare.core.snapshot.actions import NodeState
from gpushare.names import Reason
from tests.kit.values.node_plans import (
    CGPU,
    INSTALLER,
    OURS,
    expect_apply,
    failed,
    halted_by,
    plan_of,
)
from tests.kit.values.objects import LATER, MEMORY, NOW, a_node, a_plugin_pod, a_pool

CHANGE = Change(
    pool="training",
    edition=Edition.BASIC,
    from_mode=Schedule.SHARE,
    to=Schedule.CGPU,
    phase=ChangePhase.RESTARTING,
    since=NOW,
    restart=True,
    labelled_at=LATER,
    plugins=(PluginPod(name="plugin-x", uid="1"),),
    before=("2",),
)
APPLIED = LastApplied(
    pool="training",
    edition=Edition.BASIC,
    schedule=Schedule.SHARE,
    boot_id="boot-1",
    plugins={"1": 0},
)


FAILURE = Failure(
    attempt="training/1",
    phase=ChangePhase.RESTARTING,
    reason=Reason.DEADLINE_EXCEEDED,
    message="too late",
    at=LATER,
)


CONFIG = NvidiaConfig("a", SharingStrategy.MPS, 4, renamed=True, digest="0" * 8)
CONFIGURED = LastApplied(
    pool="training",
    edition=Edition.NVIDIA,
    schedule=CONFIG,
    admitted={"2": CONFIG},
    from_mode=NvidiaConfig("b"),
)
LATE = APPLIED.model_copy(update={"from_mode": Schedule.CGPU, "failure": FAILURE})
ODD = FAILURE.model_copy(update={"reason": "Sulks"})
_SINCE = NOW.isoformat(timespec="milliseconds")


def _with(annotation: str, text: str) -> Node:
    return Node("gpu-1", "uid", annotations={annotation: text}, owned=frozenset({annotation}))


@pytest.mark.parametrize(
    "records",
    [
        NodeRecords(),
        NodeRecords(initial_values={"cgpu": None}, change=CHANGE, applied=APPLIED, module=True),
        NodeRecords(change=CHANGE.model_copy(update={"failure": FAILURE, "restarted_again": True})),
        NodeRecords(change=CHANGE.model_copy(update={"rolls_back": FAILURE})),
        NodeRecords(change=CHANGE.model_copy(update={"failure": ODD})),
        NodeRecords(applied=LATE),
        NodeRecords(applied=CONFIGURED),
    ],
    ids=[
        "none",
        "at rest",
        "failed",
        "taken back",
        "for an unknown reason",
        "came too late",
        "with a configuration",
    ],
)
def test_records_survive_the_way_to_the_node_and_back(records: NodeRecords) -> None:
    assert parse_records(a_node(records=records)) == records


def test_a_configuration_is_recorded_as_a_value() -> None:
    recorded = json.loads(CONFIGURED.dump())
    assert recorded["schedule"] == {
        "key": "a",
        "strategy": "mps",
        "replicas": 4,
        "renamed": True,
        "digest": "00000000",
    }
    assert recorded["admitted"] == {"2": recorded["schedule"]}


# Written by the operator before there were failures, rollbacks and second restarts.
_OLD_CHANGE = (
    '{"v":2,"pool":"training","edition":"Basic","from":"share","to":"cgpu","phase":"Restarting",'
    '"since":"2026-01-02T03:04:05.000+00:00","claim":"training/1","restart":true,'
    '"initializing":false,"labelledAt":"2026-01-02T04:04:05.000+00:00",'
    '"plugins":[{"name":"plugin-x","uid":"1"}],"before":["2"]}'
)
_OLD_APPLIED = (
    '{"v":2,"pool":"training","edition":"Basic","schedule":"share","bootID":"boot-1",'
    '"plugins":{"1":0},"before":[],"restartPending":false}'
)


def test_old_records_read_as_they_were_meant_and_are_written_as_they_were() -> None:
    change = Change.model_validate_json(_OLD_CHANGE)
    mode = LastApplied.model_validate_json(_OLD_APPLIED)
    assert (change, mode) == (CHANGE.model_copy(update={"claim": "training/1"}), APPLIED)
    assert (change.dump(), mode.dump()) == (_OLD_CHANGE, _OLD_APPLIED)


def test_old_records_on_a_node_that_is_done_change_nothing() -> None:
    """An upgrade of the operator restarts no plugin, and writes no node."""
    labels = {"cgpu": "true", "cgpu.disable.isolation": "true", **OURS}
    notes = {names.ANNOTATION_APPLIED: _OLD_APPLIED, names.ANNOTATION_INITIAL_VALUES: "{}"}
    node = a_node(labels=labels, allocatable={MEMORY: 15}, owned=frozenset({*labels, *notes}))
    pool = a_pool(schedule="share", edition="Basic")
    plan = plan_of(replace(node, annotations=notes), pool, a_plugin_pod("1"), INSTALLER)
    assert (plan.state, plan.action, halted_by(plan)) == (NodeState.READY, None, "")


RECORDED = NodeRecords(initial_values={"cgpu": None}, change=CHANGE, applied=APPLIED)


def _written_on(uid: str | None) -> dict[str, str]:
    """The records as an operator writes them on the node with this UID."""
    records = {
        field: record.model_copy(update={"node_uid": uid})
        for field, record in (("change", CHANGE), ("applied", APPLIED))
    }
    return RECORDED.model_copy(update=records).annotations()


@pytest.mark.parametrize("owned", [True, False], ids=["cloned with its owners", "copied"])
def test_records_that_were_copied_from_another_node_count_for_nothing(owned: bool) -> None:
    notes = _written_on("uid-of-gpu-2")
    # The values that were found name no node: a clone keeps them.
    keys = notes.keys() - {names.ANNOTATION_INITIAL_VALUES} if owned else ()
    node = replace(a_node(), annotations=notes, owned=frozenset(keys))
    assert parse_records(node) == NodeRecords()


@pytest.mark.parametrize(
    ("uid", "owned", "counts"),
    [("uid-of-gpu-1", False, True), (None, True, True), (None, False, False)],
    ids=["it names this node", "an older operator wrote it", "it names none, and is not ours"],
)
def test_a_record_counts_on_the_node_that_it_names_under_any_field_manager(
    uid: str | None, owned: bool, counts: bool
) -> None:
    notes = _written_on(uid)
    node = replace(a_node(), annotations=notes, owned=frozenset(notes if owned else ()))
    records = parse_records(node)
    found = (records.initial_values, records.change, records.applied)
    assert (None not in found, any(found)) == (counts, counts)


@pytest.mark.parametrize("text", ["loaded", "", "{", '{"v":1}', "[" * 9999])
def test_whatever_stands_there_of_the_kernel_module_counts_as_loaded(text: str) -> None:
    assert parse_records(_with(names.ANNOTATION_MODULE, text)).module


@pytest.mark.parametrize(
    "annotation", sorted(names.RELEASED_ANNOTATIONS - {names.ANNOTATION_RESTARTS})
)
@pytest.mark.parametrize("text", ["{", "[]", '"x"', '{"v":2', "null", '{"v":[]}'])
def test_an_annotation_that_somebody_broke_is_refused(annotation: str, text: str) -> None:
    says_mode = annotation in (names.ANNOTATION_CHANGE, names.ANNOTATION_APPLIED)
    unknown = "gpushare.io/mode-unknown=true " if says_mode else ""
    command = f"run: kubectl annotate node gpu-1 {unknown}{annotation}- --overwrite"
    with pytest.raises(RecordError, match=command):
        parse_records(_with(annotation, text))


_FUTURE = '{"v":2,"mood":{"level":[1,2]},'
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
    annotation: str, record: Change | LastApplied | Drift
) -> None:
    text = record.dump().replace('{"v":2,', _FUTURE)
    written = parse_records(_with(annotation, text)).annotations()[annotation]
    assert json.loads(written) == json.loads(text)


def test_it_is_kept_through_every_step_that_changes_the_record() -> None:
    node = a_node(labels={**CGPU, **OURS}, records=failed(), unschedulable=True)
    notes = {k: v.replace('{"v":2,', _FUTURE) for k, v in node.annotations.items()}
    pool = a_pool(schedule="cgpu", rollout={"onFailure": "Halt"})

    # A person has it tried again: the record of the change is written anew.
    plan = plan_of(replace(node, annotations=notes, retry="again"), pool, a_plugin_pod("new"))

    written = expect_apply(plan).annotations
    assert written[names.ANNOTATION_CHANGE] != notes[names.ANNOTATION_CHANGE]
    for annotation in (names.ANNOTATION_CHANGE, names.ANNOTATION_APPLIED):
        assert json.loads(written[annotation])["mood"] == {"level": [1, 2]}


@pytest.mark.parametrize(
    ("before", "owned", "found"),
    [
        (None, False, {"cgpu": "true", "cgpu.disable.isolation": None}),
        ({"cgpu": "false"}, False, {"cgpu": "false", "cgpu.disable.isolation": None}),
        (None, True, {"cgpu.disable.isolation": None}),
    ],
    ids=["before we came", "never overwritten", "ours already"],
)
def test_found_keeps_the_value_that_was_there_before_we_came(
    before: dict[str, str | None] | None, owned: bool, found: dict[str, str | None]
) -> None:
    node = a_node(labels={"cgpu": "true"}, owned=frozenset({"cgpu"} if owned else ()))
    keys = frozenset({"cgpu", "cgpu.disable.isolation"})
    assert extend_initial_values(before, node, keys) == found


@pytest.mark.parametrize(
    ("text", "instead"),
    [
        ('"edition":"Basic"', '"edition":"OpenSource"'),
        ('"to":"cgpu"', '"to":"mps"'),
        ('"from":"share"', '"from":"egpu"'),
        ('"labelledAt":"2026-01-02T04:04:05.000+00:00",', ""),
        ("Restarting", "Rebooted"),
        ("Restarting", "Uninstalled"),
        (_SINCE, "2026-01-02T03:04:05"),
        (_SINCE, "9999-12-31T23:59:59-14:00"),
        (_SINCE, "0001-01-01T00:00:00+14:00"),
        (_SINCE, "1999-12-31T00:00:00Z"),
        ('"training"', '"bad name!!"'),
    ],
)
def test_a_change_that_can_not_be_is_refused(text: str, instead: str) -> None:
    assert text in CHANGE.dump()
    with pytest.raises(RecordError):
        parse_records(_with(names.ANNOTATION_CHANGE, CHANGE.dump().replace(text, instead)))


@pytest.mark.parametrize(
    ("text", "instead", "told"),
    [
        ('"schedule":"share"', '"schedule":"mps"', "no mode mps"),
        # Names of modes are kept in memory.
        ('"schedule":"share"', f'"schedule":"{"x" * 129}"', "cannot be read"),
        ('"schedule":"share"', f'"schedule":{{"key":"{"x" * 64}"}}', "cannot be read"),
        (
            '"edition":"Basic","schedule":"share"',
            '"edition":"NVIDIA","schedule":"config=a,mps=4,hash=00000000"',
            "no mode config",
        ),
        ('"v":2', '"v":3', "another version"),
    ],
    ids=[
        "a mode that the edition lacks",
        "a name that is too long",
        "a key that is too long",
        "a configuration as text",
        "a newer version",
    ],
)
def test_what_was_never_applied_by_this_version_is_refused(
    text: str, instead: str, told: str
) -> None:
    with pytest.raises(RecordError, match=told):
        parse_records(_with(names.ANNOTATION_APPLIED, APPLIED.dump().replace(text, instead)))
