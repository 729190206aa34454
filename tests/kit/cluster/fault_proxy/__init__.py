"""A reverse proxy between the operator and the API server, in which a test makes things go wrong.
`Rule` says which requests, and what happens to them; `FaultProxy` does it."""

from tests.kit.cluster.fault_proxy.proxy import FaultProxy
from tests.kit.cluster.fault_proxy.rule import Request, Rule

__all__ = ["FaultProxy", "Request", "Rule"]
