"""Which workloads of a cluster `migrate workloads` reads."""

from gpushare.cli.migrate.workloads import FoundWorkloads, list_workloads
from gpushare.kube.client import ApiClient
from tests.kit.values.fake_api import FakeApi
from tests.kit.values.manifests import Json

BUILT_IN = (
    *(f"apis/apps/v1/{kind}" for kind in ("deployments", "statefulsets", "daemonsets")),
    *("apis/batch/v1/jobs", "apis/batch/v1/cronjobs", "apis/apps/v1/replicasets"),
    *(f"api/v1/{kind}" for kind in ("pods", "resourcequotas", "limitranges")),
)
RAY = "apis/ray.io/v1/rayclusters"


def build_api(**groups: str) -> FakeApi:
    api = FakeApi(*BUILT_IN)
    listed = [
        {"name": name, "preferredVersion": {"groupVersion": f"{name}/{version}"}}
        for name, version in groups.items()
    ]
    api.put("apis", {"groups": listed})
    return api


async def find(api: FakeApi) -> FoundWorkloads:
    client: ApiClient
    async with api.connected() as client:
        return await list_workloads(client, None, "", lambda _: True)


async def test_kinds_of_other_projects_are_read_where_the_cluster_has_their_group() -> None:
    api = build_api(**{"ray.io": "v1"})
    cluster: Json = {"metadata": {"name": "ray", "namespace": "default"}}
    api.put(RAY, {"items": [cluster]})
    found = await find(api)
    assert [(each["apiVersion"], each["kind"]) for each in found.objects] == [
        ("ray.io/v1", "RayCluster")
    ]
    assert found.forbidden == ()


async def test_what_the_user_may_not_list_is_said_and_the_rest_is_read() -> None:
    api = build_api(**{"ray.io": "v1", "kubeflow.org": "v1"})
    api.forbidden.add(RAY)
    assert await find(api) == ((), ("rayclusters",))


async def test_a_cluster_without_other_projects_is_asked_for_nothing_of_them() -> None:
    assert await find(build_api()) == ((), ())
