"""Drives the admission policy on a real control plane: its table, and pods created as dry runs."""

import json
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import count
from typing import Any

from devcluster.apiserver import ApiError
from gpushare import names
from gpushare.api.k8s.namespace import Namespace, parse_namespace
from gpushare.core.admission.pool_view import PoolView
from gpushare.core.admission.table import build_table
from tests.kit.bench import TABLES, Bench
from tests.kit.cluster.expect import expect
from tests.kit.cluster.namespaces import expect_account
from tests.kit.values.manifests import build_empty_table, build_pod
from tests.kit.values.pool_views import a_view

Json = dict[str, Any]
SPACES = "/api/v1/namespaces"
_REGISTRATION = "/apis/admissionregistration.k8s.io/v1"
_POLICY = f"{_REGISTRATION}/mutatingadmissionpolicies/gpushare-pools"
_WEBHOOKS = f"{_REGISTRATION}/mutatingwebhookconfigurations/gpushare-webhook"
_IN_FLIGHT = 6
_MARK = '"reason":"RoutedByPolicy"'
_VERSION = '{"v":1,'
_STRICT_VERSION = '{"v":2,'
"""Of decisions while the policy fails: by it is seen which policy is in force."""


class PolicyBench:
    """The chart's policy without a webhook, so that all that a pod gets is the policy's."""

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        self.namespaces: dict[str, Namespace] = {}
        self._numbers = count(1)
        self._calls = ThreadPoolExecutor(_IN_FLIGHT)
        bench.call("DELETE", _WEBHOOKS)
        self._probes = self.add_namespace({})

    def close(self) -> None:
        self._calls.shutdown()
        for name in self.namespaces:
            self.bench.call("DELETE", f"{SPACES}/{name}")

    def add_namespace(self, labels: Mapping[str, str]) -> str:
        """Create a namespace, which is deleted at the end, and return its name."""
        metadata = {"generateName": "policy-", "labels": dict(labels)}
        namespace = parse_namespace(self.bench.call("POST", SPACES, {"metadata": metadata}))
        expect_account(self.bench, namespace.name)
        self.namespaces[namespace.name] = namespace
        return namespace.name

    def write_table(self, pools: Sequence[PoolView]) -> list[PoolView]:
        """Make these pools the table's, and wait until the API server sees them. Return them with
        one more, by which that is seen."""
        probe = a_view(f"probe-{next(self._numbers)}", "share", on_request=True, room=None)
        views = [*pools, probe]
        self.write_spec(build_table(views).dump())
        self.expect_seen(probe.name)
        return views

    def write_odd_spec(self, spec: Json) -> None:
        """Make the table this, with one pool more, by which it is seen."""
        probe = a_view(f"probe-{next(self._numbers)}", "share", on_request=True, room=None)
        more = build_table([probe]).dump()
        self.write_spec(
            spec
            | {"modes": spec["modes"] | more["modes"], "pools": [*spec["pools"], *more["pools"]]}
        )
        self.expect_seen(probe.name)

    def write_spec(self, spec: Json) -> None:
        table = build_empty_table() | {"spec": spec}
        path = f"{TABLES}/pools"
        if self.bench.cluster.api.exists(path):
            # Not a merge patch, which would keep modes that are not named.
            table["metadata"] = self.bench.call("GET", path)["metadata"]
            self.bench.call("PUT", path, table)
        else:
            self.bench.call("POST", TABLES, table)

    def expect_seen(self, pool: str, version: int | None = None) -> None:
        """Wait until the policy in force sends a pod to `pool` that requests it, and writes
        decisions of this version."""
        pod = build_pod("probe", annotations={names.ANNOTATION_POOL: pool})

        def is_seen() -> bool:
            decision = read_decision(self.create(self._probes, pod))
            return decision.get("pool") == pool and version in (None, decision["v"])

        expect(self.bench, f"pods are sent to {pool}", is_seen)

    def create(self, namespace: str, pod: Json) -> Json:
        """Create a pod as a dry run and return it. Raises ApiError where it is refused."""
        created: Json = self.bench.call("POST", f"{SPACES}/{namespace}/pods?dryRun=All", pod)
        return created

    def create_all(self, pods: Sequence[tuple[str, Json]]) -> list[Json | ApiError]:
        """Create pods, by namespace, as dry runs side by side; return what comes of each."""
        return list(self._calls.map(self._try, pods))

    def _try(self, sent: tuple[str, Json]) -> Json | ApiError:
        try:
            return self.create(*sent)
        except ApiError as error:
            return error

    def read_policy(self) -> Json:
        """Read the policy's spec."""
        spec: Json = self.bench.call("GET", _POLICY)["spec"]
        return spec

    @contextmanager
    def strict(self) -> Iterator[None]:
        """Refuse, within the block, what the policy can't evaluate; the table is lost."""
        spec = self.read_policy()
        changed = json.loads(json.dumps(spec).replace(_quote(_VERSION), _quote(_STRICT_VERSION)))
        self._write_policy(changed | {"failurePolicy": "Fail"}, version=2)
        try:
            yield
        finally:
            self._write_policy(spec, version=1)

    def _write_policy(self, spec: Json, version: int) -> None:
        self.bench.call("PATCH", _POLICY, {"spec": spec})
        probe = a_view(f"probe-{next(self._numbers)}", "share", room=None)
        self.write_spec(build_table([probe]).dump())
        self.expect_seen(probe.name, version)


def _quote(text: str) -> str:
    return json.dumps(text)[1:-1]


def read_decision(pod: Json) -> Json:
    """Read the decision of a pod; empty where it has none of ours."""
    text = (pod["metadata"].get("annotations") or {}).get(names.ANNOTATION_DECISION, "")
    decision: Json = json.loads(text) if text.startswith('{"v":') and _MARK in text else {}
    return decision
