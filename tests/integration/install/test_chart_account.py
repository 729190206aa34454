"""What a stolen token of an account of ours is worth: what its process does, and nothing else."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import pytest

from devcluster.installation import Installation
from tests.integration.chart.chart_values import Values, render_manifests
from tests.integration.install.account_attacks import (
    ATTACKS,
    BYSTANDER,
    NODE,
    POLICIES,
    POOL,
    Attack,
)
from tests.integration.install.stolen_token import StolenToken
from tests.kit.bench import DAEMONSETS, NODES, PLUGIN, PODS, SYSTEM_PODS, TABLES, Bench
from tests.kit.cluster.audit_log import THIEF
from tests.kit.cluster.expect import expect
from tests.kit.cluster.installations import NAME, SECRET, SECRETS, forget_certificate
from tests.kit.values.manifests import build_empty_table, build_pod, build_pool, build_workload

CONTROLLER = "gpushare-controller"
CASES = {
    f"{account}: {name}": (account, attack)
    for account, attacks in ATTACKS.items()
    for name, attack in attacks.items()
}
ONE_OF_EACH = {
    *("a role", "a pod of one's own", "no pool", "no table", "no configuration", "no Secret")
}
_IMPOSTORS = "/apis/apps/v1/namespaces/default/daemonsets"


@dataclass(frozen=True)
class Thief:
    """Whoever holds the token, and the names of DaemonSets' pods by what attacks call them."""

    bench: Bench
    token: StolenToken
    pods: Mapping[str, str]

    def attempt(self, attack: Attack) -> tuple[int, str]:
        return attack.attempt(self.token, self.pods)

    def expect_refusal(self, attack: Attack) -> None:
        """Until a policy refuses it: the API server takes up what is new a moment later."""
        path = f"{attack.method} {attack.path} is refused"
        expect(self.bench, path, lambda: attack.refusal in self.attempt(attack)[1])


@pytest.fixture(scope="module")
def pods(installed: Bench) -> Iterator[dict[str, str]]:
    """A node with the plugin, pods of others, a pool, and the webhook's Secret."""
    bystander = build_workload("DaemonSet", BYSTANDER, pod=build_pod("any", gib=None))
    impostor = build_workload("DaemonSet", PLUGIN, pod=build_pod("any", gib=None))
    installed.operators.end_all()
    installed.install("Professional")
    installed.add_nodes(NODE, annotations={"gpushare.io/retry": "1"})
    installed.call("POST", DAEMONSETS, bystander)
    installed.call("POST", _IMPOSTORS, impostor)
    for path, name in ((PODS, "tenant"), (SYSTEM_PODS, "alone")):
        installed.call("POST", path, build_pod(name, gib=None))
    pool = build_pool(POOL)
    pool["metadata"]["finalizers"] = ["example.com/theirs", "gpushare.io/labels"]
    installed.create_pool(pool)
    installed.call("POST", TABLES, build_empty_table())
    forget_certificate(installed)
    data = {"tls.crt": "", "tls.key": ""}
    secret = {"metadata": {"name": NAME}, "type": "kubernetes.io/tls", "data": data}
    installed.call("POST", SECRETS, secret)

    def find_pod(path: str, owner: str) -> str | None:
        for pod in installed.pods(path):
            if any(each["name"] == owner for each in pod["metadata"].get("ownerReferences", ())):
                return str(pod["metadata"]["name"])
        return None

    yield {
        BYSTANDER: expect(installed, "it runs", lambda: find_pod(SYSTEM_PODS, BYSTANDER)),
        "impostor": expect(installed, "it runs", lambda: find_pod(PODS, PLUGIN)),
    }
    installed.call("DELETE", SECRET)
    installed.call("DELETE", f"{TABLES}/pools")
    installed.call("DELETE", f"{DAEMONSETS}/{BYSTANDER}")
    installed.call("DELETE", f"{SYSTEM_PODS}/alone?gracePeriodSeconds=0")
    installed.clear()


@pytest.fixture(scope="module")
def almighty(
    request: pytest.FixtureRequest, installed: Bench, pods: dict[str, str]
) -> Iterator[Thief]:
    """With the token of an account that RBAC keeps from nothing."""
    thief = Thief(installed, StolenToken(installed, request.param), pods)
    attacks = ATTACKS[request.param]
    with thief.token.with_every_right():
        for name in ONE_OF_EACH:
            if name in attacks:
                thief.expect_refusal(attacks[name])
        yield thief


@pytest.mark.parametrize(
    ("almighty", "attack"), CASES.values(), ids=list(CASES), indirect=["almighty"]
)
def test_whatever_else_is_tried_is_refused_whichever_rights_it_has(
    almighty: Thief, attack: Attack
) -> None:
    status, answer = almighty.attempt(attack)
    assert (status, attack.refusal in answer) == (403, True), answer
    assert any(f"ValidatingAdmissionPolicy '{name}'" in answer for name in POLICIES)


@pytest.mark.parametrize("almighty", [CONTROLLER], indirect=True)
def test_evictions_are_admitted_only_with_their_switch(almighty: Thief) -> None:
    attacks, bench = ATTACKS[CONTROLLER], almighty.bench
    Installation(bench.cluster, values={"eviction.enabled": "true"}).apply()
    try:
        evicts = attacks["an eviction"]
        expect(bench, "pods may be evicted", lambda: almighty.attempt(evicts)[0] == 201)
        assert almighty.attempt(attacks["a tenant's pod"])[0] == 403
    finally:
        bench.operators.installation.apply()
        almighty.expect_refusal(evicts)


def test_the_audit_log_tells_of_each(installed: Bench, pods: dict[str, str]) -> None:
    # By this every other test sees whether a policy refuses the operator what it does.
    mark, taint = installed.audit.mark(), ATTACKS[CONTROLLER]["a taint"]
    taint.attempt(StolenToken(installed, CONTROLLER), pods)

    def is_told() -> bool:
        calls = [call for call in installed.audit.calls(mark) if call.agent == THIEF]
        return any(call.code == 403 and taint.refusal in call.message for call in calls)

    expect(installed, "the audit log tells of it", is_told)


@pytest.mark.parametrize("almighty", [CONTROLLER], indirect=True)
def test_the_table_that_is_read_may_be_created_and_changed_but_with_nothing_beside_it(
    almighty: Thief,
) -> None:
    table = f"{TABLES}/pools"
    change = {"spec": {"modes": {}, "pools": [], "count": 0, "omitted": 1}}
    assert almighty.attempt(Attack("PATCH", table, "", change))[0] == 200
    almighty.bench.call("DELETE", table)
    labelled = build_empty_table(labels={"team": "mine"})
    status, answer = almighty.attempt(Attack("POST", TABLES, "", labelled))
    assert (status, "of the admission table: labels" in answer) == (403, True), answer
    assert almighty.attempt(Attack("POST", TABLES, "", build_empty_table()))[0] == 201
    almighty.bench.call("POST", TABLES, build_empty_table())


@pytest.mark.usefixtures("pods")
def test_a_node_with_very_many_labels_can_still_be_written(installed: Bench) -> None:
    many = {f"example.com/label-{number}": "x" for number in range(2000)}
    ours = {"metadata": {"labels": {"cgpu": "true"}}}
    installed.label(NODE, many)
    try:
        writes = Attack("PATCH", f"{NODES}/{NODE}", "", ours)
        status, answer = writes.attempt(StolenToken(installed, CONTROLLER), {})
        assert status == 200, answer[:1000]
    finally:
        installed.label(NODE, dict.fromkeys(many))


def test_without_the_policies_there_is_no_trace_of_them(installed: Bench) -> None:
    values: Values = {
        "controller.accountPolicy.enabled": False,
        "webhook.accountPolicy.enabled": False,
    }
    manifests = render_manifests(installed.cluster, values)
    assert [name for name in POLICIES if name in manifests] == []
