"""Creates pods as their owners do, and reads admission's decisions."""

import json
import re
import subprocess
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tests.kit.bench import POOL, Bench, Json
from tests.kit.cluster.expect import expect
from tests.kit.cluster.namespaces import Namespace, default_namespace
from tests.kit.values.manifests import build_pod, build_pool

ISOLATION = "gpushare.io/isolation"
DECISION = "gpushare.io/decision"
CONFIGURATION = (
    "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/gpushare-webhook"
)
_CALLS = re.compile(
    r'^apiserver_admission_webhook_request_total\{.*name="([^"]+)".*\} ([0-9.e+]+)$', re.MULTILINE
)
_PREFIX = "Warning: "


@dataclass(frozen=True)
class Answer:
    """kubectl's output for a manifest."""

    succeeded: bool
    text: str

    @property
    def warnings(self) -> list[str]:
        lines = self.text.splitlines()
        return [line.removeprefix(_PREFIX) for line in lines if line.startswith(_PREFIX)]


def kubectl_create(bench: Bench, manifest: Json) -> Answer:
    """Create a manifest by kubectl as a dry run."""
    done = subprocess.run(
        [
            str(bench.cluster.binaries / "kubectl"),
            *("create", "--dry-run=server", "--output=name", "--filename=-"),
        ],
        input=json.dumps(manifest),
        env=bench.cluster.environment,
        capture_output=True,
        text=True,
        check=False,
    )
    return Answer(done.returncode == 0, done.stderr)


def given_pools(bench: Bench, **specs: Mapping[str, Any]) -> None:
    """Create pools without nodes, by default in mode share; wait until the webhook knows them."""
    for name in specs:
        # Of a test before this one: what was heard of it must not pass for the new one.
        expect_known(default_namespace(bench), name, known=False)
    for name, spec in specs.items():
        bench.create_pool(build_pool(name, node_pool=name, **spec))
    for name in specs:
        expect_known(default_namespace(bench), name)


def pool_of(pod: Json) -> str | None:
    pool: str | None = pod["spec"].get("nodeSelector", {}).get(POOL)
    return pool


def decision_of(pod: Json) -> Json:
    """Read admission's annotation on the pod; empty where there is none."""
    decision: Json = json.loads(pod["metadata"].get("annotations", {}).get(DECISION, "{}"))
    return decision


def expect_known(space: Namespace, pool: str, *, known: bool = True) -> None:
    """Wait until the webhook knows `pool`, or that it does not exist."""
    probe = build_pod("probe", selects={POOL: pool})
    reason = "AlreadySelects" if known else "SelectsNoPool"
    expect(
        space.bench,
        f"of {pool} the webhook says {reason}",
        lambda: decision_of(space.send(probe)).get("reason") == reason,
    )


def expect_sent(space: Namespace, pod: Json, pool: str) -> None:
    """Wait until such pods are assigned to `pool`, since the webhook learns of changes later."""
    expect(space.bench, f"pods go to {pool}", lambda: pool_of(space.send(pod)) == pool)


def count_calls(bench: Bench) -> Counter[str]:
    """Count the API server's calls so far, by the webhook's name in our configuration."""
    metrics = bench.cluster.kubectl("get", "--raw", "/metrics")
    calls: Counter[str] = Counter()
    for name, value in _CALLS.findall(metrics):
        if name.endswith(".gpushare.io"):
            calls[name] += int(float(value))
    return calls
