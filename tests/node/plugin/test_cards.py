"""Which card a container gets from a real kubelet: the plugin is asked, and never told of a pod."""

from tests.kit.cluster.expect import expect, expect_running
from tests.kit.nodebench import CGPU_DISABLE, NodeBench, expect_truth, given_pool

VISIBLE = "NVIDIA_VISIBLE_DEVICES"
CARD = "ALIYUN_COM_GPU_MEM_IDX"


def test_on_open_source_a_pod_gets_the_card_that_the_scheduler_chose(bench: NodeBench) -> None:
    given_pool(bench, "OpenSource", "share")

    pods = [bench.run_pod(name, gib=5) for name in ("first", "second")]

    for name in pods:
        got, promised = bench.environments(name)["main"], bench.pod(name)["metadata"]["annotations"]
        assert got[VISIBLE] == got[CARD] == promised[CARD]
        assert got["ALIYUN_COM_GPU_MEM_CONTAINER"] == "5"
        assert CGPU_DISABLE not in got
    assert {bench.environments(name)["main"][CARD] for name in pods} == {"0", "1"}
    expect_truth(bench)


def test_the_kubelet_asks_for_each_container_so_two_of_them_get_no_card(bench: NodeBench) -> None:
    given_pool(bench, "OpenSource", "share")

    pod = expect_running(bench, bench.send_pod("two", 2, 4))

    got = bench.environments(pod["metadata"]["name"])
    assert {name: each[VISIBLE] for name, each in got.items()} == {
        "main": "no-gpu-has-2GiB-to-run",
        "with-4": "no-gpu-has-4GiB-to-run",
    }
    bench.run_pod("one", gib=1)
    expect(bench, "all count, none is isolated", lambda: count_containers(bench) == (3, 0))


def count_containers(bench: NodeBench) -> tuple[int, int]:
    """Those that run, and those of them that are isolated."""
    told = bench.pool()["status"].get("isolation") or {}
    return told.get("containers", 0), told.get("isolated", 0)
