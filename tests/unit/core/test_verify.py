"""Whether a node has become what its mode says."""

import pytest

from gpushare.api.pool import Edition, Schedule
from gpushare.core.diagnosis import find_missing_whole_card
from gpushare.core.modes import MODES
from gpushare.core.observed import Pass
from gpushare.core.records import PluginPod, Step
from gpushare.core.verify import verify_mode, verify_return
from gpushare.names import Reason
from tests.kit.values.node_plans import INSTALLER, change_of, under_way
from tests.kit.values.objects import NOW, a_node, a_plugin_pod

MEMORY, CORE, WHOLE = "aliyun.com/gpu-mem", "aliyun.com/gpu-core.percentage", "nvidia.com/gpu"
CORE_MEM = MODES[Edition.PROFESSIONAL, Schedule.CORE_MEM]
OPEN_DEFAULT = MODES[Edition.OPEN_SOURCE, Schedule.DEFAULT]


READY = [a_plugin_pod(name, daemonset=name) for name in CORE_MEM.daemonsets]


@pytest.mark.parametrize(
    ("allocatable", "missing"),
    [({MEMORY: 15}, CORE), ({CORE: 100}, MEMORY), ({MEMORY: 15, CORE: 0}, CORE)],
)
def test_core_mem_offers_memory_and_compute(allocatable: dict[str, int], missing: str) -> None:
    lacks = verify_mode(a_node(allocatable=allocatable), READY, CORE_MEM, Pass(NOW))
    assert lacks is not None
    assert lacks.reason is Reason.RESOURCE_NOT_READY
    assert missing in lacks.message


@pytest.mark.parametrize("ready", [True, False], ids=["ready", "its kubelet is away"])
def test_core_mem_is_verified_once_both_are_offered(ready: bool) -> None:
    node = a_node(allocatable={MEMORY: 15, CORE: 100}, ready=ready)
    assert verify_mode(node, READY, CORE_MEM, Pass(NOW)) is None


@pytest.mark.parametrize("allocatable", [{}, {WHOLE: 0}, {MEMORY: 0}])
def test_open_source_default_without_whole_cards_is_reported_and_complete(
    allocatable: dict[str, int],
) -> None:
    node = a_node(allocatable=allocatable)
    missing = find_missing_whole_card(node, OPEN_DEFAULT)
    assert missing is not None
    assert missing.reason is Reason.WHOLE_CARD_PLUGIN_MISSING
    assert WHOLE in missing.message
    assert verify_mode(node, [], OPEN_DEFAULT, Pass(NOW)) is None


def test_only_open_source_default_may_lack_its_whole_cards() -> None:
    assert find_missing_whole_card(a_node(allocatable={WHOLE: 1}), OPEN_DEFAULT) is None
    others = [mode for mode in MODES.values() if mode is not OPEN_DEFAULT]
    assert [mode for mode in others if find_missing_whole_card(a_node(), mode)] == []


def test_basic_default_awaits_the_whole_cards_that_its_recover_daemonset_puts_back() -> None:
    recoverer = a_plugin_pod("recover-1", daemonset="device-plugin-recover-ds")
    missing = verify_mode(a_node(), [recoverer], MODES[Edition.BASIC, Schedule.DEFAULT], Pass(NOW))
    assert missing is not None
    assert missing.reason is Reason.RESOURCE_NOT_READY


def test_of_a_node_that_is_not_ready_that_is_said_first() -> None:
    plugin = a_plugin_pod("plugin", daemonset=CORE_MEM.plugin)
    lacks = verify_mode(a_node(ready=False), [plugin], CORE_MEM, Pass(NOW))
    assert lacks is not None
    assert lacks.reason is Reason.NODE_NOT_READY
    assert lacks.message.startswith("the node is not Ready")
    assert "cgpu-core-installer is not Ready" in lacks.message


def test_a_recorded_plugin_pod_that_is_still_there_is_not_its_own_successor() -> None:
    recorded = (PluginPod(name="old", uid="old"),)
    change = change_of(under_way(Step.RESTARTING, restart=True, plugins=recorded))
    node, old, new = a_node(allocatable={MEMORY: 15}), a_plugin_pod("old"), a_plugin_pod("new")
    missing = verify_return(node, [INSTALLER, old], change=change, was_zero=True, at=Pass(NOW))
    assert missing is not None
    assert missing.reason is Reason.PLUGIN_RESTARTING
    pods = [INSTALLER, old, new]
    assert verify_return(node, pods, change=change, was_zero=True, at=Pass(NOW)) is None
