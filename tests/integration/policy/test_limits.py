"""With how many pools the policy can deal before the API server's limits of CEL end it.

The limits are 1,000,000 units of cost for an expression and 10,000,000 for a policy (`PerCallLimit`
and `RuntimeCELCostBudget` in apiserver/pkg/apis/cel/config.go of Kubernetes).
"""

from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from devcluster.apiserver import ApiError
from gpushare.core.admission.pool_view import PoolView
from gpushare.core.admission.table import build_table
from tests.integration.policy.policy_bench import PolicyBench
from tests.kit.values.manifests import build_pod
from tests.kit.values.pool_views import a_labelled_view

Json = dict[str, Any]
KINDS_OF_NODES = 16
COUNTS = (20, 30, 60, 100)
"""Numbers of pools that are tried."""

pytestmark = pytest.mark.timeout(300)


def _build_selecting(terms: int, requirements: int) -> Json:
    """A pod whose node affinity has to be compared with all that is known: of each term the last
    requirement fails."""
    several = [{"key": "zone", "operator": "NotIn", "values": ["b"]}] * (requirements - 1)
    last = {"key": "gpu", "operator": "In", "values": ["none"]}
    listed = [{"matchExpressions": [*several, last]} for _ in range(terms)]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": listed}}
    return build_pod("p", affinity={"nodeAffinity": required})


PODS: Mapping[str, tuple[Json, int]] = {
    "no node selection": (build_pod("p"), 100),
    "a node selector": (build_pod("p", selects={"gpu": "none"}), 100),
    "10 terms of 1 requirement": (_build_selecting(10, 1), 100),
    "10 terms of 2 requirements": (_build_selecting(10, 2), 60),
    "10 terms of 5 requirements": (_build_selecting(10, 5), 20),
}
"""With the number of pools for which they must be decided on."""


def _build_pools(count: int) -> list[PoolView]:
    nodes = [{"gpu": f"card-{kind}", "zone": "a"} for kind in range(KINDS_OF_NODES)]
    return [
        a_labelled_view(f"pool-{number}", *nodes, schedule="share", room=None)
        for number in range(count)
    ]


def _list_decided(policy: PolicyBench, namespace: str) -> Iterator[tuple[str, int]]:
    """List the pods that the policy can decide on, with the number of pools."""
    for count in COUNTS:
        pools = _build_pools(count)
        policy.write_table(pools)
        entries = sum(len(pool.nodes) for pool in build_table(pools).pools)
        assert entries == count * KINDS_OF_NODES
        for name, (pod, _) in PODS.items():
            try:
                policy.create(namespace, pod)
                yield name, count
            except ApiError as error:
                if "cost limit exceeded" not in str(error):
                    raise


def test_a_hundred_pools_of_many_kinds_of_nodes_are_not_too_many(policy: PolicyBench) -> None:
    namespace = policy.add_namespace({})
    with policy.strict():
        most = dict(_list_decided(policy, namespace))
    print(f"pools={most} entries_of_each={KINDS_OF_NODES}")
    assert [name for name, (_, least) in PODS.items() if most[name] < least] == []
