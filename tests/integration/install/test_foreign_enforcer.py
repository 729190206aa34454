"""A cloud's controller adds an expression to each webhook, as AKS's admissions enforcer does."""

import json
from collections.abc import Iterator

import pytest

from devcluster.apiserver import ApiError
from devcluster.errors import ClusterError
from devcluster.release import Release
from tests.kit.bench import Bench, Json
from tests.kit.cluster.background_thread import Background
from tests.kit.cluster.command_line import run_command
from tests.kit.cluster.dry_run_pods import expect_routed
from tests.kit.cluster.expect import expect, expect_pool_ready, expect_quiet
from tests.kit.cluster.helm_release import GPU_NODES, start_bare_cluster
from tests.kit.cluster.pod_admission import CONFIGURATION
from tests.kit.values.manifests import build_pool

ENFORCER = "admissionsenforcer"
ADDED = {"key": "control-plane", "operator": "NotIn", "values": ["true"]}
DISABLED = "admissions.enforcer/disabled"


class Enforcer(Background):
    """Within its block it adds its expression where that is missing, unless it is told not to."""

    def __init__(self, bench: Bench) -> None:
        super().__init__(ENFORCER)
        self._bench, self.writes = bench, 0

    def _run(self) -> None:
        while not self._leaving.wait(0.2):
            configuration = self._bench.call("GET", CONFIGURATION)
            is_off = configuration["metadata"].get("annotations", {}).get(DISABLED) == "true"
            if is_off or all(map(is_added, configuration["webhooks"])):
                continue
            for webhook in configuration["webhooks"]:
                if not is_added(webhook):
                    webhook["namespaceSelector"]["matchExpressions"].append(ADDED)
            path = f"{CONFIGURATION}?fieldManager={ENFORCER}"
            try:
                self._bench.call("PUT", path, configuration)
            except ApiError as error:
                # Another was faster.
                if error.status != 409:
                    raise
            else:
                self.writes += 1


def is_added(webhook: Json) -> bool:
    return ADDED in webhook["namespaceSelector"]["matchExpressions"]


def is_enforced(bench: Bench) -> bool:
    return all(map(is_added, bench.call("GET", CONFIGURATION)["webhooks"]))


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    with start_bare_cluster("enforcer", tmp_path_factory.mktemp("enforcer")) as bench:
        yield bench


@pytest.mark.timeout(600)
def test_what_an_enforcer_adds_stays_and_an_upgrade_has_a_way(place: Bench) -> None:
    lifetimes = {"lifetimeSeconds": 15, "authorityLifetimeSeconds": 45}
    certificate = {"certificate": lifetimes}
    release = Release(place.cluster, {"crds": {"keep": False}, "webhook": certificate})
    release.install()
    place.create_pool(build_pool())
    expect_pool_ready(place, nodes=len(GPU_NODES))
    with Enforcer(place) as enforcer:
        expect(place, "it has added its expression", lambda: is_enforced(place))

        # The rotation writes only the CA.
        before = read_bundles(place)
        expect(place, "all CAs are others", lambda: not before & read_bundles(place))
        assert is_enforced(place)
        assert enforcer.writes == 1
        expect_routed(place)

        # The doctor says it once.
        ended = run_command("doctor", "-o", "json", kubeconfig=place.cluster.kubeconfig)
        found = [each for each in json.loads(ended.out)["findings"] if "control-plane" in str(each)]
        (finding,) = found
        assert (finding["code"], finding["severity"]) == ("WebhookNarrowed", "info")
        assert ENFORCER in finding["message"]

        # Helm.
        with pytest.raises(ClusterError, match="conflict"):
            release.upgrade(webhook={**certificate, "timeoutSeconds": 4})
        assert is_enforced(place)
        release.upgrade("--force-conflicts", webhook={**certificate, "timeoutSeconds": 4})
        expect(place, "it has added its expression again", lambda: is_enforced(place))
        expect_routed(place)

        # Switched off, it leaves the chart's alone.
        webhook = {**certificate, "timeoutSeconds": 4, "annotations": {DISABLED: "true"}}
        release.upgrade("--force-conflicts", webhook=webhook)
        writes = enforcer.writes
        release.upgrade(webhook={**webhook, "timeoutSeconds": 5})
        expect_quiet(place, "it leaves it alone", lambda: is_enforced(place))
        assert not is_enforced(place)
        assert enforcer.writes <= writes + 1


def read_bundles(bench: Bench) -> set[str]:
    webhooks = bench.call("GET", CONFIGURATION)["webhooks"]
    return {each["clientConfig"].get("caBundle", "") for each in webhooks}
