"""A cluster that calls a device plugin's DaemonSet otherwise than ACK's charts do."""

import json
from collections.abc import Iterator

import pytest

from devcluster import names
from devcluster.editions import install_daemonsets, load_edition
from devcluster.installation import Installation
from tests.integration.install.stolen_token import StolenToken
from tests.kit.bench import DAEMONSETS, PLUGIN, SYSTEM_PODS, Bench
from tests.kit.cluster.command_line import run_command
from tests.kit.cluster.expect import expect, expect_pool_ready, expect_reason
from tests.kit.values.manifests import build_pod, build_pool, build_workload

RENAMED = "ack-gpushare-plugin"
VALUE = f"pluginDaemonSets.{PLUGIN}"
SETTING = {"GPUSHARE_PLUGIN_DAEMONSETS": json.dumps({PLUGIN: RENAMED})}


@pytest.fixture
def renamed(bench: Bench) -> Iterator[Bench]:
    """The Professional edition, with another name for the plugin of `share` and `cgpu`."""
    manifests = load_edition("Professional")
    plugin = next(each for each in manifests if each["metadata"]["name"] == PLUGIN)
    plugin["metadata"]["name"] = RENAMED
    plugin["spec"]["template"]["metadata"]["annotations"][names.RUNS] = PLUGIN
    install_daemonsets(bench.cluster, manifests)
    yield bench
    bench.operators.end_all()
    bench.call("DELETE", f"{DAEMONSETS}/{RENAMED}")


@pytest.fixture
def told(renamed: Bench) -> Iterator[Bench]:
    """The same, and the installation was told that name."""
    Installation(renamed.cluster, {VALUE: RENAMED}).apply()
    renamed.operators.start(env=SETTING)
    yield renamed
    renamed.operators.end_all()
    renamed.operators.installation.apply()


@pytest.mark.usefixtures("operator")
def test_a_plugin_of_another_name_is_shown_with_the_value_to_set(renamed: Bench) -> None:
    renamed.add_nodes("n1")
    renamed.add_nodes("n2", labels={"ack.node.gpu.schedule": "share"}, node_pool="other")
    renamed.create_pool(build_pool())

    message = expect_reason(renamed, "n1", "ComponentMissing")["message"]
    assert RENAMED in message
    assert VALUE in message

    ended = run_command("doctor", "-o", "json", kubeconfig=renamed.cluster.kubeconfig)
    findings = json.loads(ended.out)["findings"]
    (found,) = (f for f in findings if f["code"] == "ComponentMissing")
    assert found["object"] == "2 nodes"
    assert RENAMED in found["message"]
    assert VALUE in found["message"]


def test_only_the_pods_of_the_given_name_are_deleted(told: Bench) -> None:
    told.add_nodes("n1")
    told.create_pool(build_pool())
    expect_pool_ready(told, nodes=1)
    plugin = told.plugins(RENAMED)["n1"]["metadata"]["name"]
    told.call("POST", DAEMONSETS, build_workload("DaemonSet", PLUGIN, pod=build_pod("p", gib=None)))
    other = expect(told, "it runs", lambda: told.plugins(PLUGIN).get("n1"))["metadata"]["name"]

    token = StolenToken(told, "gpushare-controller")

    def delete(pod: str) -> tuple[int, str]:
        return token.send("DELETE", f"{SYSTEM_PODS}/{pod}?dryRun=All")

    expect(told, "the policy has the name", lambda: delete(plugin)[0] == 200)
    status, answer = delete(other)
    assert status == 403
    assert "ValidatingAdmissionPolicy 'gpushare-controller-pods'" in answer

    mark = told.audit.mark()
    told.change_pool(schedule="cgpu")
    assert PLUGIN in expect_reason(told, "n1", "CompetingPlugins")["message"]
    assert "unschedulable" not in told.node("n1")["spec"]
    told.call("DELETE", f"{DAEMONSETS}/{PLUGIN}")
    expect_pool_ready(told, nodes=1)
    assert told.audit.our_deletions(mark) == [plugin]
