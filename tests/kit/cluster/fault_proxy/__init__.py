"""A reverse proxy between the operator and the API server, in which tests cause faults: a `Rule`
selects requests and their fault, `FaultProxy` applies it."""

from tests.kit.cluster.fault_proxy.proxy import FaultProxy
from tests.kit.cluster.fault_proxy.rule import Request, Rule

__all__ = ["FaultProxy", "Request", "Rule"]
