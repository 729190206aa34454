"""What a stolen token of the webhook's is worth: the caBundle of our webhooks, and nothing else."""

import base64
import json
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import partial

import pytest

from devcluster.installation import Installation
from gpushare.certs.issue import issue_authority
from tests.integration.install.account_attacks import (
    CONFIGURATION,
    SECRET,
    SECRET_ATTACKS,
    SECRETS,
    WEBHOOK_ATTACKS,
    Attack,
)
from tests.integration.install.stolen_token import JSON_PATCH, StolenToken
from tests.kit.bench import Bench
from tests.kit.cluster.expect import expect

POLICIES = ("gpushare-webhook-configuration", "gpushare-webhook-secrets")
ATTACKS = {**WEBHOOK_ATTACKS, **SECRET_ATTACKS}
_POLICIES = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"
ACCOUNTS = ("gpushare-webhook", "gpushare-controller")
"""The controller's is the webhook's too where both are one process."""


def send(token: StolenToken, attack: Attack) -> tuple[int, str]:
    """Nothing of it stays."""
    path = f"{attack.path}{'&' if '?' in attack.path else '?'}dryRun=All"
    content_type = attack.content_type if attack.method == "PATCH" else "application/json"
    return token.send(attack.method, path, attack.body, content_type=content_type)


def is_refused(token: StolenToken, attack: Attack) -> bool:
    return attack.refusal in send(token, attack)[1]


@pytest.fixture(scope="module")
def secret(installed: Bench) -> Iterator[str]:
    """The webhook's Secret, without a certificate in it."""
    name = SECRET.rpartition("/")[2]
    data = {"tls.crt": "", "tls.key": ""}
    body = {"metadata": {"name": name}, "type": "kubernetes.io/tls", "data": data}
    installed.operators.end_all()
    if installed.cluster.api.exists(SECRET):
        installed.call("DELETE", SECRET)
    installed.call("POST", SECRETS, body)
    yield name
    installed.call("DELETE", SECRET)


@pytest.fixture(scope="module", params=ACCOUNTS)
def almighty(
    request: pytest.FixtureRequest, installed: Bench, secret: str
) -> Iterator[StolenToken]:
    """A token that RBAC keeps from nothing; the API server has taken up the policy."""
    token = StolenToken(installed, request.param)
    with token.with_every_right():
        for name in ("another server", "no configuration", "a Secret of another name"):
            expect(
                installed,
                f"{name} is refused",
                partial(is_refused, token, ATTACKS[name]),
            )
        yield token


def test_the_webhook_may_write_its_ca_into_each_webhook(installed: Bench) -> None:
    webhooks = installed.call("GET", CONFIGURATION)["webhooks"]
    bundle = base64.b64encode(issue_authority(datetime.now(UTC)).certificate_pem).decode()
    operations = [
        {"op": "add", "path": f"/webhooks/{index}/clientConfig/caBundle", "value": bundle}
        for index, _ in enumerate(webhooks)
    ]
    writes = Attack("PATCH", CONFIGURATION, "", operations, JSON_PATCH)
    status, answer = send(StolenToken(installed, "gpushare-webhook"), writes)
    assert status == 200, answer


def test_the_webhook_may_write_its_certificate(installed: Bench, secret: str) -> None:
    token = StolenToken(installed, "gpushare-webhook")
    read = json.loads(token.send("GET", SECRET)[1])
    read["data"] |= {"ca.crt": "eA=="}
    status, answer = send(token, Attack("PUT", SECRET, "", read))
    assert status == 200, answer


@pytest.mark.parametrize("attack", ATTACKS.values(), ids=list(ATTACKS))
def test_whatever_else_is_tried_is_refused_whichever_rights_it_has(
    almighty: StolenToken, attack: Attack
) -> None:
    status, answer = send(almighty, attack)
    assert (status, attack.refusal in answer) == (403, True), answer
    assert any(f"ValidatingAdmissionPolicy '{name}'" in answer for name in POLICIES)


def test_others_are_none_of_its_business(installed: Bench) -> None:
    patch = {"metadata": {"labels": {"a": "b"}}}
    changed = installed.call("PATCH", f"{CONFIGURATION}?dryRun=All", patch)
    assert changed["metadata"]["labels"]["a"] == "b"


@pytest.mark.parametrize("name", POLICIES)
def test_the_api_server_understands_every_expression(installed: Bench, name: str) -> None:
    def find_checked() -> dict[str, object] | None:
        policy = installed.call("GET", f"{_POLICIES}/{name}")
        status: dict[str, object] = policy.get("status", {})
        return status if status.get("observedGeneration") else None

    assert expect(installed, "it is checked", find_checked).get("typeChecking", {}) == {}


def test_without_the_policy_there_is_no_trace_of_it(installed: Bench) -> None:
    values = {"webhook.accountPolicy.enabled": "false"}
    manifests = Installation(installed.cluster, values=values).render()
    assert not any(name in manifests for name in POLICIES)
