"""The NVIDIA edition: what entries of the plugin's ConfigMap stand for, and what proves them."""

from typing import Any

import pytest

from gpushare.api.k8s.daemonset import (
    GFD_DAEMONSET,
    NVIDIA_DAEMONSET,
    NVIDIA_MPS_DAEMONSET,
    DaemonSet,
    parse_daemonset,
)
from gpushare.api.nvidia_plugin import NvidiaConfig
from gpushare.api.pool import Edition
from gpushare.editions.edition import Mode, Outcome
from gpushare.editions.nvidia import find_difference
from gpushare.editions.plugin_config_map import parse_config, parse_configs
from gpushare.editions.plugin_daemonsets import PluginDaemonSets
from gpushare.editions.registry import find_mode, find_schedule, find_transition, get_mode
from tests.kit.values.objects import a_node, a_plugin_pod

GPU, SHARED = "nvidia.com/gpu", "nvidia.com/gpu.shared"
WHOLE = "version: v1\n"
SLICES = f"version: v1\nsharing: {{timeSlicing: {{resources: [{{name: {GPU}, replicas: 4}}]}}}}\n"
MPS = f"version: v1\nsharing: {{mps: {{resources: [{{name: {GPU}, replicas: 4}}]}}}}\n"
RENAMED = SLICES.replace("timeSlicing: {", "timeSlicing: {renameByDefault: true, ")


def load(text: str, key: str = "a") -> Mode:
    mode = find_mode(Edition.NVIDIA, parse_config(key, text))
    assert mode is not None
    return mode


def shows(
    *, offered: int = 8, strategy: str = "time-slicing", replicas: str = "4", renamed: int = 0
) -> Any:
    """A node with two cards, as plugin and discovery show it."""
    labels = {
        f"{GPU}.count": "2",
        f"{GPU}.replicas": replicas,
        f"{GPU}.sharing-strategy": strategy,
    }
    return a_node(labels=labels, allocatable={GPU: offered, SHARED: renamed})


@pytest.mark.parametrize(
    ("text", "says", "resource"),
    [
        (WHOLE, "config=a,none,hash=", GPU),
        (SLICES, "config=a,time-slicing=4,hash=", GPU),
        (RENAMED, "config=a,time-slicing=4,renamed,hash=", SHARED),
        (MPS, "config=a,mps=4,hash=", GPU),
    ],
    ids=["whole cards", "time-slicing", "renamed", "MPS"],
)
def test_an_entry_names_the_mode_that_the_plugin_loads(text: str, says: str, resource: str) -> None:
    mode = load(text)
    assert str(mode.schedule).startswith(says)
    assert mode.resource == resource
    assert mode.labels == {"nvidia.com/device-plugin.config": "a"}


@pytest.mark.parametrize(
    "text",
    [
        'a: !!int ""',
        "a: &a [1]\nversion: *a",
        SLICES.replace("4", ".inf"),
        "a: " + "[" * 1_000,
        f"# {'x' * 20_000}",
        "a: &a {b: 1}\nc: {<<: [*a, *a]}",
        "version: v1\nsharing: {mps: {}, timeSlicing: 4}",
    ],
)
def test_a_hostile_entry_is_no_mode_and_the_others_are_read(text: str) -> None:
    configs = parse_configs({"metadata": {"name": "c"}, "data": {"a": text, "b": WHOLE}})
    broken, fine = configs.find("a"), configs.find("b")
    assert broken is not None
    assert broken.error
    assert broken.config is None
    assert fine is not None
    assert fine.config == parse_config("b", WHOLE)


def test_edited_content_is_another_mode_with_the_same_label() -> None:
    before, after = load(SLICES), load(SLICES + "flags: {}\n")
    assert before != after
    assert before.labels == after.labels


def test_a_label_alone_names_a_mode_that_is_not_complete() -> None:
    said = find_schedule(Edition.NVIDIA, {"nvidia.com/device-plugin.config": "a"})
    assert not get_mode(Edition.NVIDIA, said).is_resolved
    nothing = get_mode(Edition.NVIDIA, find_schedule(Edition.NVIDIA, {}))
    assert nothing.labels == {}
    assert not nothing.is_resolved


@pytest.mark.parametrize("name", ["share", "default", "", "config=a", str(NvidiaConfig("a"))])
def test_a_text_is_no_mode(name: str) -> None:
    assert find_mode(Edition.NVIDIA, name) is None


def test_every_change_replaces_the_plugin_and_spares_no_pod() -> None:
    change = find_transition(Edition.NVIDIA, load(WHOLE).schedule, load(SLICES).schedule)
    assert change.outcome is Outcome.APPLY_AND_RESTART
    assert not change.keeps_workloads
    assert load(WHOLE).replaced == (NVIDIA_DAEMONSET, GFD_DAEMONSET)
    assert load(MPS).replaced == (NVIDIA_DAEMONSET, GFD_DAEMONSET, NVIDIA_MPS_DAEMONSET)


@pytest.mark.parametrize(
    ("node", "text", "word"),
    [
        (shows(offered=2), SLICES, "2 nvidia.com/gpu"),
        (shows(replicas="1"), SLICES, "replicas"),
        (shows(), MPS, "sharing-strategy"),
        (shows(renamed=8), SLICES, SHARED),
        (shows(), RENAMED, SHARED),
        (a_node(allocatable={GPU: 8}), SLICES, "count"),
    ],
    ids=["the plugin", "discovery", "the strategy", "another name", "renamed", "no discovery"],
)
def test_each_witness_against_a_mode_is_named(node: Any, text: str, word: str) -> None:
    assert word in find_difference(node, (), load(text))


def test_a_node_that_shows_its_mode_differs_in_nothing() -> None:
    assert find_difference(shows(), (), load(SLICES)) == ""
    assert find_difference(shows(strategy="mps"), (), load(MPS)) == ""


def test_an_mps_daemon_that_has_not_left_is_told() -> None:
    left = a_plugin_pod("mps", daemonset=NVIDIA_MPS_DAEMONSET)
    assert left.name in find_difference(shows(), (left,), load(SLICES))


def build_daemonset(*, config_map: str = "") -> DaemonSet:
    mounts = [{"name": "available-configs", "mountPath": "/available-configs"}]
    container = {"name": "nvidia-device-plugin-ctr", "image": "x"}
    spec: dict[str, Any] = {"containers": [container]}
    if config_map:
        container["volumeMounts"] = mounts  # type: ignore[assignment]
        spec["volumes"] = [{"name": "available-configs", "configMap": {"name": config_map}}]
    return parse_daemonset({"metadata": {"name": "nvdp"}, "spec": {"template": {"spec": spec}}})


def find_plugins(daemonset: DaemonSet, **data: str) -> PluginDaemonSets:
    configs = parse_configs({"metadata": {"name": "configs"}, "data": data})
    return PluginDaemonSets(
        nvidia=frozenset({daemonset}), nvidia_namespace="gpu", configs={"configs": configs}
    )


def test_the_plugins_configuration_is_that_of_the_config_map_that_it_mounts() -> None:
    named = get_mode(Edition.NVIDIA, NvidiaConfig("a"))
    plugins = find_plugins(build_daemonset(config_map="configs"), a=SLICES)
    assert plugins.resolve(named) == load(SLICES)
    assert plugins.resolve(load(WHOLE)) == load(SLICES)
    other = find_plugins(build_daemonset(config_map="other"), a=SLICES)
    assert other.resolve(named) == named


@pytest.mark.parametrize(
    ("daemonset", "data", "word"),
    [
        (build_daemonset(), {"a": WHOLE}, "config-manager"),
        (build_daemonset(config_map="configs"), {"b": WHOLE}, "It has: b"),
        (build_daemonset(config_map="configs"), {"a": "["}, "can't be used"),
    ],
    ids=["no config-manager", "no such key", "a broken entry"],
)
def test_why_a_configuration_is_unknown_is_told(
    daemonset: DaemonSet, data: dict[str, str], word: str
) -> None:
    assert word in find_plugins(daemonset, **data).explain_unresolved(
        get_mode(Edition.NVIDIA, NvidiaConfig("a"))
    )
