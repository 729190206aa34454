"""kube-proxy's part: which pods get the connections of a Service."""

from typing import Any

from devcluster.processnode.services import find_backends, parse_endpoints, parse_service

Json = dict[str, Any]

SERVICE = {
    "metadata": {"name": "gpushare-webhook", "namespace": "ns", "resourceVersion": "1"},
    "spec": {"clusterIP": "10.0.0.7", "ports": [{"name": "webhook", "port": 443}]},
}


def a_slice(*endpoints: Json, service: str = "gpushare-webhook") -> Json:
    return {
        "metadata": {
            "name": f"{service}-x",
            "namespace": "ns",
            "resourceVersion": "2",
            "labels": {"kubernetes.io/service-name": service},
        },
        "ports": [{"name": "webhook", "port": 9443}],
        "endpoints": list(endpoints),
    }


def an_endpoint(address: str, **conditions: bool) -> Json:
    return {"addresses": [address], "conditions": conditions}


READY = an_endpoint("10.1.0.1", ready=True, serving=True, terminating=False)
UNREADY = an_endpoint("10.1.0.2", ready=False, serving=False, terminating=False)
ENDING = an_endpoint("10.1.0.3", ready=False, serving=True, terminating=True)


def backends(*slices: Json, port: int = 443) -> list[tuple[str, int]]:
    service = parse_service(SERVICE)
    assert service is not None
    return find_backends(service, port, [parse_endpoints(each) for each in slices])


def test_ready_pods_get_them_at_the_port_that_has_the_services_name() -> None:
    assert backends(a_slice(READY, UNREADY, ENDING)) == [("10.1.0.1", 9443)]


def test_where_none_is_ready_those_get_them_that_end_and_still_serve() -> None:
    assert backends(a_slice(UNREADY, ENDING)) == [("10.1.0.3", 9443)]
