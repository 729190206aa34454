"""What is sent to the API server, and what its refusals mean."""

from collections.abc import Awaitable, Callable
from typing import Any

import jsonpatch
import pytest
from aiohttp import web

from gpushare import names
from gpushare.core.snapshot.actions import ApplyNode, NamedPod, ReleaseNode
from gpushare.kube.client import ApiClient
from gpushare.kube.errors import ApiError
from gpushare.kube.resources.nodes import apply_node, build_release, release_node
from gpushare.kube.resources.pods import delete_plugin
from tests.kit.values.fake_api import says, served_by

OURS = {"manager": names.FIELD_MANAGER, "operation": "Apply", "fieldsV1": {}}
THEIRS = {"manager": "kubectl", "operation": "Update", "fieldsV1": {}}
DAEMONSETS = "apis/apps/v1/namespaces/kube-system/daemonsets"
BODY = {"metadata": {"uid": "1"}}


@pytest.mark.parametrize(
    ("call", "verb", "resource"),
    [
        (lambda api: api.get("api/v1/nodes"), "LIST", "nodes"),
        (lambda api: api.get("api/v1/nodes/gpu-1"), "GET", "nodes"),
        (lambda api: api.get("api/v1/namespaces/kube-system/pods/x"), "GET", "pods"),
        (lambda api: api.get(DAEMONSETS), "LIST", "daemonsets"),
        (lambda api: api.get("api/v1/namespaces/kube-system"), "GET", "namespaces"),
        (lambda api: api.get("apis"), "GET", "discovery"),
        (lambda api: api.get("apis/gpushare.io/v1alpha1"), "GET", "discovery"),
        (lambda api: api.create("api/v1/namespaces/a/events", BODY), "POST", "events"),
        (lambda api: api.apply("api/v1/nodes/gpu-1/status", BODY), "APPLY", "nodes/status"),
    ],
)
async def test_metrics_name_verb_and_resource_as_the_api_servers_own_and_never_an_object(
    call: Callable[[ApiClient], Awaitable[object]], verb: str, resource: str
) -> None:
    told: list[tuple[str, str, int]] = []
    async with served_by(says(), lambda *words: told.append(words)) as api:
        await call(api)
    assert told == [(verb, resource, 200)]


@pytest.mark.parametrize(
    "details", [b"null", b'["a"]', b'{"causes": 7}', b'{"causes": "a"}', b'{"causes": ["a"]}']
)
def test_details_in_a_shape_of_their_own_are_no_causes(details: bytes) -> None:
    error = ApiError(400, b'{"message": "no", "details": %b}' % details, what="GET x")
    assert (error.message, error.causes, error.keeps_pod) == ("no", (), None)


@pytest.mark.parametrize("body", [b"", b"gateway timeout", b"[]"])
def test_an_answer_that_is_no_status_is_an_error_all_the_same(body: bytes) -> None:
    error = ApiError(504, body, what="GET x")
    assert error.is_transient
    assert error.causes == ()
    assert "GET x: 504" in str(error)


async def test_an_apply_without_a_uid_is_refused_here() -> None:
    with pytest.raises(ValueError, match=r"metadata\.uid"):
        await ApiClient(None).apply("api/v1/nodes/a", {"metadata": {"name": "a"}})  # type: ignore[arg-type]


async def test_a_plugins_pod_is_deleted_only_while_it_has_the_uid_that_was_recorded() -> None:
    sent: list[tuple[str, object]] = []

    async def answer(request: web.Request) -> web.Response:
        sent.append((request.method, await request.json()))
        return web.json_response({})

    async with served_by(answer) as api:
        await delete_plugin(api, NamedPod("kube-system", "x", "1"))
    assert sent == [("DELETE", {"preconditions": {"uid": "1"}})]


class Recorder:
    """Stands for the API server: keeps what is applied."""

    async def apply(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        self.applied = body
        return body


async def test_an_apply_of_no_labels_does_not_claim_the_map_that_holds_them() -> None:
    api = Recorder()
    action = ApplyNode("n1", "1", "7", {}, {names.ANNOTATION_CHANGE: "{}"}, True, "cordoned")
    await apply_node(api, action)  # type: ignore[arg-type]
    assert api.applied["metadata"].keys() == {"name", "uid", "resourceVersion", "annotations"}


async def test_labels_records_and_cordon_are_one_apply_to_the_node_as_it_was_read() -> None:
    api, labels = Recorder(), {names.LABEL_POOL: "training"}
    records = {names.ANNOTATION_CHANGE: "{}"}
    await apply_node(api, ApplyNode("n1", "1", "7", labels, records, True, "labelled"))  # type: ignore[arg-type]
    metadata = {"name": "n1", "uid": "1", "resourceVersion": "7"}
    assert api.applied == {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {**metadata, "labels": labels, "annotations": records},
        "spec": {"unschedulable": True},
    }


async def test_a_cordon_that_others_seem_to_own_is_lifted_by_its_value() -> None:
    api = Recorder()
    await apply_node(api, ApplyNode("n1", "1", "7", {}, {}, False, "done", lifts_cordon=True))  # type: ignore[arg-type]
    assert api.applied["spec"] == {"unschedulable": False}
    assert api.applied["metadata"]["resourceVersion"] == "7"


def _node(*entries: dict[str, Any], **annotations: str) -> dict[str, Any]:
    metadata = {
        "uid": "1",
        "labels": {"cgpu": "true"},
        "annotations": {"other": "stays", **annotations},
        "managedFields": list(entries),
    }
    return {"metadata": metadata}


def test_a_release_takes_all_that_is_ours_but_what_is_known_of_the_kernel_module() -> None:
    module = {names.ANNOTATION_MODULE: "loaded"}
    ours = {names.ANNOTATION_INITIAL_VALUES: "{}", names.ANNOTATION_APPLIED: "{}"}
    node = _node(THEIRS, OURS, **ours, **module)
    released = jsonpatch.apply_patch(node, build_release(node, "1"))
    assert released == _node(THEIRS, **module)
    assert build_release(released, "1") == []


@pytest.mark.parametrize(
    ("read", "changed"),
    [
        (_node(OURS), _node({**OURS, "fieldsV1": {"f:metadata": {}}})),
        (
            _node(THEIRS, **{names.ANNOTATION_CHANGE: "old"}),
            _node(THEIRS, **{names.ANNOTATION_CHANGE: "new"}),
        ),
    ],
    ids=["our entry", "a record"],
)
def test_a_release_fails_where_that_was_written_meanwhile(
    read: dict[str, Any], changed: dict[str, Any]
) -> None:
    with pytest.raises(jsonpatch.JsonPatchTestFailed):
        jsonpatch.apply_patch(changed, build_release(read, "1"))


def test_nothing_is_released_of_another_node_with_the_same_name() -> None:
    assert build_release(_node(OURS), "2") == []


async def test_a_release_whose_node_can_not_be_read_says_what_was_refused() -> None:
    async with served_by(says(status=403)) as api:
        with pytest.raises(ApiError) as raised:
            await release_node(api, ReleaseNode("gpu-1", "1"))
    assert raised.value.status == 403
