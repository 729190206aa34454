"""What NVIDIA's device plugin and its config-manager do, one row each: seen on a real node, and on
a simulated one. docs/testing.md has the table."""

from tests.kit.cluster.nvidia_stack import CARDS, GPU, SHARED
from tests.kit.values.nvidia_entries import slices
from tests.node.behaviours import Behaviour, Seen
from tests.node.nvidia_node import BEGIN, Stage

REFUSED = "Failed, UnexpectedAdmissionError"
_GOES_ON, _FOLLOWED = "goes on, in its pod", "is followed, in the same pod"
FALLBACK = {
    "the sidecar": "CrashLoopBackOff",
    "allocatable": "as without a label",
    "a key that there is": _FOLLOWED,
}
IN_PLACE = {"the plugin": _GOES_ON, "allocatable": "cards x replicas"}


def _share(n: int) -> str:
    return f"[{{name: nvidia.com/gpu, replicas: {n}}}]"


def _tell_plugin(stage: Stage, before: tuple[str, int]) -> str:
    """What has become of the plugin's process."""
    return _GOES_ON if stage.identify() == before else "starts again"


def _tell_followed(stage: Stage, key: str, n: int) -> str:
    """Choose a key that shares each card by `n`: what becomes of it."""
    pod = stage.plugin()["metadata"]["uid"]
    stage.choose(key)
    stage.expect_offered({GPU: n * CARDS})
    return _FOLLOWED if stage.plugin()["metadata"]["uid"] == pod else "in another pod"


def _choose_another(stage: Stage) -> Seen:
    stage.choose("whole")
    stage.expect_offered({GPU: CARDS})
    early, plugin = stage.send_pod("early"), stage.identify()
    stage.read_outcome(early)
    stage.choose("slices-4")
    stage.expect_offered({GPU: 4 * CARDS})
    late = [stage.send_pod(f"late-{number}") for number in range(CARDS)]
    outcomes = {stage.read_outcome(name) for name in late}
    is_given = stage.read_cards(early) <= set().union(*map(stage.read_cards, late))
    return {
        **IN_PLACE,
        "the plugin": _tell_plugin(stage, plugin),
        "a pod that runs": stage.read_outcome(early),
        "pods that come": ", ".join(outcomes),
        "the card that one holds": "is given again" if is_given else "is not",
    }


def _remove_label(stage: Stage) -> Seen:
    plugin = stage.identify()
    stage.choose(None)
    stage.expect_offered({GPU: CARDS})
    return {**IN_PLACE, "the plugin": _tell_plugin(stage, plugin)}


def _rename(stage: Stage) -> Seen:
    stage.choose("shared-4")
    stage.expect_offered({GPU: 0, SHARED: 4 * CARDS})
    outcome = stage.read_outcome(stage.send_pod("shared", resource=SHARED))
    return {"nvidia.com/gpu": "0", "nvidia.com/gpu.shared": "cards x replicas", "a pod": outcome}


def _choose_none(stage: Stage) -> Seen:
    plugin = stage.identify()
    stage.choose("nonsense")
    return {**_observe_fallback(stage), "the plugin": _tell_plugin(stage, plugin)}


def _start_with_none(stage: Stage) -> Seen:
    stage.choose("nonsense")
    stage.delete_plugin()
    return _observe_fallback(stage)


def _observe_fallback(stage: Stage) -> Seen:
    stage.expect_crashing("-sidecar")
    stage.expect_offered({GPU: CARDS})
    return {**FALLBACK, "a key that there is": _tell_followed(stage, "slices-4", 4)}


def _break(stage: Stage) -> Seen:
    stage.edit("slices-4", slices(_share(1)))
    stage.choose("slices-4")
    stage.expect_crashing("-ctr")
    stage.expect_offered({GPU: 0})
    return {
        "the plugin": "CrashLoopBackOff",
        "allocatable": "0",
        "another key": _tell_followed(stage, "slices-8", 8),
    }


def _edit(stage: Stage) -> Seen:
    plugin = stage.identify()
    stage.edit("slices-8", slices(_share(4)))
    stage.expect_kept()
    before = stage.read_offer()[GPU]
    stage.signal_plugin()
    stage.expect_offered({GPU: 4 * CARDS})
    return {
        "the plugin": _tell_plugin(stage, plugin),
        "allocatable": "as it was" if before == BEGIN else str(before),
        "after SIGHUP": "as it was edited",
    }


def _ask_for_two(stage: Stage, key: str, n: int) -> str:
    stage.choose(key)
    stage.expect_offered({GPU: n * CARDS})
    return stage.read_outcome(stage.send_pod(f"two-of-{n}", count=2))


def _refuse_two(stage: Stage) -> Seen:
    stage.edit("slices-8", slices(_share(8), "failRequestsGreaterThanOne: true, "))
    return {
        "without failRequestsGreaterThanOne": _ask_for_two(stage, "slices-4", 4),
        "with it": _ask_for_two(stage, "slices-8", 8),
    }


def _share_by_mps(stage: Stage) -> Seen:
    plugin = stage.identify()
    stage.choose("mps-8")
    stage.expect_offered({GPU: 0})
    ready = stage.is_ready()
    stage.start_daemon()
    stage.expect_offered({GPU: 8 * CARDS})
    seen = _tell_plugin(stage, plugin)
    one, two = stage.send_pod("one"), stage.send_pod("two", count=2)
    return {
        "the plugin": seen,
        "its pod": "Ready" if ready else "not Ready",
        "allocatable": "0",
        "once a daemon answers": "cards x replicas",
        "a pod that asks for one": stage.read_outcome(one),
        "a pod that asks for two": stage.read_outcome(two),
    }


BEHAVIOURS: tuple[Behaviour[Stage], ...] = (
    Behaviour(
        "the label names another key",
        {
            **IN_PLACE,
            "a pod that runs": "runs",
            "pods that come": "runs",
            "the card that one holds": "is given again",
        },
        _choose_another,
    ),
    Behaviour("the label is removed, and no key is the default", IN_PLACE, _remove_label),
    Behaviour(
        "the label names a key with renameByDefault",
        {"nvidia.com/gpu": "0", "nvidia.com/gpu.shared": "cards x replicas", "a pod": "runs"},
        _rename,
    ),
    Behaviour("the label names no key", {**FALLBACK, "the plugin": _GOES_ON}, _choose_none),
    Behaviour(
        "the label names no key, and the plugin's pod is deleted", FALLBACK, _start_with_none
    ),
    Behaviour(
        "the label names a key that the plugin cannot read",
        {"the plugin": "CrashLoopBackOff", "allocatable": "0", "another key": _FOLLOWED},
        _break,
    ),
    Behaviour(
        "the content of the key is edited",
        {"the plugin": _GOES_ON, "allocatable": "as it was", "after SIGHUP": "as it was edited"},
        _edit,
    ),
    Behaviour(
        "a pod asks for two slices",
        {"without failRequestsGreaterThanOne": "runs", "with it": REFUSED},
        _refuse_two,
    ),
    Behaviour(
        "the label names a key with MPS, and no daemon of it answers",
        {
            "the plugin": _GOES_ON,
            "its pod": "Ready",
            "allocatable": "0",
            "once a daemon answers": "cards x replicas",
            "a pod that asks for one": "runs",
            "a pod that asks for two": REFUSED,
        },
        _share_by_mps,
    ),
)
