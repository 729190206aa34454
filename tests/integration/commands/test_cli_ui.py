"""`gpushare ui` beside a real API server: what it tells, and what it says when that fails."""

import json
import signal
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpushare.cli.exits import Exit
from tests.kit.arrange import given_sharing_pool, place_pod
from tests.kit.bench import Bench
from tests.kit.commandline import Ended, expect_told, run_command
from tests.kit.expect import expect, expect_allocated, expect_running
from tests.kit.faultproxy import FaultProxy, Rule
from tests.kit.pageserver import ShownPage, showing_page
from tests.kit.persons import a_reader
from tests.kit.tokens import write_kubeconfig

Json = dict[str, Any]

ACCOUNTS = "/api/v1/namespaces/default/serviceaccounts"
ROLES = "/apis/rbac.authorization.k8s.io/v1/clusterroles"
BINDINGS = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"
VISITOR = "visitor"
NOT_FOUND = b"404 page not found"


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


@pytest.fixture
def proxied(cluster: Bench, proxy: FaultProxy, tmp_path: Path) -> Iterator[Path]:
    """A kubeconfig that leads to the proxy."""
    with a_reader(cluster, tmp_path, url=proxy.url) as kubeconfig:
        yield kubeconfig


def expect_state(bench: Bench, shown: ShownPage, what: str, holds: Callable[[Json], bool]) -> Json:
    """The first state of which that holds."""

    def probe() -> Json | None:
        state = shown.read_state()
        return state if holds(state) else None

    return expect(bench, what, probe)


def has_failed(state: Json) -> bool:
    return state["problem"] is not None


def test_the_state_is_what_inspect_prints(cluster: Bench) -> None:
    kubeconfig = cluster.cluster.kubeconfig
    printed = run_command("inspect", "--pools", "-o", "json", kubeconfig=kubeconfig).out
    said: Json = json.loads(printed)
    with showing_page(kubeconfig=kubeconfig) as shown:
        state = shown.read_state()
    assert {key: state[key] for key in said} == said
    assert (state["installed"], state["outside"], state["problem"]) == (True, [], None)
    (first, _) = state["pools"][0]["nodes"]
    assert first["cards"][0]["held"] == {"default/trainer": 6}


def test_who_has_seen_a_state_is_told_only_of_the_node_that_changed(cluster: Bench) -> None:
    with showing_page(kubeconfig=cluster.cluster.kubeconfig) as shown:
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
    assert not told["whole"]
    assert [(n["name"], n["cordoned"]) for n in told["pools"][0]["nodes"]] == [("n2", True)]


@pytest.fixture
def visitor(cluster: Bench, tmp_path: Path) -> Iterator[Path]:
    """The kubeconfig of an account that may list what the page shows, and nothing else."""
    rules = [
        {"apiGroups": ["", "apps", "gpushare.io"], "verbs": ["list"],
         "resources": ["nodes", "pods", "namespaces", "daemonsets", "gpusharepools"]}
    ]  # fmt: skip
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": VISITOR}
    subject = {"kind": "ServiceAccount", "name": VISITOR, "namespace": "default"}
    named = {"metadata": {"name": VISITOR}}
    cluster.call("POST", ACCOUNTS, named)
    cluster.call("POST", ROLES, {**named, "rules": rules})
    cluster.call("POST", BINDINGS, {**named, "roleRef": role, "subjects": [subject]})
    account = f"{ACCOUNTS}/{VISITOR}"
    kubeconfig = write_kubeconfig(cluster, tmp_path / "kubeconfig", account)
    try:
        inspect = ("inspect", "--pools")
        expect(
            cluster,
            "the role is in force",
            lambda: run_command(*inspect, kubeconfig=kubeconfig).code == 0,
        )
        yield kubeconfig
    finally:
        for path in (BINDINGS, ROLES, ACCOUNTS):
            if cluster.cluster.api.exists(f"{path}/{VISITOR}"):
                cluster.call("DELETE", f"{path}/{VISITOR}")


def test_it_needs_no_right_but_to_list_and_names_what_is_lost_while_it_runs_with_since_when(
    cluster: Bench, visitor: Path
) -> None:
    mark = cluster.audit.mark()
    with showing_page(kubeconfig=visitor) as shown:
        good = shown.read_state()
        expect_state(
            cluster, shown, "it is read again", lambda state: state["takenAt"] > good["takenAt"]
        )
        calls = [c for c in cluster.audit.calls(mark) if c.user.endswith(VISITOR)]
        # A refused list of Deployments has it ask where the operator runs, which is refused too.
        assert {call.verb for call in calls if call.code < 400} == {"list"}

        cluster.call("DELETE", f"{BINDINGS}/{VISITOR}")
        # Whichever list comes first after the right is gone: nodes are, the next time.
        lost = expect_state(
            cluster,
            shown,
            "it says what is missing",
            lambda state: has_failed(state) and 'resource "nodes"' in state["problem"]["message"],
        )

    assert lost["problem"]["code"] == Exit.FORBIDDEN
    assert "a right is missing" in lost["problem"]["message"]
    assert 'cannot list resource "nodes"' in lost["problem"]["message"]
    assert lost["problem"]["since"] >= lost["takenAt"] >= good["takenAt"]
    assert lost["pools"] == good["pools"]


def test_an_api_server_that_goes_away_and_comes_back_is_read_again(
    cluster: Bench, proxy: FaultProxy, proxied: Path
) -> None:
    with showing_page(kubeconfig=proxied) as shown:
        proxy.add(Rule("GET", "", status=503, times=None))
        lost = expect_state(cluster, shown, "it says that it can't read", has_failed)
        assert lost["problem"]["code"] == Exit.INCOMPLETE
        proxy.remove_all()
        expect_state(cluster, shown, "it is read again", lambda state: not has_failed(state))


def test_who_switches_to_another_context_meanwhile_is_not_shown_its_cluster(
    cluster: Bench, proxy: FaultProxy, proxied: Path
) -> None:
    config = yaml.safe_load(proxied.read_text())
    first = config["current-context"]
    nowhere = {"name": "other", "cluster": {"server": "https://127.0.0.1:1"}}
    config["clusters"].append(nowhere)
    user = config["contexts"][0]["context"]["user"]
    config["contexts"].append({"name": "other", "context": {"cluster": "other", "user": user}})
    proxied.write_text(yaml.safe_dump(config))
    with showing_page(kubeconfig=proxied) as shown:
        proxied.write_text(yaml.safe_dump(config | {"current-context": "other"}))
        # With the next reading the kubeconfig is read anew.
        proxy.add(Rule("GET", "", status=503, times=None))
        expect_state(cluster, shown, "it says that it can't read", has_failed)
        proxy.remove_all()
        state = expect_state(
            cluster, shown, "the same cluster is read again", lambda state: not has_failed(state)
        )
    assert state["source"] == f"context {first}"
    assert [pool["name"] for pool in state["pools"]] == ["training"]


def test_before_the_operator_is_installed_it_shows_the_nodes(
    proxy: FaultProxy, proxied: Path
) -> None:
    proxy.add(Rule("GET", "/gpusharepools", status=404, times=None, body=NOT_FOUND))
    with showing_page(kubeconfig=proxied) as shown:
        state = shown.read_state()
    assert (state["installed"], state["pools"]) == (False, [])
    assert [node["name"] for node in state["outside"]] == ["n1", "n2"]
    assert state["outside"][0]["cards"][0]["held"] == {"default/trainer": 6}


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_ends_it_without_another_word(cluster: Bench, number: int) -> None:
    with showing_page(kubeconfig=cluster.cluster.kubeconfig) as shown:
        assert shown.end(number) == Ended(0, "", "Ctrl-C ends it.\n")


def test_a_port_that_is_taken(cluster: Bench) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        ended = run_command("ui", "--port", port, kubeconfig=cluster.cluster.kubeconfig)
    expect_told(ended, Exit.FAILURE, f"port {port} of 127.0.0.1 can't be had", "--port")


def test_without_a_cluster_there_is_no_page(cluster: Bench, tmp_path: Path) -> None:
    nowhere = "https://127.0.0.1:1"
    account = f"{ACCOUNTS}/default"
    kubeconfig = write_kubeconfig(cluster, tmp_path / "kubeconfig", account, server=nowhere)
    ended = run_command("ui", kubeconfig=kubeconfig)
    expect_told(ended, Exit.NO_CLUSTER, "no API server at 127.0.0.1:1")
