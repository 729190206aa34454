"""`gpushare ui` beside a real API server: what it tells, and what it says when that fails."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml

from gpushare.cli.exit_codes import Exit
from tests.browser.ui_server import UiServer, serve_ui
from tests.kit.bench import Bench, Json
from tests.kit.cluster.expect import expect
from tests.kit.cluster.fault_proxy import FaultProxy, Rule
from tests.kit.cluster.sharing_pools import given_sharing_pool
from tests.kit.cluster.users import as_reader

READER = "/apis/rbac.authorization.k8s.io/v1/clusterroles/reader"


@pytest.fixture(scope="module")
def cluster(installed: Bench) -> Iterator[Bench]:
    given_sharing_pool(installed, "Professional", "n1", "n2")
    yield installed
    installed.clear()


def expect_state(bench: Bench, shown: UiServer, what: str, holds: Callable[[Json], bool]) -> Json:
    """The first state of which that holds."""

    def probe() -> Json | None:
        state = shown.read_state()
        return state if holds(state) else None

    return expect(bench, what, probe)


def has_failed(state: Json) -> bool:
    return state["problem"] is not None


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
    cluster: Bench, tmp_path: Path
) -> None:
    with (
        FaultProxy(cluster.cluster) as proxy,
        as_reader(cluster, tmp_path, url=proxy.url) as file,
    ):
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
