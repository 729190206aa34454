"""An admission policy that denies the operator every write to one node."""

from collections.abc import Iterator
from contextlib import contextmanager

from devcluster.errors import CommandError
from tests.kit.bench import Bench
from tests.kit.cluster.audit_log import OURS
from tests.kit.cluster.expect import expect

_API = "/apis/admissionregistration.k8s.io/v1"
_NAME = "nodes-under-maintenance"
_POLICY = f"{_API}/validatingadmissionpolicies"
_BINDING = f"{_API}/validatingadmissionpolicybindings"
SENTENCE = "this node is under maintenance"


@contextmanager
def node_writes_denied(bench: Bench, node: str) -> Iterator[None]:
    """Make the API server refuse the operator's writes to `node` within the block."""
    rule = {
        "apiGroups": [""],
        "apiVersions": ["v1"],
        "operations": ["UPDATE"],
        "resources": ["nodes"],
        "resourceNames": [node],
    }
    ours = f"request.userInfo.username.startsWith('{OURS}')"
    policy = {
        "failurePolicy": "Fail",
        "matchConstraints": {"resourceRules": [rule]},
        "matchConditions": [{"name": "ours", "expression": ours}],
        "validations": [{"expression": "false", "message": SENTENCE}],
    }
    binding = {"policyName": _NAME, "validationActions": ["Deny"]}
    for path, spec in ((_POLICY, policy), (_BINDING, binding)):
        bench.call("POST", path, {"metadata": {"name": _NAME}, "spec": spec})
    try:
        expect(bench, f"writes to {node} are refused", lambda: _is_denied(bench, node))
        yield
    finally:
        for path in (_BINDING, _POLICY):
            bench.call("DELETE", f"{path}/{_NAME}")


def _is_denied(bench: Bench, node: str) -> bool:
    """Tell whether the policy is in force, as a moment after its creation."""
    try:
        bench.cluster.kubectl(
            "annotate", "node", node, "gpushare.io/drift=probe", "--overwrite",
            "--dry-run=server", f"--as={OURS}gpushare-controller",
        )  # fmt: skip
    except CommandError as error:
        return SENTENCE in str(error)
    return False
