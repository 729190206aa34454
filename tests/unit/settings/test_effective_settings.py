"""How an installation is set: by its Deployments, and what is assumed without them."""

import json
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import pytest

from gpushare.analysis.effective_settings import (
    ASSUMED,
    DEFAULT,
    PLANNED_BY,
    ROUTED_BY,
    KnownSetup,
    read_setup,
)
from gpushare.api.status import ConditionStatus, NodeSample, PoolStatus
from gpushare.core.admission.request import Rules, build_rules
from gpushare.core.decision_settings import build_timing
from gpushare.core.snapshot.cluster import ClusterSnapshot
from gpushare.names import SETTINGS_PREFIX, Reason
from gpushare.settings import Settings, Variable
from tests.kit.values.node_plans import SHARE
from tests.kit.values.objects import MEMORY, NOW, a_node, a_pool, a_snapshot

CONTROLLER = "deployment gpushare-system/gpushare-controller"
NOTHING = a_snapshot(pools=(), nodes=())


def read(snapshot: ClusterSnapshot = NOTHING, **variables: str | None) -> KnownSetup:
    """What a controller's Deployment with these variables says."""
    return read_setup(
        {CONTROLLER: {f"{SETTINGS_PREFIX}{k}": v for k, v in variables.items()}}, snapshot
    )


def has_defaults(setup: Settings) -> bool:
    """Whether it is as if nobody had set anything; each process has an identity of its own."""
    return setup == Settings(identity=setup.identity)


def test_what_an_installation_does_not_set_has_its_default() -> None:
    known = read()
    assert has_defaults(known.setup)
    assert {setting.source for setting in known.settings.values()} == {DEFAULT}
    assert known.tell_assumed(ROUTED_BY) == ""


def test_each_value_is_read_as_the_operators_process_reads_it() -> None:
    setup = read(
        ALLOW_EVICTION="1",
        ALLOW_TEARDOWN_JOBS="true",
        MEMORY_UNIT="MiB",
        ON_NO_POOL="deny",
        SCHEDULERS='["a", "b"]',
        RECHECK_SECONDS="7.5",
        READY_TIMEOUT_SECONDS="60",
    ).setup
    assert (setup.allow_eviction, setup.allow_teardown_jobs, setup.memory_unit) == (
        True,
        True,
        "MiB",
    )
    assert build_rules(setup) == Rules(denies=True, schedulers=frozenset({"a", "b"}))
    assert setup.recheck_seconds == 7.5
    assert build_timing(setup).ready_timeout == timedelta(minutes=1)


@pytest.mark.parametrize("value", [None, "", "perhaps"], ids=["elsewhere", "empty", "no truth"])
def test_a_value_that_can_not_be_read_is_assumed(value: str | None) -> None:
    known = read(ALLOW_EVICTION=value, MEMORY_UNIT="GiB")
    assert not known.setup.allow_eviction
    assert "GPUSHARE_ALLOW_EVICTION" in known.tell_assumed(PLANNED_BY)
    assert "eviction.enabled false" in known.tell_assumed(PLANNED_BY)
    assert read(SCHEDULERS="a,b").settings[Variable.SCHEDULERS].source == ASSUMED


def test_the_names_of_plugins_are_read_and_none_that_two_share() -> None:
    given = {"cgpu-installer": "x", "ack-mps-control": "y"}
    assert read(PLUGIN_DAEMONSETS=json.dumps(given)).setup.plugin_daemonsets == given
    shared = dict.fromkeys(given, "x")
    assert read(PLUGIN_DAEMONSETS=json.dumps(shared)).setup.plugin_daemonsets == {}
    assert read().setup.plugin_daemonsets == {}


def test_plugins_that_are_not_where_commands_look_are_told() -> None:
    assert read().elsewhere == ""
    assert "plugins, but commands read kube-system" in read(PLUGIN_NAMESPACE="plugins").elsewhere


@pytest.mark.parametrize(
    ("deployments", "why"),
    [
        (None, "no Deployment of the operator can be read"),
        ({}, "no Deployment of the operator exists"),
    ],
)
def test_without_deployments_the_defaults_are_assumed(
    deployments: Mapping[str, Any] | None, why: str
) -> None:
    known = read_setup(deployments, NOTHING)
    assert has_defaults(known.setup)
    assert known.tell_assumed(PLANNED_BY).startswith(f"Assumed because {why}")
    assert known.tell_assumed(PLANNED_BY).endswith(
        ": eviction.enabled false, teardown.jobs.enabled false, memoryUnit GiB, "
        "nvidia.namespace unset"
    )


def test_the_unit_is_that_of_most_nodes() -> None:
    nodes = tuple(
        a_node(name, SHARE, allocatable={MEMORY: memory}, gpu_count=1)
        for name, memory in (("a", 15360), ("b", 15360), ("c", 15))
    )
    assert read_setup(None, a_snapshot(pools=(), nodes=nodes)).setup.memory_unit == "MiB"


def guess(*told: Reason, heard: int = 1, **spec: Any) -> Settings:
    """Beside a pool whose controller has acted on generation `heard` of 1, and tells this."""
    condition = ConditionStatus(
        type="Ready", status="True", reason="Any", message="", last_transition_time=NOW
    )
    samples = [NodeSample(node="a", reason=reason, since=NOW, message="no") for reason in told]
    status = PoolStatus(observed_generation=heard, conditions=(condition,), samples=tuple(samples))
    pool = a_pool(**spec, status=status).model_copy(update={"generation": 1})
    return read_setup(None, a_snapshot(pools=(pool,), nodes=())).setup


EVICTS: dict[str, Any] = {"rollout": {"workloads": "Evict"}}
TEARS_DOWN: dict[str, Any] = {"isolation_teardown": {"policy": "Job"}}


def test_a_switch_is_on_where_a_controller_that_needs_it_does_not_say_that_it_is_off() -> None:
    assert guess(**EVICTS).allow_eviction
    assert guess(rollout={"stale_workloads": "Evict"}).allow_eviction
    assert guess(**TEARS_DOWN).allow_teardown_jobs
    assert not guess(Reason.EVICTION_DISABLED, **EVICTS).allow_eviction
    assert not guess(Reason.TEARDOWN_DISABLED, **TEARS_DOWN).allow_teardown_jobs


def test_a_controller_that_did_not_need_a_switch_tells_nothing_of_it() -> None:
    assert not guess().allow_eviction
    assert not guess().allow_teardown_jobs
    assert not guess(heard=0, **EVICTS).allow_eviction
