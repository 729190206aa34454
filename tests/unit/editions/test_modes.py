"""Modes, the ways between them, their DaemonSets, and how a pool wants its nodes changed."""

from dataclasses import replace
from datetime import timedelta
from itertools import permutations
from typing import Any

import pytest

from gpushare import names
from gpushare.api.k8s.daemonset import FORMER, DaemonSet, parse_daemonset
from gpushare.api.k8s.pod import Pod
from gpushare.api.nvidia_plugin import NvidiaConfig
from gpushare.api.pool import EDITION_SCHEDULES, Edition, Schedule
from gpushare.core.nodechange.blockers import find_missing_daemonset
from gpushare.core.nodechange.reconcile_node import plan_node
from gpushare.core.records.node_records import parse_records
from gpushare.core.snapshot.actions import NodeState
from gpushare.core.snapshot.change_policy import Policy, build_attempt, build_policy
from gpushare.core.snapshot.node import NodeSnapshot, ReconcileContext, Timing
from gpushare.editions.edition import GPUSHARE_PLUGIN, Outcome
from gpushare.editions.plugin_daemonsets import PluginDaemonSets
from gpushare.editions.registry import (
    EDITIONS,
    MODES,
    TRANSITIONS,
    find_other_edition_labels,
    find_schedule,
    find_transition,
    get_mode,
)
from gpushare.names import Reason
from tests.kit.values.objects import NOW, a_node, a_plugin_pod, a_pool, installed

ALL_MODES = sorted(MODES)


def test_every_mode_that_the_api_offers_is_known() -> None:
    offered = {(e, s) for e, schedules in EDITION_SCHEDULES.items() for s in schedules}
    assert set(MODES) == offered


@pytest.mark.parametrize(("edition", "schedule"), ALL_MODES)
def test_a_modes_labels_are_read_back_as_that_mode(edition: Edition, schedule: Schedule) -> None:
    assert find_schedule(edition, MODES[edition, schedule].labels) == schedule


def test_every_modes_labels_and_resources_are_among_those_that_are_read() -> None:
    modes = [*MODES.values(), get_mode(Edition.NVIDIA, NvidiaConfig("a"))]
    assert {key for mode in modes for key in mode.labels} == names.MODE_LABELS
    held = {each for mode in modes for each in (*mode.resources, *mode.also_used)}
    assert held == names.GPU_RESOURCES


@pytest.mark.parametrize(("edition", "schedule"), ALL_MODES)
def test_a_plugin_reads_the_label_exactly_where_it_serves_two_modes(
    edition: Edition, schedule: Schedule
) -> None:
    mode = MODES[edition, schedule]
    served = [each for each in EDITIONS[edition].modes if each.plugin == mode.plugin]
    assert mode.reads_label is (bool(mode.plugin) and len(served) > 1)


@pytest.mark.parametrize(
    ("edition", "labels", "schedule"),
    [
        (Edition.BASIC, {"cgpu": "true"}, Schedule.CGPU),
        (Edition.BASIC, {"cgpu": "true", "cgpu.disable.isolation": "True"}, Schedule.CGPU),
        (Edition.PROFESSIONAL, {names.LABEL_SCHEDULE: "egpu"}, "egpu"),
    ],
    ids=["isolated unless said", "only exactly true", "an unknown value as it is"],
)
def test_labels_are_read_as_the_vendors_plugins_read_them(
    edition: Edition, labels: dict[str, str], schedule: str
) -> None:
    assert find_schedule(edition, labels) == schedule


@pytest.mark.parametrize(
    ("edition", "found"), [(Edition.PROFESSIONAL, {"cgpu": "true"}), (Edition.BASIC, {})]
)
def test_labels_of_another_edition_are_found_where_they_share_gpus(
    edition: Edition, found: dict[str, str]
) -> None:
    """Its labels of whole cards do no harm."""
    labels = {"cgpu": "true", "gpushare": "false", "ack.node.gpu.schedule": "default"}
    assert find_other_edition_labels(edition, labels) == found


TIMING = Timing(ready_timeout=timedelta(seconds=90))


def test_without_a_pool_nothing_is_forced_evicted_or_rolled_back() -> None:
    assert build_policy(None, a_node(), TIMING) == Policy(ready_timeout=timedelta(seconds=90))
    assert not Policy().rolls_back
    assert not Policy().claim.force


def test_the_attempt_is_the_specs_generation_and_what_retries_say() -> None:
    pools = (
        *(a_pool(retry=retry, generation=number) for retry in ("", "a", "b") for number in (1, 2)),
        a_pool("other"),
    )
    attempts = [build_attempt(pool, said) for pool in pools for said in ("", "a", "深" * 100_000)]
    assert attempts[0] == "training/1"
    assert len(set(attempts)) == len(attempts)
    assert attempts[1] == build_attempt(a_pool(), "a")
    assert max(map(len, attempts)) < 32


PAIRS = sorted(
    (edition, of, to)
    for edition, schedules in EDITION_SCHEDULES.items()
    for of, to in permutations(schedules, 2)
)
APPLIED = (Outcome.APPLY, Outcome.APPLY_AND_RESTART)
ALLOWED = [pair for pair in PAIRS if TRANSITIONS[pair].outcome in APPLIED]


def test_the_table_holds_every_pair_of_modes_and_no_other() -> None:
    assert len(PAIRS) == 7 * 6 + 3 * 2 + 2
    assert sorted(TRANSITIONS) == PAIRS


@pytest.mark.parametrize(("edition", "of", "to"), ALLOWED)
def test_a_plugin_is_restarted_exactly_where_it_serves_both_modes(
    edition: Edition, of: Schedule, to: Schedule
) -> None:
    plugins = {MODES[edition, of].plugin, MODES[edition, to].plugin}
    stays = len(plugins) == 1 and plugins != {""}
    assert (TRANSITIONS[edition, of, to].outcome is Outcome.APPLY_AND_RESTART) is stays


def test_only_basics_isolation_flip_leaves_workloads_what_they_have() -> None:
    keeping = [pair for pair in PAIRS if TRANSITIONS[pair].keeps_workloads]
    assert keeping == [
        (Edition.BASIC, Schedule.CGPU, Schedule.SHARE),
        (Edition.BASIC, Schedule.SHARE, Schedule.CGPU),
    ]


@pytest.mark.parametrize("edition", list(EDITION_SCHEDULES))
@pytest.mark.parametrize("value", ["egpu", "mig", "", "Share"])
def test_an_unknown_value_needs_a_person_whatever_is_wanted(edition: Edition, value: str) -> None:
    for to in EDITION_SCHEDULES[edition]:
        transition = find_transition(edition, value, to)
        assert transition.refusal is Reason.REQUIRES_MANUAL_ACTION
        assert repr(value) in transition.message


IMAGE = "registry.example.com:5000/acs/k8s-gpushare-plugin:v2@sha256:0"
BYSTANDER = DaemonSet("kube-proxy", frozenset({"kube-proxy"}))
SHARE = MODES[Edition.PROFESSIONAL, Schedule.SHARE]


def _requiring(key: str, operator: str, *values: str) -> dict[str, Any]:
    """The affinity for nodes whose labels are so."""
    term = {"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}
    required = {"nodeSelectorTerms": [term]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}


AFFINITY = _requiring("ack.node.gpu.schedule", "In", "share")


def build(name: str = "some", image: str = "some", **spec: Any) -> DaemonSet:
    template = {"spec": {"containers": [{"name": "main", "image": image}], **spec}}
    return parse_daemonset({"metadata": {"name": name}, "spec": {"template": template}})


@pytest.mark.parametrize(
    "found",
    [
        build("ack-gpushare-plugin"),
        build(image=IMAGE),
        build(nodeSelector={"gpushare": "true"}),
        build(affinity=AFFINITY),
    ],
    ids=["name", "image", "node selector", "node affinity"],
)
def test_a_daemonset_that_may_be_it_is_suggested(found: DaemonSet) -> None:
    daemonsets = PluginDaemonSets(daemonsets=frozenset({found, BYSTANDER}))
    assert daemonsets.suggest(GPUSHARE_PLUGIN) == [found.name]
    assert daemonsets.suggest("ack-mps-control") == []


def test_the_likeliest_are_suggested_and_none_that_is_another_component() -> None:
    likely = build("gpushare-plugin", IMAGE, affinity=AFFINITY)
    exporter = build("exporter", affinity=AFFINITY)
    core = build("gpushare-core-device-plugin-ds", IMAGE, affinity=AFFINITY)
    daemonsets = PluginDaemonSets(daemonsets=frozenset({likely, exporter, core}))
    assert daemonsets.suggest(GPUSHARE_PLUGIN) == ["gpushare-plugin"]


def test_one_that_lost_its_name_to_another_may_be_it_again() -> None:
    daemonsets = PluginDaemonSets({GPUSHARE_PLUGIN: "gone"}, frozenset({build(GPUSHARE_PLUGIN)}))
    assert GPUSHARE_PLUGIN not in daemonsets.standard
    assert daemonsets.suggest(GPUSHARE_PLUGIN) == [GPUSHARE_PLUGIN]


def test_a_missing_daemonset_is_told_by_the_clusters_name_with_the_value_to_set() -> None:
    found = frozenset({build("gpushare-plugin")})
    names = PluginDaemonSets({GPUSHARE_PLUGIN: "gone"}, found, "gpu-plugins")
    blocker = find_missing_daemonset(SHARE, [], ReconcileContext(NOW, plugin_daemonsets=names))
    assert blocker is not None
    assert blocker.reason is Reason.COMPONENT_MISSING
    assert "DaemonSet gone, not found in namespace gpu-plugins. Install it" in blocker.message
    value = f"named gpushare-plugin, set the chart's value pluginDaemonSets.{GPUSHARE_PLUGIN}"
    assert value in blocker.message


def test_a_renamed_daemonset_is_there() -> None:
    names = PluginDaemonSets({GPUSHARE_PLUGIN: "renamed"}, frozenset({build("renamed")}))
    ctx = ReconcileContext(NOW, plugin_daemonsets=names)
    assert find_missing_daemonset(SHARE, [], ctx) is None
    without = replace(ctx, plugin_daemonsets=installed(frozenset()))
    assert find_missing_daemonset(SHARE, [a_plugin_pod()], without) is None


LEFT = build(GPUSHARE_PLUGIN, nodeSelector={"ack.node.gpu.schedule": "share"})


OFF_POOLS = build(GPUSHARE_PLUGIN, affinity=_requiring("gpushare.io/pool", "DoesNotExist"))
LEFT_POD = a_plugin_pod("left", daemonset=f"{FORMER}{GPUSHARE_PLUGIN}")


SELECTS_POOL = build(GPUSHARE_PLUGIN, nodeSelector={"gpushare.io/pool": "training"})
OF_CGPU = build(GPUSHARE_PLUGIN, nodeSelector={"ack.node.gpu.schedule": "cgpu"})
KEPT_OFF = build(GPUSHARE_PLUGIN, nodeSelector={"old": "true"})
LEFT_OVER: dict[str, tuple[DaemonSet, list[Pod], bool]] = {
    "the mode's label brings it": (LEFT, [], True),
    "it runs there": (build(GPUSHARE_PLUGIN), [LEFT_POD], True),
    "a taint keeps it off": (build(GPUSHARE_PLUGIN), [], False),
    "its node selector keeps it off": (KEPT_OFF, [], False),
    "its successor runs": (LEFT, [a_plugin_pod()], True),
    "it is removed": (BYSTANDER, [LEFT_POD], False),
    "the pool's label brings it": (SELECTS_POOL, [], True),
    "it leaves with the label of another mode": (OF_CGPU, [LEFT_POD], False),
    "it leaves with the pool's label": (OFF_POOLS, [LEFT_POD], False),
}


@pytest.mark.parametrize(("left", "pods", "blocks"), LEFT_OVER.values(), ids=LEFT_OVER)
def test_a_plugin_left_over_blocks_a_change_where_it_would_serve_the_node_beside_its_successor(
    left: DaemonSet, pods: list[Pod], blocks: bool
) -> None:
    names = PluginDaemonSets({GPUSHARE_PLUGIN: "renamed"}, frozenset({build("renamed"), left}))
    ctx = ReconcileContext(NOW, plugin_daemonsets=names)
    seen = NodeSnapshot(a_node(), pods, parse_records(a_node()))
    plan = plan_node(seen, a_pool(schedule="share"), ctx).begin()
    assert (plan.reason is Reason.COMPETING_PLUGINS) is blocks
    assert (plan.state is NodeState.BLOCKED and plan.action is None) is blocks
    assert (f"DaemonSet {GPUSHARE_PLUGIN}, replaced by renamed, would" in plan.message) is blocks
