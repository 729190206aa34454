"""What admission reads off a pool."""

from typing import Any

import pytest

from gpushare.core.admission.pool_view import view_pool
from gpushare.core.capacity.room import Room
from gpushare.names import Reason
from tests.kit.values.manifests import build_pool
from tests.kit.values.pool_views import Json

STATUS: Json = {
    "nodes": {"matched": 4},
    "capacity": {
        "observedAt": "2026-01-02T03:04:05Z",
        "memoryTotal": 60,
        "memoryAllocated": 20,
        "memoryRequested": 24,
        "largestCard": 15,
        "unit": "GiB",
        "freeBlocks": [{"size": 7, "cards": 2}, {"size": 15, "cards": 1}],
    },
}


def _view(status: Json | None = None, **spec: Any) -> Any:
    return view_pool(build_pool(**spec) | ({"status": status} if status else {}))


def test_a_pool_that_says_nothing_takes_pods_by_itself_and_binds_them_to_its_name() -> None:
    view = _view(schedule="cgpu")
    assert (view.name, view.priority, view.on_request) == ("training", 100, False)
    assert (view.namespace_selector, view.pod_selector, view.tolerations) == (None, None, ())
    assert view.binding == (("gpushare.io/pool", "training"),)
    assert (view.nodes, view.room) == (None, None)


@pytest.mark.parametrize(
    "stored",
    [
        *({"status": 7}, {"status": [1]}, {"status": "x"}, {"status": {"nodes": [1]}}),
        *({"spec": 5}, {"spec": [1]}, {"spec": "x"}, {"status": {"capacity": 1}}),
    ],
    ids=str,
)
def test_whatever_an_older_crd_stored_it_is_no_pool_for_pods(stored: Json) -> None:
    assert view_pool(build_pool() | stored) is None


def test_what_its_workloads_say_is_seen() -> None:
    team = {"matchLabels": {"team": "a"}}
    view = _view(
        workloads={
            "namespaceSelector": team,
            "podSelector": team,
            "selection": "OnRequest",
            "binding": "Mode",
            "tolerations": [{"key": "gpu", "operator": "Exists", "tolerationSeconds": 3}],
        }
    )
    assert view.namespace_selector.match_labels == view.pod_selector.match_labels == {"team": "a"}
    assert view.on_request
    assert view.binding == (("ack.node.gpu.schedule", "share"),)
    assert view.tolerations == ({"key": "gpu", "operator": "Exists", "tolerationSeconds": 3},)


def test_its_room_is_in_the_unit_in_which_pods_ask() -> None:
    in_gib = _view(STATUS)
    assert in_gib.nodes == 4
    assert in_gib.room == Room(
        ((15, 1), (7, 2)), pending=4, requested=24, total=60, largest_card=15
    )
    in_mib = _view(STATUS | {"capacity": STATUS["capacity"] | {"unit": "MiB"}})
    assert (in_mib.room.pending, in_mib.room.total) == (4 * 1024, 60 * 1024)
    assert (in_mib.room.free_blocks, in_mib.room.unit) == (((15, 1), (7, 2)), "MiB")


def test_a_pool_of_cpu_nodes_alone_has_no_nodes() -> None:
    """Else a pod would wait there for ever, by the pool's name, and not where it could run."""
    without_cards = {"capacity": {"observedAt": "2026-01-02T03:04:05Z"}}
    blocked = {"nodes": {"matched": 4, "blocked": 4}}
    assert _view(without_cards | blocked).nodes == 0
    assert _view(STATUS | blocked).nodes == 4
    assert _view(without_cards | {"nodes": {"matched": 4, "blocked": 3, "waiting": 1}}).nodes == 4


@pytest.mark.parametrize(
    ("nodes", "known"),
    [
        ({"selector": {"matchLabels": {"zone": "a"}}}, ("a",)),
        (
            {"selector": {"matchExpressions": [
                {"key": "zone", "operator": "In", "values": ["a", "b"]}]}},
            ("a", "b"),
        ),
        ({"selector": {"matchExpressions": [{"key": "zone", "operator": "Exists"}]}}, None),
        ({"selector": {"matchLabels": {"zone": "a"}}, "names": ["gpu-1"]}, None),
    ],
)  # fmt: skip
def test_of_other_labels_those_are_known_that_all_nodes_must_have(nodes: Json, known: Any) -> None:
    assert _view(nodes=nodes).known.get("zone") == known


def test_of_our_own_labels_all_is_known() -> None:
    known = _view(schedule="cgpu", placement="spread").known
    assert known["gpushare.io/pool"] == ("training",)
    assert known["ack.node.gpu.schedule"] == ("cgpu",)
    assert known["cgpu"] == known["gpushare"] == (None,)
    assert known["ack.node.gpu.placement"] == ("spread",)
    assert "ack.node.gpu.placement" not in _view().known


@pytest.mark.parametrize("reconcile", ["Enforce", "Paused", "Observe"])
def test_only_a_pool_that_observes_has_nodes_without_its_labels(reconcile: str) -> None:
    closed = _view(reconcile=reconcile).closed
    assert closed is (Reason.POOL_OBSERVES if reconcile == "Observe" else None)


def test_a_pool_that_is_being_deleted_is_seen_as_such() -> None:
    raw = build_pool()
    raw["metadata"]["deletionTimestamp"] = "2026-01-02T03:04:05Z"
    view = view_pool(raw)
    assert view is not None
    assert view.closed is Reason.POOL_DELETING


@pytest.mark.parametrize(
    "spec",
    [
        {"schedule": "mig"},
        {"edition": "Enterprise"},
        {"edition": "OpenSource", "schedule": "cgpu"},
        {"workloads": {"selection": "Sometimes"}},
    ],
)
def test_a_pool_of_a_newer_version_is_not_guessed_at(spec: Json) -> None:
    assert _view(**spec) is None


def test_equal_pools_are_equal_views_and_another_room_is_another_view() -> None:
    assert _view(STATUS) == _view(STATUS)
    assert hash(_view(STATUS)) == hash(_view(STATUS))
    assert _view(STATUS) != _view(STATUS | {"nodes": {"matched": 3}})
