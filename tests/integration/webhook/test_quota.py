"""The ResourceQuota of docs/tenants.md, and what the webhook does with pods that it refuses."""

import json
import subprocess
from collections.abc import Iterator

import pytest
import yaml

from devcluster.apiserver import ApiError
from tests.kit.bench import Bench, Json
from tests.kit.cluster.expect import expect
from tests.kit.cluster.namespaces import Namespace, temporary_namespace
from tests.kit.cluster.pod_admission import given_pools, pool_of
from tests.kit.values.doc_pages import DOCS, Page
from tests.kit.values.manifests import build_pod, build_whole_card_pod, build_workload

USED = "requests.aliyun.com/gpu-mem"


def read_manifest() -> Json:
    """The page's quota, of 8 units."""
    blocks = Page(DOCS / "tenants.md").blocks
    (text,) = (block.text for block in blocks if "kind: ResourceQuota" in block.text)
    manifest: Json = yaml.safe_load(text)
    return manifest


@pytest.fixture
def team(bench: Bench) -> Iterator[Namespace]:
    """A namespace with the page's quota in force, and a pool that takes its pods."""
    bench.operators.standard()
    given_pools(bench, training={"schedule": "cgpu"})
    quota = read_manifest()
    with temporary_namespace(bench) as space:
        quota["metadata"]["namespace"] = space.name
        bench.call("POST", f"{space.path}/resourcequotas", quota)
        expect(bench, "the quota is counted", lambda: read_used(space) is not None)
        yield space


def read_used(space: Namespace) -> str | None:
    quota = space.bench.call(
        "GET", f"{space.path}/resourcequotas/{read_manifest()['metadata']['name']}"
    )
    used: str | None = quota.get("status", {}).get("used", {}).get(USED)
    return used


def test_the_second_pod_is_refused_where_both_ask_for_more_than_the_quota(team: Namespace) -> None:
    assert pool_of(team.create(build_pod("first", gib=5))) == "training"
    with pytest.raises(ApiError, match=r"exceeded quota: gpu-memory.*used: .*gpu-mem=5") as refused:
        team.create(build_pod("second", gib=4))
    assert refused.value.status == 403
    # What is left can be used, and pods without a GPU are none of its business.
    assert pool_of(team.create(build_pod("third", gib=3))) == "training"
    team.create(build_pod("plain", gib=None))
    assert read_used(team) == "8"


def test_a_deployment_is_told_its_pool_and_its_pods_are_refused_by_the_quota(
    team: Namespace,
) -> None:
    manifest = build_workload("Deployment", "web", pod=build_pod("web", gib=9))
    manifest["metadata"] = {"name": "web", "namespace": team.name}
    created = subprocess.run(
        [str(team.bench.cluster.binaries / "kubectl"), "create", "--filename=-"],
        input=json.dumps(manifest),
        env=team.bench.cluster.environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert "training" in created.stderr

    def read_cause() -> str:
        path = f"/apis/apps/v1/namespaces/{team.name}/deployments/web"
        conditions = team.bench.call("GET", path).get("status", {}).get("conditions", [])
        failed = [each for each in conditions if each["type"] == "ReplicaFailure"]
        return failed[0]["message"] if failed else ""

    expect(team.bench, "the quota is named", lambda: "exceeded quota: gpu-memory" in read_cause())


def test_a_quota_counts_whole_cards_apart(team: Namespace) -> None:
    with pytest.raises(ApiError, match="exceeded quota: gpu-memory"):
        team.create(build_whole_card_pod("whole"))
