"""Settings that are of no use are refused with the variable's name."""

import json

import pytest
from pydantic import ValidationError

from gpushare import names
from gpushare.editions.registry import MODES
from gpushare.settings import Settings


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("IDENTITY", " "),
        ("NAMESPACE", ""),
        ("NAMESPACE", "../x"),
        ("PLUGIN_NAMESPACE", "Kube_System"),
        ("PLUGIN_DAEMONSETS", '{"cgpu-installer": "Installer"}'),
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
def test_a_setting_of_no_use_is_refused(
    monkeypatch: pytest.MonkeyPatch, variable: str, value: str
) -> None:
    monkeypatch.setenv(f"GPUSHARE_{variable}", value)
    with pytest.raises(ValidationError, match=variable.lower()):
        Settings()


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
    monkeypatch: pytest.MonkeyPatch, given: dict[str, str], words: list[str]
) -> None:
    monkeypatch.setenv("GPUSHARE_PLUGIN_DAEMONSETS", json.dumps(given))
    with pytest.raises(ValidationError, match="plugin_daemonsets") as refused:
        Settings()
    (error,) = refused.value.errors()
    assert [word for word in words if word not in error["msg"]] == []


def test_two_processes_on_one_host_have_two_identities(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GPUSHARE_IDENTITY", raising=False)
    assert Settings().identity != Settings().identity


def test_two_daemonsets_may_swap_their_names(monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = sorted(names.STANDARD_DAEMONSETS)[:2]
    given = {first: second, second: first}
    monkeypatch.setenv("GPUSHARE_PLUGIN_DAEMONSETS", json.dumps(given))
    assert Settings().plugin_daemonsets == given


def test_the_standard_names_are_those_that_modes_need() -> None:
    needed = {each for mode in MODES.values() for each in (*mode.daemonsets, mode.recoverer)}
    assert needed - {""} == names.STANDARD_DAEMONSETS
