"""A cluster that calls a device plugin's DaemonSet otherwise than ACK's charts do."""

import json
from collections.abc import Iterator

import pytest

from devcluster import names
from devcluster.editions import install_daemonsets, load_edition
from devcluster.installation import Installation
from tests.integration.install.stolen_token import StolenToken
from tests.kit.bench import DAEMONSETS, PLUGIN, SYSTEM_PODS, Bench
from tests.kit.cluster.expect import expect, expect_pool_ready, expect_reason
from tests.kit.values.manifests import build_pod, build_pool, build_workload

RENAMED = "ack-gpushare-plugin"
VALUE = f"pluginDaemonSets.{PLUGIN}"
SETTING = {"GPUSHARE_PLUGIN_DAEMONSETS": json.dumps({PLUGIN: RENAMED})}


@pytest.fixture
def renamed(bench: Bench) -> Iterator[Bench]:
    """The Professional edition, with another name for the plugin of `share` and `cgpu`, which the
    installation was told."""
    manifests = load_edition("Professional")
    plugin = next(each for each in manifests if each["metadata"]["name"] == PLUGIN)
    plugin["metadata"]["name"] = RENAMED
    plugin["spec"]["template"]["metadata"]["annotations"][names.RUNS] = PLUGIN
    install_daemonsets(bench.cluster, manifests)
    Installation(bench.cluster, {VALUE: RENAMED}).apply()
    bench.operators.start(env=SETTING)
    yield bench
    bench.operators.end_all()
    bench.operators.installation.apply()
    bench.call("DELETE", f"{DAEMONSETS}/{RENAMED}")


def test_only_the_pods_of_the_given_name_are_deleted(renamed: Bench) -> None:
    bench = renamed
    bench.add_nodes("n1")
    bench.create_pool(build_pool())
    expect_pool_ready(bench, nodes=1)
    plugin = bench.plugins(RENAMED)["n1"]["metadata"]["name"]
    bench.call(
        "POST", DAEMONSETS, build_workload("DaemonSet", PLUGIN, pod=build_pod("p", gib=None))
    )
    other = expect(bench, "it runs", lambda: bench.plugins(PLUGIN).get("n1"))["metadata"]["name"]

    token = StolenToken(bench, "gpushare-controller")

    def delete(pod: str) -> tuple[int, str]:
        return token.send("DELETE", f"{SYSTEM_PODS}/{pod}?dryRun=All")

    expect(bench, "the policy has the name", lambda: delete(plugin)[0] == 200)
    status, answer = delete(other)
    assert status == 403
    assert "ValidatingAdmissionPolicy 'gpushare-controller-pods'" in answer

    mark = bench.audit.mark()
    bench.change_pool(schedule="cgpu")
    assert PLUGIN in expect_reason(bench, "n1", "CompetingPlugins")["message"]
    assert "unschedulable" not in bench.node("n1")["spec"]
    bench.call("DELETE", f"{DAEMONSETS}/{PLUGIN}")
    expect_pool_ready(bench, nodes=1)
    assert bench.audit.our_deletions(mark) == [plugin]
