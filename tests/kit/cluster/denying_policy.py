"""An admission policy that denies the operator every write to one node."""

from types import TracebackType
from typing import Self

from devcluster.errors import CommandError
from tests.kit.bench import Bench
from tests.kit.cluster.audit_log import OURS
from tests.kit.cluster.expect import expect

_POLICIES = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"
_BINDINGS = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings"
_NAME = "nodes-under-maintenance"
SENTENCE = "this node is under maintenance"


class RefusedNode:
    """Within its block, the API server refuses what the operator writes to `node`."""

    def __init__(self, bench: Bench, node: str) -> None:
        self._bench, self._node = bench, node

    def __enter__(self) -> Self:
        spec = {
            "failurePolicy": "Fail",
            "matchConstraints": {
                "resourceRules": [
                    {
                        "apiGroups": [""],
                        "apiVersions": ["v1"],
                        "operations": ["UPDATE"],
                        "resources": ["nodes"],
                        "resourceNames": [self._node],
                    }
                ]
            },
            "matchConditions": [
                {"name": "ours", "expression": f"request.userInfo.username.startsWith('{OURS}')"}
            ],
            "validations": [{"expression": "false", "message": SENTENCE}],
        }
        binding = {"policyName": _NAME, "validationActions": ["Deny"]}
        for path, body in ((_POLICIES, spec), (_BINDINGS, binding)):
            self._bench.call("POST", path, {"metadata": {"name": _NAME}, "spec": body})
        try:
            expect(self._bench, f"writes to {self._node} are refused", self.holds)
        except BaseException:
            self._withdraw()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._withdraw()

    def _withdraw(self) -> None:
        for path in (_BINDINGS, _POLICIES):
            self._bench.call("DELETE", f"{path}/{_NAME}")

    def holds(self) -> bool:
        """Whether the API server has taken it up; it does so a moment after its creation."""
        try:
            self._bench.cluster.kubectl(
                "annotate", "node", self._node, "gpushare.io/drift=probe", "--overwrite",
                "--dry-run=server", f"--as={OURS}gpushare-controller",
            )  # fmt: skip
        except CommandError as error:
            return SENTENCE in str(error)
        return False
