"""Actions on a node in its teardown, and the expected states."""

import json
from typing import Any

from devcluster import names
from devcluster.nodes import reboot_node
from tests.kit.bench import MODE, NODES, Bench, Json
from tests.kit.cluster.expect import expect, expect_pool_ready, read_change, read_events
from tests.kit.values.manifests import build_pool


def given_isolating_pool(bench: Bench, name: str, *nodes: str, **more: Any) -> None:
    """Create isolating nodes of a pool, with `faults`."""
    faults, annotations = more.pop("faults", None), more.pop("annotations", None)
    bench.add_nodes(*nodes, node_pool=name, faults=faults, annotations=annotations)
    bench.create_pool(build_pool(name, schedule="cgpu", node_pool=name, **more))


def expect_isolating(bench: Bench, **pools: int) -> None:
    """Wait until each pool is Ready on so many nodes, with loaded modules."""
    for name, nodes in pools.items():
        expect_pool_ready(bench, name, nodes=nodes)
    for node in bench.call("GET", NODES)["items"]:
        assert has_module(bench, node["metadata"]["name"])


def reboot(bench: Bench, node: str) -> str:
    """Reboot the node; return its new boot ID."""
    return reboot_node(bench.cluster, node)


def boot_id(bench: Bench, node: str) -> str:
    boot: str = bench.node(node)["status"]["nodeInfo"]["bootID"]
    return boot


def has_module(bench: Bench, node: str) -> bool:
    """Tell whether the kernel module is loaded, by the simulator's record."""
    return names.MODULE in bench.node(node)["metadata"]["annotations"]


def expect_shared_for_good(bench: Bench, node: str) -> None:
    """Wait until the node is in service, without a module, and recorded as such."""

    def probe() -> Json | None:
        current = bench.node(node)
        applied: Json = json.loads(
            current["metadata"]["annotations"].get("gpushare.io/applied", "{}")
        )
        is_back = not read_change(current) and "unschedulable" not in current["spec"]
        return applied if is_back and applied.get("schedule") == "share" else None

    applied = expect(bench, f"{node} shares for good", probe)
    meta = bench.node(node)["metadata"]
    assert meta["labels"][MODE] == "share"
    assert not {names.MODULE, "gpushare.io/module"} & meta["annotations"].keys()
    assert applied["bootID"] == boot_id(bench, node)


def expect_event(bench: Bench, node: str, reason: str, text: str) -> Json:
    """Wait for the one Event on the node with this reason and text; return it."""

    def probe() -> list[Json]:
        events = read_events(bench, bench.node(node), reason)
        return [event for event in events if text in event["note"]]

    (event,) = expect(bench, f"an Event on {node} says {reason}: {text!r}", probe)
    return event
