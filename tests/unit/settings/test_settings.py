"""Settings that are of no use are refused with their names."""

import json
from pathlib import Path

import pytest
from pydantic import ValidationError

from gpushare import names
from gpushare.editions.registry import MODES
from gpushare.settings import Settings
from gpushare.workload_kinds import merge_kinds


def read(**variables: str) -> Settings:
    return Settings.read({f"{names.SETTINGS_PREFIX}{k}": v for k, v in variables.items()})


def test_each_variable_is_read_as_its_setting_is_and_those_of_others_are_not() -> None:
    settings = Settings.read(
        {
            "GPUSHARE_ALLOW_EVICTION": "true",
            "GPUSHARE_KUBECONFIG": "/etc/kubeconfig",
            "GPUSHARE_SCHEDULERS": '["default-scheduler", "another"]',
            "GPUSHARE_WEBHOOK_REPLICAS": "3",
            "GPUSHARE_WEBHOOK_PORT_9443_TCP": "tcp://192.0.2.1:9443",
            "NAMESPACE": "elsewhere",
        }
    )
    assert settings.allow_eviction
    assert settings.kubeconfig == Path("/etc/kubeconfig")
    assert settings.schedulers == ("default-scheduler", "another")
    assert (settings.webhook_replicas, settings.namespace) == (3, "gpushare-system")


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("IDENTITY", " "),
        ("NAMESPACE", ""),
        ("NAMESPACE", "../x"),
        ("PLUGIN_NAMESPACE", "Kube_System"),
        ("PLUGIN_DAEMONSETS", '{"cgpu-installer": "Installer"}'),
        ("PLUGIN_DAEMONSETS", '{"cgpu-installer"'),
        ("SCHEDULERS", "default-scheduler"),
        ("READY_TIMEOUT_SECONDS", "inf"),
        ("READY_TIMEOUT_SECONDS", "0"),
        ("READY_TIMEOUT_SECONDS", "1e12"),
        ("BACKOFF_SECONDS", "-1"),
        ("METRICS_PORT", "99999"),
        ("LEASE_RENEW_SECONDS", "9"),
        ("CERTIFICATE_LIFETIME_SECONDS", "1e10"),
        ("AUTHORITY_LIFETIME_SECONDS", "inf"),
        ("AUTHORITY_LIFETIME_SECONDS", "3153600001"),
        ("LEASE_DURATION_SECONDS", "601"),
        ("AUTHORITY_LIFETIME_SECONDS", "29"),
    ],
)
def test_a_setting_of_no_use_is_refused(variable: str, value: str) -> None:
    with pytest.raises(ValidationError, match=variable.lower()):
        read(**{variable: value})


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"cgpu-instaler": "x-1"}, ["cgpu-instaler", "x-1", *names.STANDARD_DAEMONSETS]),
        ({"cgpu-installer": "x-1", "ack-mps-control": "x-1"}, ["ack-mps-control", "x-1"]),
        ({"cgpu-installer": "ack-mps-control"}, ["cgpu-installer", "ack-mps-control"]),
    ],
    ids=["an unknown key", "two keys of one name", "a name that another has by default"],
)
def test_a_refused_name_of_a_plugin_is_told_with_its_key_and_what_is_allowed(
    given: dict[str, str], words: list[str]
) -> None:
    with pytest.raises(ValidationError, match="plugin_daemonsets") as refused:
        read(PLUGIN_DAEMONSETS=json.dumps(given))
    (error,) = refused.value.errors()
    assert [word for word in words if word not in error["msg"]] == []


def test_two_processes_on_one_host_have_two_identities() -> None:
    assert Settings().identity != Settings().identity


def test_two_daemonsets_may_swap_their_names() -> None:
    first, second = sorted(names.STANDARD_DAEMONSETS)[:2]
    given = {first: second, second: first}
    assert read(PLUGIN_DAEMONSETS=json.dumps(given)).plugin_daemonsets == given


def test_the_standard_names_are_those_that_modes_need() -> None:
    needed = {each for mode in MODES.values() for each in (*mode.daemonsets, mode.recoverer)}
    assert needed - {""} == names.STANDARD_DAEMONSETS


ROW = {"group": "example.com", "resource": "works", "kind": "Work", "templates": []}


def test_kinds_of_workloads_are_added_to_those_that_are_known() -> None:
    place = {"path": "spec.parts[*].pod", "shape": "PodSpec", "containers": ["model"]}
    (kind,) = read(WORKLOAD_KINDS=json.dumps([{**ROW, "templates": [place]}])).workload_kinds
    assert kind.key == "works.example.com"
    assert kind.templates[0].path == ("spec", "parts", "[*]", "pod")
    assert kind.templates[0].containers == (("model",),)
    merged = merge_kinds([kind])
    assert len(merged) == len(merge_kinds()) + 1
    assert merged["works.example.com"] is kind


@pytest.mark.parametrize(
    ("rows", "told"),
    [
        (
            [{**ROW, "group": "apps", "resource": "deployments"}],
            "deployments.apps: Kubernetes' own",
        ),
        (
            [{**ROW, "group": "coordination.k8s.io", "resource": "leases"}],
            "leases.coordination.k8s.io: Kubernetes' own",
        ),
        ([ROW, ROW], "works.example.com is listed twice"),
        ([{**ROW, "kinds": []}], "workload_kinds.0.kinds"),
        ([ROW, {**ROW, "templates": [{"path": "spec..x"}]}], "workload_kinds.1.templates.0.path"),
        ([{**ROW, "templates": [{"path": "spec.x[0]"}]}], "'spec.x\\[0\\]' is no path"),
        ([{**ROW, "templates": [{"path": 7}]}], "workload_kinds.0.templates.0.path"),
        ([{**ROW, "templates": [{"path": "a", "shape": "Pod"}]}], "workload_kinds.0.templates.0"),
        (
            [{**ROW, "templates": [{"path": "spec.x", "replicas": ["spec.y[*].replicas"]}]}],
            "has more",
        ),
        ([{**ROW, "templates": [{"path": "a", "containers": ["b"] * 21}]}], "containers"),
        ([{**ROW, "resource": f"work{number}s"} for number in range(101)], "workload_kinds"),
    ],
)
def test_an_added_kind_of_no_use_is_refused_by_its_name(rows: object, told: str) -> None:
    with pytest.raises(ValidationError, match=told):
        read(WORKLOAD_KINDS=json.dumps(rows))
