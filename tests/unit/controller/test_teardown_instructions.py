"""Jobs of teardowns and what is told of them, between a decision and the API server."""

import asyncio
from dataclasses import replace

import pytest

from gpushare import names
from gpushare.api.k8s.job import Job, JobState
from gpushare.api.k8s.node import Node
from gpushare.controller.informers import Informers
from gpushare.controller.reconciler import tell_commands
from gpushare.core.nodechange.phases.teardown import name_job
from gpushare.core.records.change_record import ChangePhase
from gpushare.core.snapshot.actions import CreateJob, JobPhase
from gpushare.kube.errors import JobTakenError
from gpushare.kube.events import Events
from gpushare.names import Reason
from gpushare.render.teardown import render_teardown_job
from gpushare.settings import Settings
from tests.kit.values.fake_api import FakeApi
from tests.kit.values.teardown_plans import (
    a_job,
    a_teardown,
    change_of,
    job_pool,
    manual_pool,
    plan_teardown,
    teardown_node,
)
from tests.unit.controller.reconcile_loop import Json, carry_out

JOBS = "apis/batch/v1/namespaces/gpushare-teardown/jobs"
EVENTS = "apis/events.k8s.io/v1/namespaces/default/events"
LABELLED = teardown_node(ChangePhase.LABELLED)
JOB = CreateJob(
    "gpu-1", name_job(LABELLED, change_of(LABELLED), JobPhase.UNINSTALL), JobPhase.UNINSTALL
)


def _manifest(node: str = "gpu-1") -> Json:
    """The Job, as the API server has it."""
    values = {"pool": "training", "namespace": "gpushare-teardown", "image": "shell:v1"}
    job = render_teardown_job(replace(JOB, node=node), **values)
    return {**job, "metadata": {**job["metadata"], "uid": "uid-1"}}


async def _carry_out(api: FakeApi, times: int = 1) -> Informers:
    """Make the Job, so many times."""
    async with api.connected() as server:
        settings = Settings(allow_teardown_jobs=True, teardown_image="shell:v1")
        actions = [JOB] * times
        return await carry_out(server, *actions, reason=Reason.MODULE_REMOVAL, settings=settings)


def _told(api: FakeApi) -> list[tuple[str, str]]:
    """Reason and text of each Event."""
    events = [o for path, o in api.objects.items() if path.startswith(EVENTS)]
    return [(event["reason"], event["note"]) for event in events]


class _Stored(FakeApi):
    """An API server that has the node, without pods, and gives Jobs a UID."""

    def __init__(self, node: Node = LABELLED) -> None:
        super().__init__("api/v1/pods")
        notes = dict(node.annotations)
        fields: Json = {"f:metadata": {"f:annotations": {f"f:{key}": {} for key in notes}}}
        ours = {"manager": names.FIELD_MANAGER, "operation": "Apply", "fieldsV1": fields}
        meta = {"name": node.name, "uid": node.uid, "annotations": notes, "managedFields": [ours]}
        spec = {"unschedulable": node.unschedulable}
        self.put("api/v1/nodes/gpu-1", {"metadata": meta, "spec": spec})

    def put(self, path: str, body: Json) -> None:
        uid = body["metadata"].get("uid", f"uid-of-{body['metadata']['name']}")
        super().put(path, {**body, "metadata": {**body["metadata"], "uid": uid}})


async def test_a_job_is_known_as_soon_as_it_is_made() -> None:
    api = _Stored()
    informers = await _carry_out(api)
    assert api.writes[0] == f"POST {JOBS}/{JOB.name}"
    snapshot = informers.observe()
    job = snapshot.jobs["gpu-1"][JOB.name]
    assert (job.node, job.state) == ("gpu-1", JobState.RUNNING)
    assert informers.take_changed() == {"gpu-1"}
    assert [reason for reason, _ in _told(api)] == ["ModuleRemoval"]


async def test_one_that_is_there_already_is_taken_in_and_told_of_once() -> None:
    api = _Stored()
    informers = await _carry_out(api, 2)
    assert len(api.conflicts) == 1
    assert len(_told(api)) == 1
    assert informers.jobs is not None
    assert len(informers.jobs.records) == 1


@pytest.mark.parametrize(
    "node",
    [
        replace(LABELLED, unschedulable=False),
        replace(LABELLED, annotations={}),
        teardown_node(ChangePhase.LABELLED, records=a_teardown(ChangePhase.LABELLED, attempt=2)),
    ],
    ids=["in service again", "without a record", "another attempt"],
)
async def test_none_is_made_where_the_node_is_another_than_it_was_planned_for(node: Node) -> None:
    api = _Stored(node)
    informers = await _carry_out(api)
    assert api.writes == []
    assert informers.nodes.records["gpu-1"].annotations == node.annotations


@pytest.mark.parametrize(
    ("node", "does", "words"),
    [("gpu-2", "uninstall", "not pinned to node"), ("gpu-1", "verify", "not for phase uninstall")],
)
async def test_one_of_another_node_or_another_kind_is_not_taken_for_ours(
    node: str, does: str, words: str
) -> None:
    api, other = _Stored(), _manifest(node)
    (container,) = other["spec"]["template"]["spec"]["containers"]
    container["args"] = [does]
    api.put(f"{JOBS}/{JOB.name}", other)
    with pytest.raises(JobTakenError, match=words):
        await _carry_out(api)


async def test_jobs_that_end_or_go_mark_their_node_changed() -> None:
    api = _Stored()
    informers = await _carry_out(api)
    informers.take_changed()
    assert informers.jobs is not None
    (key,) = informers.jobs.records
    ended = Job("gpushare-teardown", JOB.name, "uid-1", "gpu-1", JobState.COMPLETE)
    informers._on_job(key, informers.jobs.records[key], ended)
    assert informers.take_changed() == {"gpu-1"}
    snapshot = informers.observe()
    assert snapshot.jobs["gpu-1"][JOB.name].state is JobState.COMPLETE
    informers._on_job(key, ended, None)
    assert "gpu-1" not in informers.observe().jobs


async def test_what_to_type_is_told_once_for_each_teardown() -> None:
    api, node = FakeApi(), teardown_node(ChangePhase.LABELLED)
    plan = plan_teardown(node, manual_pool())
    async with api.connected() as server:
        for events in (Events(server, "first"), Events(server, "its successor")):
            for _ in range(3):
                tell_commands(events, "training", plan, node)
            await asyncio.gather(*events._tasks)
    assert (len(api.writes), len(api.conflicts)) == (1, 1)
    ((reason, note),) = _told(api)
    assert reason == "ModuleRemoval"
    assert "bash /usr/local/cgpu-installer/uninstall.sh" in note
    assert "kubectl annotate node gpu-1 gpushare.io/teardown=done --overwrite" in note


async def test_where_a_job_does_it_nobody_is_told_to_type_anything() -> None:
    api, node = FakeApi(), teardown_node(ChangePhase.LABELLED)
    failed = a_job(node, JobPhase.UNINSTALL, JobState.FAILED, "it broke")
    async with api.connected() as server:
        events = Events(server, "test")
        for plan in (plan_teardown(node, job_pool(), failed), plan_teardown(node, job_pool())):
            tell_commands(events, "training", plan, node)
        await asyncio.gather(*events._tasks)
    assert _told(api) == []
