"""What a kubelet and a device plugin do, one row each: seen on a real node, and on a simulated one.
docs/testing.md has the table."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from tests.node.gpu_node import ALL_GIB, Stage
from tests.node.watched_node import WatchedNode

Seen = Mapping[str, str]
Place = TypeVar("Place", bound=WatchedNode)
BEFORE, NOW = "by the label of before", "by the label of now"
GONE_SECONDS = 20.0
"""A kubelet reports at least every 10 s."""
EXPIRED_SECONDS = 330.0


@dataclass(frozen=True)
class Behaviour(Generic[Place]):
    """What is seen when something happens to a node, from the state that its stage begins with."""

    when: str
    seen: Seen
    observe: Callable[[Place], Seen]
    is_long: bool = False
    """It takes minutes."""


def _read_by(stage: Stage, name: str) -> str:
    """Which label a new pod's container shows; now it says that isolation is off."""
    return BEFORE if stage.is_isolated(stage.run_pod(name)) else NOW


def _after(stage: Stage, disturb: Callable[[], None]) -> Seen:
    """What is seen after a disturbance under another label than the plugin has read."""
    early, plugin = stage.run_pod("early"), stage.identify_plugin()
    stage.label("true", "true")
    disturb()
    stage.expect_served()
    return {
        "a pod that runs": "goes on" if stage.count_restarts(early) == 0 else "starts again",
        "its isolation": "as it was" if stage.is_isolated(early) else "another",
        "the plugin's pod": "the same" if stage.identify_plugin() == plugin else "another",
        "a pod that comes": _read_by(stage, "late"),
    }


_GOES_ON = {"a pod that runs": "goes on", "its isolation": "as it was"}
_IN_PLACE = {**_GOES_ON, "the plugin's pod": "the same"}


def _container_restarts(stage: Stage) -> Seen:
    early = stage.run_pod("early")
    stage.label("true", "true")
    stage.replace_plugin()
    stage.restart_container(early)
    stage.expect("its container is started again", lambda: stage.count_restarts(early) == 1)
    return {"its isolation": "as it was" if stage.is_isolated(early) else "another"}


def _reboot(stage: Stage) -> Seen:
    early, other = stage.run_pod("early"), stage.run_pod("other", gib=None)
    stage.label("true", "true")
    with stage.bench.watching() as watch:
        stage.reboot()
        outcome = stage.expect(
            "the GPU pod is Failed", lambda: stage.bench.pod(early)["status"].get("reason")
        )
        stage.expect_served()
    offered = {
        node["status"]["allocatable"].get("aliyun.com/gpu-mem")
        for node in watch.history
        if node["metadata"]["name"] == stage.node
    }
    return {
        "a GPU pod that ran": f"Failed, {outcome}",
        "a pod without GPU": stage.read_outcome(other),
        "allocatable until the plugin has registered": "0" if "0" in offered else "never 0",
        "a pod that comes": _read_by(stage, "late"),
    }


def _lose_plugin(stage: Stage, seconds: float, part: str) -> Seen:
    stage.label("false", "false")
    stage.expect(f"{part} is 0", lambda: stage.read_status()[part] == "0", seconds=seconds)
    # A kubelet takes stock of what it gave to pods that ended with the next pod that asks for it.
    stage.read_outcome(stage.send_pod("first", nodeName=stage.node))
    status = stage.read_status()
    outcome = stage.read_outcome(stage.send_pod("next", nodeName=stage.node))
    stage.label("true", "false")
    stage.expect_served()
    return {
        "allocatable": status["allocatable"],
        "capacity": "as it was" if status["capacity"] == ALL_GIB else status["capacity"],
        "the second pod that is bound then": outcome,
    }


BEHAVIOURS: tuple[Behaviour[Stage], ...] = (
    Behaviour(
        "the label changes, and nothing else",
        {**_IN_PLACE, "a pod that comes": BEFORE},
        lambda stage: _after(stage, lambda: None),
    ),
    Behaviour(
        "the label changes, and the plugin's pod is deleted",
        {**_GOES_ON, "the plugin's pod": "another", "a pod that comes": NOW},
        lambda stage: _after(stage, stage.replace_plugin),
    ),
    Behaviour(
        "the label changes, and the kubelet restarts",
        {**_IN_PLACE, "a pod that comes": NOW},
        lambda stage: _after(stage, stage.restart_kubelet),
    ),
    Behaviour(
        "the label changes, and the plugin gets SIGHUP",
        {**_IN_PLACE, "a pod that comes": NOW},
        lambda stage: _after(stage, stage.signal_plugin),
    ),
    Behaviour(
        "the label changes, the plugin is replaced, and a container of before restarts",
        {"its isolation": "as it was"},
        _container_restarts,
    ),
    Behaviour(
        "the label changes, and the node reboots",
        {
            "a GPU pod that ran": "Failed, UnexpectedAdmissionError",
            "a pod without GPU": "runs",
            "allocatable until the plugin has registered": "0",
            "a pod that comes": NOW,
        },
        _reboot,
    ),
    Behaviour(
        "the plugin leaves, for less than five minutes",
        {
            "allocatable": "0",
            "capacity": "as it was",
            "the second pod that is bound then": "Failed, UnexpectedAdmissionError",
        },
        lambda stage: _lose_plugin(stage, GONE_SECONDS, "allocatable"),
    ),
    Behaviour(
        "the plugin leaves, for more than five minutes",
        {
            "allocatable": "0",
            "capacity": "0",
            "the second pod that is bound then": "Failed, OutOfaliyun.com/gpu-mem",
        },
        lambda stage: _lose_plugin(stage, EXPIRED_SECONDS, "capacity"),
        is_long=True,
    ),
)


def observe_each(stages: Sequence[Place], behaviour: Behaviour[Place]) -> list[Seen]:
    """What is seen on each of them, at the same time."""

    def observe(stage: Place) -> Seen:
        stage.begin()
        return behaviour.observe(stage)

    with ThreadPoolExecutor(len(stages)) as observers:
        return list(observers.map(observe, stages))


def render_table(behaviours: Iterable[Behaviour[Any]]) -> str:
    """The rows as a table in Markdown."""
    rows = (
        f"| {each.when} | {'; '.join(f'{what}: {how}' for what, how in each.seen.items())} |"
        for each in behaviours
    )
    return "\n".join(["| what happens | what is seen |", "|---|---|", *rows]) + "\n"
