"""`gpushare ui` beside a real API server: what it tells, and what it says when that fails."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpushare.cli.exits import Exit
from tests.browser.ui_server import UiServer, serve_ui
from tests.kit.bench import Bench
from tests.kit.cluster.command_line import run_command
from tests.kit.cluster.expect import expect, expect_allocated, expect_running
from tests.kit.cluster.fault_proxy import FaultProxy, Rule
from tests.kit.cluster.sharing_pools import given_sharing_pool, place_pod
from tests.kit.cluster.users import as_reader

Json = dict[str, Any]

READER = "/apis/rbac.authorization.k8s.io/v1/clusterroles/reader"


@pytest.fixture(scope="module")
def cluster(installed: Bench) -> Iterator[Bench]:
    """Two nodes, and a pod on one of them."""
    given_sharing_pool(installed, "Professional", "n1", "n2")
    expect_running(installed, place_pod(installed, "trainer", "n1", gib=6))
    expect_allocated(installed, gib=6)
    yield installed
    installed.clear()


@pytest.fixture
def proxy(cluster: Bench) -> Iterator[FaultProxy]:
    with FaultProxy(cluster.cluster) as proxy:
        yield proxy


def expect_state(bench: Bench, shown: UiServer, what: str, holds: Callable[[Json], bool]) -> Json:
    """The first state of which that holds."""

    def probe() -> Json | None:
        state = shown.read_state()
        return state if holds(state) else None

    return expect(bench, what, probe)


def has_failed(state: Json) -> bool:
    return state["problem"] is not None


def test_the_state_is_what_inspect_prints_and_then_only_what_changed(cluster: Bench) -> None:
    kubeconfig = cluster.cluster.kubeconfig
    said = json.loads(run_command("inspect", "--pools", "-o", "json", kubeconfig=kubeconfig).out)
    with serve_ui(kubeconfig=kubeconfig) as shown:
        first = shown.read_state()
        since = f"?epoch={first['epoch']}&since={first['version']}"
        try:
            cluster.cordon("n2")
            told = expect(
                cluster,
                "the cordon is told",
                lambda: (new := shown.read_state(since))["version"] > first["version"] and new,
            )
        finally:
            cluster.cordon("n2", on=False)
    assert {key: first[key] for key in said} == said
    assert not told["whole"]
    assert [(n["name"], n["cordoned"]) for n in told["pools"][0]["nodes"]] == [("n2", True)]


def test_it_needs_no_right_but_to_list_and_names_what_is_lost_while_it_runs(
    cluster: Bench, tmp_path: Path
) -> None:
    with (
        as_reader(cluster, tmp_path) as kubeconfig,
        serve_ui(kubeconfig=kubeconfig) as shown,
    ):
        mark = cluster.audit.mark()
        good = shown.read_state()
        expect_state(
            cluster, shown, "it is read again", lambda state: state["takenAt"] > good["takenAt"]
        )
        calls = [call for call in cluster.audit.calls(mark) if call.user.endswith(":reader")]
        # What may not be listed is asked for elsewhere, and refused too.
        assert {call.verb for call in calls if call.code < 400} == {"list"}

        cluster.call("PATCH", READER, {"rules": []})
        # Whichever list comes first after the right is gone: nodes are, the next time.
        lost = expect_state(
            cluster,
            shown,
            "it says what is missing",
            lambda state: has_failed(state) and 'resource "nodes"' in state["problem"]["message"],
        )
    assert lost["problem"]["code"] == Exit.FORBIDDEN
    assert lost["problem"]["since"] >= lost["takenAt"] >= good["takenAt"]
    assert lost["pools"] == good["pools"]


def test_an_outage_ends_and_whoever_switched_the_context_meanwhile_sees_the_same_cluster(
    cluster: Bench, proxy: FaultProxy, tmp_path: Path
) -> None:
    with as_reader(cluster, tmp_path, url=proxy.url) as file:
        config = yaml.safe_load(file.read_text())
        first = config["current-context"]
        config["clusters"].append({"name": "other", "cluster": {"server": "https://127.0.0.1:1"}})
        user = config["contexts"][0]["context"]["user"]
        config["contexts"].append({"name": "other", "context": {"cluster": "other", "user": user}})
        file.write_text(yaml.safe_dump(config))
        with serve_ui(kubeconfig=file) as shown:
            file.write_text(yaml.safe_dump(config | {"current-context": "other"}))
            # With the next reading the kubeconfig is read anew.
            proxy.add(Rule("GET", "", status=503, times=None))
            lost = expect_state(cluster, shown, "it says that it can't read", has_failed)
            proxy.remove_all()
            state = expect_state(
                cluster, shown, "it is read again", lambda state: not has_failed(state)
            )
    assert lost["problem"]["code"] == Exit.INCOMPLETE
    assert state["source"] == f"context {first}"
    assert [pool["name"] for pool in state["pools"]] == ["training"]
