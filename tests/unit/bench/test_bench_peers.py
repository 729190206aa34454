"""What is told of the operator's peers, and what of them is taken off the nodes."""

from bench.core.fleet import build_reset
from bench.core.reviewclient import Loop
from bench.core.reviews import build_bodies
from bench.peers import Column, list_rows


def test_a_row_tells_the_median_and_between_which_values_it_lay() -> None:
    columns = (
        Column[Loop]("calls", lambda each: each.calls, ".0f"),
        Column[Loop]("ms", lambda each: each.p50_ms),
    )
    runs = [Loop(100, 1.0, p50_ms) for p50_ms in (3.0, 1.0, 2.0)]
    assert list(list_rows("admission", columns, {"ours": runs})) == [
        "| admission | calls | ms |",
        "|---|---|---|",
        "| ours | 100 | 2.0 (1.0 to 3.0) |",
    ]


def test_what_nfd_wrote_is_taken_off_a_node() -> None:
    meta = {
        "name": "gpu-0",
        "resourceVersion": "7",
        "labels": {"feature.node.kubernetes.io/bench-pool": "bench", "mine": "stays"},
        "annotations": {"nfd.node.kubernetes.io/feature-labels": "bench-pool"},
        "managedFields": [{"manager": "kubelet"}, {"manager": "nfd-master"}],
    }
    assert [patch["path"] for patch in build_reset(meta) if patch["op"] == "remove"] == [
        "/metadata/labels/feature.node.kubernetes.io~1bench-pool",
        "/metadata/annotations/nfd.node.kubernetes.io~1feature-labels",
        "/metadata/managedFields/1",
    ]


def test_hami_is_asked_about_the_same_pods_by_its_own_resources() -> None:
    (ours,), (its,) = build_bodies(1, "ours"), build_bodies(1, "hami")
    assert b'"aliyun.com/gpu-mem":"3"' in ours
    assert b'"nvidia.com/gpumem":"3072"' in its
    assert abs(len(ours) - len(its)) < 100
